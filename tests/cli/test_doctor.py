# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash doctor` in a process of its own: seconds, nothing heavy imported, one line for bad input."""

import json
import subprocess
import sys
import time

DRAFTER = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "rope_theta": 20000.0,
    "block_size": 8,
    "dflash_config": {"mask_token_id": 500, "target_layer_ids": [1]},
}
TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "vocab_size": 512,
}


def test_as_a_command_in_seconds_without_torch_or_vllm(tmp_path):
    for name, config in (("drafter", DRAFTER), ("target", TARGET)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    words = ["doctor", str(tmp_path / "drafter"), "--target", str(tmp_path / "target"), "--json"]
    program = (
        f"import sys; from vllm_dflash.cli.main import main; status = main({words!r}); "
        "heavy = [m for m in ('torch', 'vllm', 'transformers', 'huggingface_hub') if m in sys.modules]; "
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert time.monotonic() - start < 10
    assert (done.returncode, done.stderr) == (1, "")
    assert [f["field"] for f in json.loads(done.stdout)["findings"] if f["level"] == "WARNING"] == ["weights"]


def test_broken_in_a_shell(tmp_path):
    (tmp_path / "config.json").write_text("{")
    command = [sys.executable, "-m", "vllm_dflash.cli", "doctor", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "config.json is not valid JSON" in done.stderr
