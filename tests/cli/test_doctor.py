# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash doctor` as a command: report, JSON, exit status, one line for bad input."""

import copy
import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vllm_dflash.cli.main import main

S, F = "sliding_attention", "full_attention"
LAYER = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "rope_theta": 20000.0,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "layer_types": [S, S, F],
    "sliding_window": 32,
    "use_sliding_window": True,
}
NATIVE = LAYER | {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "block_size": 8,
    "num_target_layers": 12,
    "dflash_config": {"mask_token_id": 500, "target_layer_ids": [1, 5, 9]},
}
SPECULATORS = {
    "architectures": ["DFlashDraftModel"],
    "speculators_model_type": "dflash",
    "speculators_config": {"algorithm": "dflash", "verifier": {"name_or_path": "owner/target"}},
    "aux_hidden_state_layer_ids": [2, 6, 10],
    "mask_token_id": 500,
    "block_size": 8,
    "draft_vocab_size": 512,
    "sliding_window_non_causal": False,
    "transformer_layer_config": LAYER,
}
TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
}


def write_weights(folder: Path) -> None:
    shapes = {"fc.weight": [64, 192], "hidden_norm.weight": [64], "norm.weight": [64]}
    for i in range(3):
        attention = {"q_proj": [64, 64], "k_proj": [32, 64], "v_proj": [32, 64], "o_proj": [64, 64]}
        shapes |= {f"layers.{i}.self_attn.{n}.weight": s for n, s in attention.items()}
        shapes |= {f"layers.{i}.self_attn.{n}.weight": [16] for n in ("q_norm", "k_norm")}
        shapes |= {f"layers.{i}.mlp.{n}.weight": [96, 64] for n in ("gate_proj", "up_proj")}
        shapes |= {f"layers.{i}.mlp.down_proj.weight": [64, 96]}
        shapes |= {f"layers.{i}.{n}.weight": [64] for n in ("input_layernorm", "post_attention_layernorm")}
    header, position = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(position))


@pytest.fixture
def folder(tmp_path: Path):
    def make(name, config, weights=True):
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        if weights:
            write_weights(path)
        return str(path)

    return make


@pytest.fixture
def doctor(capsys):
    def call(*words):
        status = main(["doctor", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def without(config, *keys):
    return {key: value for key, value in copy.deepcopy(config).items() if key not in keys}


def test_a_healthy_pair(doctor, folder):
    drafter, target = folder("drafter", NATIVE), folder("target", TARGET, weights=False)
    status, out, err = doctor(drafter, "--target", target, "--vllm-version", "0.32.0")
    assert (status, err) == (0, "")
    assert "native format, 3 layers: SSF window 32, causal TTF" in out
    assert "tap_layer_ids" in out and "config.json:dflash_config.target_layer_ids" in out
    assert "  0  window 32, causal, theta 20000 on 16 dimensions" in out
    assert "  2  full, bidirectional, theta 20000 on 16 dimensions" in out
    assert "its V1 runner would refuse it" in out and "otherwise the same" in out
    assert out.rstrip().endswith("0 errors, 0 warnings, 1 note")


def test_a_lost_window(doctor, folder):
    drafter = folder("drafter", without(NATIVE, "use_sliding_window"))
    status, out, _ = doctor(drafter, "--vllm-version", "0.32.0")
    assert status == 1
    assert "it would not start: sliding layers have no window size left" in out
    assert "use_sliding_window is missing beside sliding layer_types" in out


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0"])
def test_over_applied_causality(doctor, folder, version):
    drafter, target = folder("drafter", SPECULATORS), folder("target", TARGET, weights=False)
    status, out, _ = doctor(drafter, "--target", target, "--vllm-version", version, "--json")
    report = json.loads(out)
    assert status == report["exit_status"] == 1
    assert report["stock"]["version"] == version and report["stock"]["refusals"] == []
    (difference,) = report["stock"]["differences"]
    assert (difference["field"], difference["meant"], difference["stock"]) == (
        "layers.2.causal",
        "bidirectional",
        "causal",
    )
    assert [layer["causal"] for layer in report["layers"]] == [True, True, False]
    assert "trainer keeps full layers bidirectional" in report["layers"][2]["sources"]["causal"]
    warning = next(f for f in report["findings"] if f["level"] == "WARNING")
    assert warning["field"] == "layers.2.causal" and set(warning) == {
        "level",
        "field",
        "cause",
        "evidence",
        "remedy",
    }


DIFFERENCES = {
    "taps out of order": ({"target_layer_ids": [9, 1, 5]}, {}, "tap_layer_ids", "1,5,9 instead of 9,1,5"),
    "list of layers": (
        {"layers": [{"window": 32, "causal": False}] * 2 + [{"window": None, "causal": True}]},
        {},
        "layers.0-1.causal",
        "causal instead of bidirectional",
    ),
    "nested rope": (
        {},
        {"rope_theta": None, "rope_parameters": {S: {"rope_theta": 1e4}, F: {"rope_theta": 1e6}}},
        "layers.0-1.rope",
        "theta 1e+06 on 16 dimensions instead of theta 10000 on 16 dimensions",
    ),
    "embedding scale": ({"input_embedding_scale": 8.0}, {}, "embed_scale", "1.0 instead of 8.0"),
    "soft cap": ({"final_logit_softcapping": 30.0}, {}, "logit_softcap", "none instead of 30.0"),
    "logit scale": ({"output_multiplier": 0.5}, {}, "logit_scale", "1.0 instead of 0.5"),
    "value scale at top level": ({}, {"attention_value_scale": 0.6}, "value_scale", "1.0 instead of 0.6"),
    "anchor at top level": ({}, {"sample_from_anchor": True}, "sample_from_anchor", "false instead of true"),
    "window in another place": ({"sliding_window": 32}, {"sliding_window": None, "use_sliding_window": True},
                                "it would not start", "no window size left"),
    "sinks": ({"sample_from_anchor": True}, {}, "it would not start", "sample_from_anchor is true"),
    "activation": ({}, {"hidden_act": "gelu"}, "it would not start", "only silu"),
    "no model_type": ({}, {"model_type": None}, "it would not start", "no model_type"),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERENCES)
def test_differences(doctor, folder, case):
    nested, top, field, words = DIFFERENCES[case]
    config = {k: v for k, v in (NATIVE | top).items() if v is not None or k == "sliding_window"}
    config["dflash_config"] = NATIVE["dflash_config"] | nested
    status, out, _ = doctor(folder("drafter", config), "--vllm-version", "0.32.0")
    assert status == (0 if case in ("soft cap", "logit scale") else 1)
    assert any(field in line and words in line for line in out.splitlines()), out


def test_positions(doctor, folder):
    drafter = folder("drafter", NATIVE)
    target = folder("target", TARGET | {"max_position_embeddings": 32768}, weights=False)
    for version, words in (("0.32.0", "can end the engine"), ("0.33.0", "not trained on")):
        status, out, _ = doctor(drafter, "--target", target, "--vllm-version", version)
        assert status == 1 and words in out and "--max-model-len 4096" in out


def test_notes(doctor, folder):
    odd = copy.deepcopy(NATIVE) | {"block_size": 7}
    status, out, _ = doctor(folder("odd", odd), "--target", folder("t", TARGET, weights=False))
    assert status == 0 and "whether the anchor row predicts is not written" in out
    status, out, _ = doctor(
        folder("s", SPECULATORS), "--target", folder("other", TARGET, weights=False), "--json"
    )
    notes = [f for f in json.loads(out)["findings"] if f["field"] == "target"]
    assert [n["level"] for n in notes] == ["NOTE"] and "owner/target" in notes[0]["evidence"]


def test_partial_download(doctor, folder):
    drafter = folder("drafter", NATIVE, weights=False)
    status, out, _ = doctor(drafter)
    assert status == 1 and "the checkpoint has no weights" in out
    index = {"weight_map": {"fc.weight": "model-00001-of-00002.safetensors"}}
    (Path(drafter) / "model.safetensors.index.json").write_text(json.dumps(index))
    status, out, _ = doctor(drafter)
    assert status == 2 and "ERROR weights: the shard model-00001-of-00002.safetensors is missing" in out


def test_relatives_are_left_alone(doctor, folder):
    drafter = folder("drafter", NATIVE | {"architectures": ["DFlash2DraftModel"]})
    status, out, err = doctor(drafter)
    assert (status, err) == (0, "") and out.count("\n") == 1 and "DFlash2" in out
    status, out, _ = doctor(drafter, "--json")
    assert json.loads(out)["foreign"] == "DFlash2"


def bad(folder, tmp_path):
    yield "no config", [str(tmp_path)], "vllm-dflash recover"
    yield "no folder", [str(tmp_path / "absent")], "no such folder"
    yield "window 0", [folder("w", NATIVE | {"sliding_window": 0})], "sliding_window"
    yield "not a drafter", [folder("t", TARGET)], "not a DFlash drafter"
    drafter = folder("d", NATIVE)
    for name, changes, words in (
        ("hidden", {"hidden_size": 96}, "needed 96"),
        ("layers", {"num_hidden_layers": 8}, "past the last layer"),
        ("vocabulary", {"vocab_size": 9999}, "needed 9999"),
        ("bert", {"architectures": ["BertForMaskedLM"]}, "not a causal language model"),
    ):
        yield name, [drafter, "--target", folder(name, TARGET | changes, weights=False)], words


def test_bad_input_is_one_line(doctor, folder, tmp_path):
    for name, words, expected in bad(folder, tmp_path):
        status, out, err = doctor(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), name
        assert expected in err, (name, err)


def test_escape_sequences_of_a_checkpoint_do_not_reach_the_terminal(doctor, folder):
    config = copy.deepcopy(NATIVE)
    config["dflash_config"]["\x1b[31mred"] = 1
    status, out, _ = doctor(folder("drafter", config))
    assert status == 0 and "\x1b" not in out and "red" in out


def test_as_a_command_in_seconds_without_torch_or_vllm(folder):
    drafter, target = folder("drafter", NATIVE), folder("target", TARGET, weights=False)
    program = (
        "import sys; from vllm_dflash.cli.main import main; "
        f"status = main(['doctor', {drafter!r}, '--target', {target!r}]); "
        "heavy = [m for m in ('torch', 'vllm', 'transformers', 'huggingface_hub') if m in sys.modules]; "
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - start < 10


def test_broken_in_a_shell(tmp_path):
    (tmp_path / "config.json").write_text("{")
    command = [sys.executable, "-m", "vllm_dflash.cli", "doctor", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "config.json is not valid JSON" in done.stderr


@pytest.mark.parametrize(
    "installed, used, notes",
    [
        ("0.32.0+cpu", "0.32.0", 0),
        ("0.33.0", "0.33.0", 0),
        ("0.26.0", "0.32.0", 1),
        ("0.40.1", "0.33.0", 1),
        (None, "0.33.0", 0),
    ],
)
def test_installed_version(monkeypatch, installed, used, notes):
    from vllm_dflash.doctor import examine

    monkeypatch.setattr(examine, "installed_version", lambda: installed)
    version, findings = examine.choose_version("installed")
    assert version == used and len(findings) == notes
