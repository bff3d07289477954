# SPDX-License-Identifier: Apache-2.0
"""A small drafter in both formats, its target, and the command."""

import json
import struct
from pathlib import Path
from typing import Any

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
def folder(tmp_path: Path) -> Any:
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


@pytest.fixture
def native() -> dict[str, Any]:
    return json.loads(json.dumps(NATIVE))


@pytest.fixture
def speculators() -> dict[str, Any]:
    return json.loads(json.dumps(SPECULATORS))


@pytest.fixture
def target_config() -> dict[str, Any]:
    return json.loads(json.dumps(TARGET))
