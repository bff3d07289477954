# SPDX-License-Identifier: Apache-2.0
"""A small drafter in both formats, its target, and the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.drafter_files import SIZES, drafter_shapes, write_safetensors
from vllm_dflash.cli.main import main

S, F = "sliding_attention", "full_attention"
LAYER = SIZES | {
    "rope_theta": 20000.0,
    "hidden_act": "silu",
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


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    def make(name, config, weights=True):
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        if weights:
            write_safetensors(path / "model.safetensors", drafter_shapes(SIZES, 3))
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
