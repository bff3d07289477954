# SPDX-License-Identifier: Apache-2.0
"""The report, its JSON, its findings and its exit status, case by case."""

import json
from pathlib import Path

import pytest

S, F = "sliding_attention", "full_attention"


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


def test_a_healthy_pair(doctor, folder, native, target_config):
    drafter, target = folder("drafter", native), folder("target", target_config, weights=False)
    status, out, err = doctor(drafter, "--target", target, "--vllm-version", "0.32.0")
    assert (status, err) == (0, "")
    assert "native format, 3 layers: SSF window 32, causal TTF" in out
    assert "tap_layer_ids" in out and "config.json:dflash_config.target_layer_ids" in out
    assert "  0  window 32, causal, theta 20000 on 16 dimensions" in out
    assert "  2  full, bidirectional, theta 20000 on 16 dimensions" in out
    assert "its V1 runner would refuse it" in out and "otherwise the same" in out
    assert out.rstrip().endswith("0 errors, 0 warnings, 1 note")


def test_a_lost_window(doctor, folder, native):
    drafter = folder("drafter", without(native, "use_sliding_window"))
    status, out, _ = doctor(drafter, "--vllm-version", "0.32.0")
    assert status == 1
    assert "it would not start: sliding layers have no window size left" in out
    assert "use_sliding_window is missing beside sliding layer_types" in out


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0"])
def test_over_applied_causality(doctor, folder, version, speculators, target_config):
    drafter, target = folder("drafter", speculators), folder("target", target_config, weights=False)
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
def test_differences(doctor, folder, case, native):
    nested, top, field, words = DIFFERENCES[case]
    config = {k: v for k, v in (native | top).items() if v is not None or k == "sliding_window"}
    config["dflash_config"] = native["dflash_config"] | nested
    status, out, _ = doctor(folder("drafter", config), "--vllm-version", "0.32.0")
    refused = case in ("activation", "anchor at top level", "sinks")
    assert status == (0 if case in ("soft cap", "logit scale") else 2 if refused else 1)
    assert any(field in line and words in line for line in out.splitlines()), out


REFUSED = {
    "hidden_act": ({"hidden_act": "gelu"}, "one activation", "found 'gelu' (config.json:hidden_act), needed silu"),
    "sample_from_anchor": ({"sample_from_anchor": True}, "mask rows only", "needed False"),
    "tap_layer_ids": (
        {
            "quantization_config": {"quant_method": "fp8"},
            "dflash_config": {"mask_token_id": 3, "target_layer_ids": [5, 1, 9]},
        },
        "ascending order", "needed [1, 5, 9]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", REFUSED)
def test_what_no_engine_serves_is_an_error(doctor, folder, field, native):
    changes, cause, evidence = REFUSED[field]
    status, out, _ = doctor(folder("drafter", native | changes, weights=False), "--json")
    (error,) = [f for f in json.loads(out)["findings"] if f["level"] == "ERROR"]
    assert status == 2 and error["field"] == field
    assert "no vLLM engine serves" in error["cause"] and cause in error["cause"]
    assert evidence in error["evidence"] and error["remedy"]


def test_swish_is_silu(doctor, folder, native):
    _, out, _ = doctor(folder("drafter", native | {"hidden_act": "swish"}), "--json")
    assert not [f for f in json.loads(out)["findings"] if f["level"] == "ERROR"]


def test_positions(doctor, folder, native, target_config):
    drafter = folder("drafter", native)
    target = folder("target", target_config | {"max_position_embeddings": 32768}, weights=False)
    for version, words in (("0.32.0", "can end the engine"), ("0.33.0", "not trained on")):
        status, out, _ = doctor(drafter, "--target", target, "--vllm-version", version)
        assert status == 1 and words in out and "--max-model-len 4096" in out


def test_positions_of_a_yarn_rope_are_raised_in_no_version(doctor, folder, native, target_config):
    native["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    target = folder("target", target_config | {"max_position_embeddings": 32768}, weights=False)
    status, out, _ = doctor(folder("drafter", native), "--target", target, "--vllm-version", "0.33.0")
    assert status == 1 and "can end the engine" in out


def test_a_gemma_target(doctor, folder, native, target_config):
    gemma = target_config | {"model_type": "gemma3_text", "final_logit_softcapping": 30.0}
    target = folder("target", gemma, weights=False)
    status, out, _ = doctor(folder("drafter", native), "--target", target, "--vllm-version", "0.32.0")
    assert status == 1 and "embed_scale: 1.0 instead of 8.0" in out
    assert "NOTE logit_softcap" in out


def test_notes(doctor, folder, native, speculators, target_config):
    odd = native | {"block_size": 7}
    status, out, _ = doctor(folder("odd", odd), "--target", folder("t", target_config, weights=False))
    assert status == 0 and "whether the anchor row predicts is not written" in out
    status, out, _ = doctor(
        folder("s", speculators), "--target", folder("other", target_config, weights=False), "--json"
    )
    notes = [f for f in json.loads(out)["findings"] if f["field"] == "target"]
    assert [n["level"] for n in notes] == ["NOTE"] and "owner/target" in notes[0]["evidence"]


def test_partial_download(doctor, folder, native):
    drafter = folder("drafter", native, weights=False)
    status, out, _ = doctor(drafter)
    assert status == 1 and "the checkpoint has no weights" in out
    index = {"weight_map": {"fc.weight": "model-00001-of-00002.safetensors"}}
    (Path(drafter) / "model.safetensors.index.json").write_text(json.dumps(index))
    status, out, _ = doctor(drafter)
    assert status == 2 and "ERROR weights: the shard model-00001-of-00002.safetensors is missing" in out


def test_relatives_are_left_alone(doctor, folder, native):
    drafter = folder("drafter", native | {"architectures": ["DFlash2DraftModel"]})
    status, out, err = doctor(drafter)
    assert (status, err) == (0, "") and out.count("\n") == 1 and "DFlash2" in out
    status, out, _ = doctor(drafter, "--json")
    assert json.loads(out)["foreign"] == "DFlash2"


def bad(folder, tmp_path, native, target_config):
    yield "no config", [str(tmp_path)], "vllm-dflash recover"
    yield "no folder", [str(tmp_path / "absent")], "no such folder"
    yield "window 0", [folder("w", native | {"sliding_window": 0})], "sliding_window"
    yield "not a drafter", [folder("t", target_config)], "not a DFlash drafter"
    drafter = folder("d", native)
    for name, changes, words in (
        ("hidden", {"hidden_size": 96}, "needed 96"),
        ("layers", {"num_hidden_layers": 8}, "past the last layer"),
        ("vocabulary", {"vocab_size": 9999}, "needed 9999"),
        ("bert", {"architectures": ["BertForMaskedLM"]}, "not a causal language model"),
    ):
        yield name, [drafter, "--target", folder(name, target_config | changes, weights=False)], words


def test_bad_input_is_one_line(doctor, folder, tmp_path, native, target_config):
    for name, words, expected in bad(folder, tmp_path, native, target_config):
        status, out, err = doctor(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), name
        assert expected in err, (name, err)


def test_escape_sequences_of_a_checkpoint_do_not_reach_the_terminal(doctor, folder, native):
    config = native
    config["dflash_config"]["\x1b[31mred"] = 1
    status, out, _ = doctor(folder("drafter", config))
    assert status == 0 and "\x1b" not in out and "red" in out


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
