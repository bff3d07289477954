# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding of a draft layer."""

from types import SimpleNamespace

import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from vllm_dflash.checkpoint import Rope


def inverse_frequencies(
    rope: Rope, max_position_embeddings: int, head_dim: int | None = None
) -> tuple[torch.Tensor, float]:
    """Rotation speeds [rotary_dim / 2] in radians a position (float32), and the factor on cos and sin.

    Scaled types ("yarn", "linear", "llama3", ...) are computed by transformers from the checkpoint's own entry.
    "proportional" (Gemma 4) gives [head_dim / 2] speeds, those past rotary_dim / 2 being zero: it pairs dimensions
    over the whole head, so it needs `head_dim` (default: rotary_dim).
    """
    if rope.scaling is None:
        exponent = torch.arange(0, rope.rotary_dim, 2, dtype=torch.float32) / rope.rotary_dim
        return 1.0 / (rope.theta**exponent), 1.0
    kind = rope.scaling.get("rope_type", rope.scaling.get("type"))
    parameters = dict(rope.scaling) | {"rope_type": kind, "rope_theta": rope.theta}
    size = rope.rotary_dim
    if kind == "proportional" and head_dim is not None:
        parameters["partial_rotary_factor"], size = rope.rotary_dim / head_dim, head_dim
    config = SimpleNamespace(
        rope_parameters=parameters,
        rope_scaling=parameters,
        head_dim=size,
        hidden_size=size,
        num_attention_heads=1,
        max_position_embeddings=max_position_embeddings,
        standardize_rope_params=lambda: None,
    )
    return ROPE_INIT_FUNCTIONS[kind](config, device="cpu")


def rotate(
    x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor, factor: float, neox: bool = True
) -> torch.Tensor:
    """Rotate the leading dimensions of each head.

    Args:
        x: [..., N, H, D]; positions: [..., N]; frequencies: [rotary_dim / 2] float32.
        neox: dimensions i and i + rotary_dim / 2 turn together (Llama, Qwen); else neighbours 2i and 2i + 1.

    Returns:
        Same shape and dtype as x; the arithmetic is float32.
    """
    angles = positions[..., None].float() * frequencies.to(x.device)
    cos, sin = (angles.cos() * factor)[..., None, :], (angles.sin() * factor)[..., None, :]
    half = frequencies.shape[0]
    turning, rest = x[..., : 2 * half].float(), x[..., 2 * half :]
    first, second = turning.unflatten(-1, (2, half) if neox else (half, 2)).unbind(-2 if neox else -1)
    turned = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-2 if neox else -1)
    return torch.cat([turned.flatten(-2).to(x.dtype), rest], dim=-1)
