# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders from values alone: config.json and sparse safetensors files of the right shapes."""

import itertools
import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

BITS = {"BF16": 16, "F32": 32, "I64": 64, "I32": 32, "BOOL": 8}
Shapes = Mapping[str, tuple[int, ...]]


def write_safetensors(path: Path, shapes: Shapes, dtypes: Mapping[str, str] | None = None) -> Path:
    """A valid file whose data part is a hole, so that real sizes cost nothing."""
    header, position = {}, 0
    for name, shape in shapes.items():
        dtype = (dtypes or {}).get(name, {"d2t": "I64", "t2d": "BOOL"}.get(name, "BF16"))
        end = position + math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    data = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(data)) + data)
    with open(path, "r+b") as file:
        file.truncate(8 + len(data) + position)
    return path


def drafter_shapes(config: Mapping[str, Any], taps: int, target_hidden: int | None = None) -> dict[str, Any]:
    """Tensors of a drafter with this (native or transformer_layer_config) size section."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    shapes = {"fc.weight": (hidden, taps * (target_hidden or hidden)), "hidden_norm.weight": (hidden,)}
    shapes["norm.weight"] = (hidden,)
    for i in range(config["num_hidden_layers"]):
        shapes |= {
            f"layers.{i}.self_attn.q_proj.weight": (heads * head, hidden),
            f"layers.{i}.self_attn.k_proj.weight": (kv_heads * head, hidden),
            f"layers.{i}.self_attn.v_proj.weight": (kv_heads * head, hidden),
            f"layers.{i}.self_attn.o_proj.weight": (hidden, heads * head),
            f"layers.{i}.self_attn.q_norm.weight": (head,),
            f"layers.{i}.self_attn.k_norm.weight": (head,),
            f"layers.{i}.mlp.gate_proj.weight": (inner, hidden),
            f"layers.{i}.mlp.up_proj.weight": (inner, hidden),
            f"layers.{i}.mlp.down_proj.weight": (hidden, inner),
            f"layers.{i}.input_layernorm.weight": (hidden,),
            f"layers.{i}.post_attention_layernorm.weight": (hidden,),
        }
    return shapes


NATIVE: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
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


@pytest.fixture(name="drafter_shapes")
def drafter_shapes_fixture() -> Callable[..., dict[str, Any]]:
    return drafter_shapes


@pytest.fixture(name="write_safetensors")
def write_safetensors_fixture() -> Callable[..., Path]:
    return write_safetensors


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
