# SPDX-License-Identifier: Apache-2.0
"""A small drafter's sizes, the shapes of its tensors, and safetensors files of given shapes."""

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
}
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
