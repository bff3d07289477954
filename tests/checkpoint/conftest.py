# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders from values alone: config.json and sparse safetensors files of the right shapes."""

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.drafter_files import SIZES, Shapes, drafter_shapes, write_safetensors

NATIVE: dict[str, Any] = SIZES | {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "rope_theta": 10000.0,
    "num_target_layers": 12,
    "block_size": 8,
    "dtype": "bfloat16",
    "dflash_config": {"mask_token_id": 500, "target_layer_ids": [1, 5, 9]},
}
SPECULATORS: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "speculators_model_type": "dflash",
    "speculators_config": {
        "algorithm": "dflash",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 7}],
        "verifier": {"name_or_path": "some/target"},
    },
    "aux_hidden_state_layer_ids": [2, 6, 10],
    "block_size": 8,
    "mask_token_id": 500,
    "draft_vocab_size": 512,
    "transformer_layer_config": {
        key: value
        for key, value in NATIVE.items()
        if key not in ("architectures", "num_target_layers", "block_size", "dtype", "dflash_config")
    },
}


def changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Copy with dotted keys set, or removed where the new value is `...`."""
    result = json.loads(json.dumps(base))
    for dotted, value in changes.items():
        *parents, key = dotted.split(".")
        section = result
        for parent in parents:
            section = section.setdefault(parent, {})
        if value is ...:
            section.pop(key, None)
        else:
            section[key] = value
    return result


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write(config, shapes=None) -> folder with config.json, and model.safetensors if shapes are given."""
    count = itertools.count()

    def _write(config: Any, shapes: Shapes | None = None, dtypes: Mapping[str, str] | None = None) -> Path:
        folder = tmp_path / f"checkpoint{next(count)}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        if shapes is not None:
            write_safetensors(folder / "model.safetensors", shapes, dtypes)
        return folder

    return _write


@pytest.fixture
def native(write: Write) -> Write:
    """native({"dotted.key": value}, shapes=None) -> folder of the small native drafter with changes."""
    return lambda changes=None, shapes=None: write(changed(NATIVE, changes or {}), shapes)


@pytest.fixture
def speculators(write: Write) -> Write:
    return lambda changes=None, shapes=None: write(changed(SPECULATORS, changes or {}), shapes)


@pytest.fixture
def native_shapes() -> dict[str, Any]:
    return drafter_shapes(NATIVE, 3)


@pytest.fixture(name="changed")
def changed_fixture() -> Callable[..., dict[str, Any]]:
    return changed


TARGET: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}


@pytest.fixture
def target(write: Write) -> Write:
    return lambda changes=None: write(changed(TARGET, changes or {}))
