# SPDX-License-Identifier: Apache-2.0
"""A Llama-architecture GGUF read as Hugging Face hyperparameters and tensors."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vllm_dflash.errors import UserError

_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class LlamaShape:
    """Hyperparameters of a Llama decoder, as its GGUF states them."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_positions: int
    rope_theta: float
    norm_eps: float
    tied: bool


class GgufCheckpoint:
    """An open GGUF of a Llama model.

    Raises:
        UserError: the file is damaged, is no Llama, or lacks a key or a tensor; `gguf` is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            from gguf import GGUFReader
            from gguf.quants import dequantize
        except ImportError as error:
            raise UserError("reading a GGUF needs the package gguf: run `pip install gguf`") from error
        self.path = path
        self._dequantize = dequantize
        try:
            reader = GGUFReader(path)
            self._metadata = {key: field.contents() for key, field in reader.fields.items()}
            self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UserError(f"damaged GGUF ({reason})", file=path) from error
        if self.value("general.architecture") != "llama":
            raise UserError(
                "not a Llama GGUF",
                field="general.architecture",
                found=self.value("general.architecture"),
                needed="llama",
                file=path,
            )
        self.shape = self._read_shape()
        found = {hf_name_of(name): tuple(map(int, t.shape[::-1])) for name, t in self._tensors.items()}
        check_tensor_shapes(found, _expected_shapes(self.shape), path)

    @property
    def tensor_names(self) -> list[str]:
        return list(self._tensors)

    def value(self, key: str) -> Any:
        """The metadata value under `key`."""
        if key not in self._metadata:
            raise UserError(f"the GGUF has no {key}", file=self.path)
        return self._metadata[key]

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor as (HF name, dequantised fp32 [out, in] or [hidden]), q and k rows in HF order."""
        for name, tensor in self._tensors.items():
            try:
                values = np.array(self._dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            except (ValueError, NotImplementedError) as error:
                raise UserError(f"cannot dequantise {name}: {error}", file=self.path) from error
            if not np.isfinite(values).all():
                raise UserError(f"{name} holds values that are not finite", file=self.path)
            if name.endswith("attn_q.weight"):
                values = interleaved_to_split_rope_rows(values, self.shape.heads)
            if name.endswith("attn_k.weight"):
                values = interleaved_to_split_rope_rows(values, self.shape.kv_heads)
            yield hf_name_of(name), torch.from_numpy(values)

    def _read_shape(self) -> LlamaShape:
        heads, hidden = self.value("llama.attention.head_count"), self.value("llama.embedding_length")
        return LlamaShape(
            layers=self.value("llama.block_count"),
            hidden=hidden,
            intermediate=self.value("llama.feed_forward_length"),
            heads=heads,
            kv_heads=self.value("llama.attention.head_count_kv"),
            head_dim=self.value("llama.rope.dimension_count"),
            vocab=len(self.value("tokenizer.ggml.tokens")),
            max_positions=self.value("llama.context_length"),
            rope_theta=_shortest(self.value("llama.rope.freq_base")),
            norm_eps=_shortest(self.value("llama.attention.layer_norm_rms_epsilon")),
            tied="output.weight" not in self._tensors,
        )


def check_tensor_shapes(
    found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]], file: Path
) -> None:
    """Refuses a missing or unknown tensor name and a wrong shape, naming the first in order."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            raise UserError(f"tensor {name} is missing", file=file)
        if name not in expected:
            raise UserError(f"tensor {name} is unknown", file=file)
        if found[name] != expected[name]:
            raise UserError(
                "wrong tensor shape", field=name, found=found[name], needed=str(expected[name]), file=file
            )


def hf_name_of(gguf_name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`; an unknown name stays."""
    if gguf_name in _TOP_NAMES:
        return _TOP_NAMES[gguf_name]
    parts = gguf_name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER_NAMES:
        return f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{parts[3]}"
    return gguf_name


def interleaved_to_split_rope_rows(rows: np.ndarray, heads: int) -> np.ndarray:
    """Undoes llama.cpp's row order of q and k: rows [heads * head_dim, in], same shape out.

    llama.cpp rotates neighbouring rows (2i, 2i + 1) of a head, Hugging Face rows (i, i + head_dim / 2), so
    its converter stores HF row (half, i) as row 2i + half.
    """
    by_pair = rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1)
    return np.ascontiguousarray(by_pair.transpose(0, 2, 1, 3)).reshape(rows.shape)


def _shortest(value: float) -> float:
    return float(str(np.float32(value)))


def _expected_shapes(shape: LlamaShape) -> dict[str, tuple[int, ...]]:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = {
        "input_layernorm": (shape.hidden,),
        "self_attn.q_proj": (queries, shape.hidden),
        "self_attn.k_proj": (keys, shape.hidden),
        "self_attn.v_proj": (keys, shape.hidden),
        "self_attn.o_proj": (shape.hidden, queries),
        "post_attention_layernorm": (shape.hidden,),
        "mlp.gate_proj": (shape.intermediate, shape.hidden),
        "mlp.up_proj": (shape.intermediate, shape.hidden),
        "mlp.down_proj": (shape.hidden, shape.intermediate),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (shape.vocab, shape.hidden),
        "model.norm.weight": (shape.hidden,),
    }
    if not shape.tied:
        shapes["lm_head.weight"] = (shape.vocab, shape.hidden)
    for index in range(shape.layers):
        shapes |= {f"model.layers.{index}.{name}.weight": size for name, size in layer.items()}
    return shapes
