# SPDX-License-Identifier: Apache-2.0
"""Sizes of a drafter: config first, tensor shapes where the config is silent."""

from typing import NamedTuple

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.checkpoint.section import Answer, Section, default
from vllm_dflash.checkpoint.tensors import Tensors
from vllm_dflash.errors import UserError

QWEN3_RMS_NORM_EPS = 1e-6
QWEN3_HEAD_DIM = 128
QWEN3_MAX_POSITIONS = 32768
TORCH_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
LARGEST_LAYER_COUNT = 1024


class Dimensions(NamedTuple):
    """Answers named like the fields of DraftConfig, plus the number of layers."""

    num_hidden_layers: Answer[int]
    hidden_size: Answer[int]
    intermediate_size: Answer[int]
    num_attention_heads: Answer[int]
    num_key_value_heads: Answer[int]
    head_dim: Answer[int]
    hidden_act: Answer[str]
    rms_norm_eps: Answer[float]
    attention_bias: Answer[bool]
    max_position_embeddings: Answer[int]
    dtype: Answer[str]


def resolve_dimensions(top: Section, layer: Section, tensors: Tensors) -> Dimensions:
    """Sizes of a drafter; `layer` holds the transformer fields (`top` itself in native configs).

    Raises UserError for a size that neither the config nor a tensor shape gives.
    """
    count = _size(layer, "num_hidden_layers")
    if count.value > LARGEST_LAYER_COUNT:
        layer.refuse("num_hidden_layers is not usable", "num_hidden_layers", f"at most {LARGEST_LAYER_COUNT}")
    hidden, heads = _size(layer, "hidden_size"), _size(layer, "num_attention_heads")
    head_dim = _head_dim(layer, tensors, hidden.value, heads.value)
    kv_heads = layer.integer("num_key_value_heads", 1) or _rows_per(
        tensors, "layers.0.self_attn.k_proj.weight", head_dim
    )
    if kv_heads is None:
        layer.missing("num_key_value_heads", "the number of K/V heads of a draft layer")
    _refuse_other_architectures(top, layer, head_dim.value)
    if heads.value % kv_heads.value:
        layer.refuse(
            "heads do not divide", "num_key_value_heads", f"a divisor of {heads.value} attention heads"
        )
    return Dimensions(
        num_hidden_layers=count,
        hidden_size=hidden,
        intermediate_size=_size(layer, "intermediate_size"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        hidden_act=layer.text("hidden_act") or default("silu", "Qwen3Config's default"),
        rms_norm_eps=layer.number("rms_norm_eps") or default(QWEN3_RMS_NORM_EPS, "Qwen3Config's default"),
        attention_bias=_attention_bias(layer, tensors),
        max_position_embeddings=layer.integer("max_position_embeddings", 1)
        or default(QWEN3_MAX_POSITIONS, "Qwen3Config's default"),
        dtype=_dtype(top, layer, tensors),
    )


def _refuse_other_architectures(top: Section, layer: Section, head_dim: int) -> None:
    value_dim = layer.integer("v_head_dim", 1)
    if value_dim is not None and value_dim.value != head_dim:
        layer.refuse("value heads differ from key heads", "v_head_dim", f"{head_dim} (head_dim)")
    for section in (top, top.section("dflash_config")):
        mode = section.text("attention_mode") if section else None
        if section is not None and mode is not None and mode.value not in ("gqa", "mha"):
            section.refuse("this attention is not implemented", "attention_mode", "gqa or mha")
        fused = section.boolean("use_aux_hidden_state") if section else None
        if section is not None and fused is not None and not fused.value:
            section.refuse("a drafter without target features", "use_aux_hidden_state", "true")


def _size(section: Section, key: str) -> Answer[int]:
    answer = section.integer(key, 1)
    if answer is None:
        section.missing(key, "an integer >= 1")
    return answer


def _rows_per(tensors: Tensors, name: str, unit: Answer[int]) -> Answer[int] | None:
    shape = tensors.shape(name)
    if shape is None or not shape or shape[0] % unit.value:
        return None
    return Answer(
        max(shape[0] // unit.value, 1), Source(tensors.infos[name].file, name, f"rows / {unit.value}")
    )


def _head_dim(layer: Section, tensors: Tensors, hidden: int, heads: int) -> Answer[int]:
    """Explicit, or from q_proj; else only if Qwen3's default and hidden / heads agree."""
    written = layer.integer("head_dim", 1)
    if written is not None:
        return written
    q_proj = "layers.0.self_attn.q_proj.weight"
    shape = tensors.shape(q_proj)
    if shape and shape[0] >= heads and shape[0] % heads == 0:
        return Answer(
            shape[0] // heads, Source(tensors.infos[q_proj].file, q_proj, "rows / num_attention_heads")
        )
    if hidden == heads * QWEN3_HEAD_DIM:
        return default(QWEN3_HEAD_DIM, "hidden_size / num_attention_heads")
    raise UserError(
        "head_dim is missing",
        needed="the size of one attention head (readers assume 128 or hidden_size / heads)",
        file=layer.path,
    )


def _attention_bias(layer: Section, tensors: Tensors) -> Answer[bool]:
    """Biases on all four projections of a draft layer or on none, as in Qwen3."""
    written = layer.boolean("attention_bias")
    biases = tensors.ending("self_attn.k_proj.bias") or tensors.ending("self_attn.o_proj.bias")
    if biases and (written is None or not written.value):
        return Answer(True, Source(tensors.infos[biases[0]].file, biases[0], "the tensor is there"))
    return written or default(False, "Qwen3Config's default")


def _dtype(top: Section, layer: Section, tensors: Tensors) -> Answer[str]:
    for section in (top, layer):
        for key in ("dtype", "torch_dtype"):
            written = section.text(key)
            if written is not None:
                return Answer(written.value.removeprefix("torch."), written.source)
    info = tensors.infos.get("fc.weight") or tensors.infos.get("norm.weight")
    if info is not None and info.dtype in TORCH_DTYPES:
        return Answer(TORCH_DTYPES[info.dtype], Source(info.file, "fc.weight", "stored dtype"))
    return default("bfloat16", "dtype of the released drafters")
