# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of a draft layer: vLLM's module over a table that the reference's frequencies fill.

vLLM's own scaled modules read a rope entry otherwise than the trainer's: YaRN's table ends at factor times the original
length, whatever length is served, a dynamic rope is stretched from the first position on, a proportional one ignores
its factor.
"""

import json
from typing import Any

import torch
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

from vllm_dflash.checkpoint import Rope
from vllm_dflash.reference.rope import inverse_frequencies


class DraftRotaryEmbedding(RotaryEmbedding):
    """cos_sin_cache: [positions, 2 * speeds], cosines first."""

    def __init__(self, rope: Rope, head_dim: int, trained: int, positions: int, dtype: torch.dtype) -> None:
        self.frequencies, self.factor = inverse_frequencies(rope, trained, head_dim)
        rotary_dim = 2 * self.frequencies.shape[0]
        super().__init__(head_dim, rotary_dim, positions, rope.theta, rope.is_neox_style, dtype)

    def _compute_cos_sin_cache(self) -> torch.Tensor:
        positions = torch.arange(self.max_position_embeddings, dtype=torch.float32)
        angles = torch.outer(positions, self.frequencies.to(positions.device))
        return torch.cat([angles.cos(), angles.sin()], dim=-1) * self.factor


_made: dict[str, DraftRotaryEmbedding] = {}


def rotary_embedding(rope: Rope, head_dim: int, trained: int, positions: int) -> DraftRotaryEmbedding:
    """The module for one draft layer; equal arguments give the same one, so that layers share a table.

    Args:
        trained: the drafter's max_position_embeddings.
        positions: rows of the table; no position may reach it.
    """
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    key: list[Any] = [rope.theta, rope.rotary_dim, rope.scaling and dict(rope.scaling), rope.is_neox_style]
    name = json.dumps([*key, head_dim, trained, positions, str(dtype), str(device)], sort_keys=True)
    if name not in _made:
        _made[name] = DraftRotaryEmbedding(rope, head_dim, trained, positions, dtype)
    return _made[name]
