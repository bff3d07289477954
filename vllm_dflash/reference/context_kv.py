# SPDX-License-Identifier: Apache-2.0
"""Context K/V in plain torch: K-norm, rope, value scale, optional fp8, and the scatter into every layer's pages."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

FP8 = torch.float8_e4m3fn


@dataclass(frozen=True)
class ContextLayer:
    """What one draft layer does with its context K/V.

    key_cache, value_cache: [blocks, kv_heads, block_size, head_dim], any strides; bf16, fp16, fp32 or float8_e4m3fn.
    norm_weight: [head_dim], the layer's K-norm.
    rope_table: [positions, rotary_dim], cosines then sines, the layer's own.
    group: row of `slots` that this layer's pages belong to (its KV cache group).
    key_scale, value_scale: float32, one element, on the device; an fp8 cache holds x / scale. None: 1.
    """

    key_cache: torch.Tensor
    value_cache: torch.Tensor
    norm_weight: torch.Tensor
    rope_table: torch.Tensor
    group: int = 0
    key_scale: torch.Tensor | None = None
    value_scale: torch.Tensor | None = None


def context_kv(
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    layers: Sequence[ContextLayer],
    *,
    eps: float,
    neox: bool = True,
    factor: float = 1.0,
) -> None:
    """Normalise and rotate K, scale V, write both to their slots; rows with a negative slot are left out.

    Args:
        keys, values: [layers, N, kv_heads, head_dim] as projected.
        positions: [N] integer; slots: [groups, N] integer, block * block_size + offset.
        neox: dimensions i and i + rotary_dim / 2 turn together; else neighbours 2i and 2i + 1.
        factor: V is multiplied by it.

    Rounding, where vLLM's sequence rounds: float32 inside the norm, inside the rotation and inside the value factor;
    the activation dtype after each of the three; then the cache's dtype.
    """
    for key, value, layer in zip(keys, values, layers, strict=True):
        rows = slots[layer.group] >= 0
        slot = slots[layer.group][rows].long()
        key = rotate(rms_norm(key[rows], layer.norm_weight, eps), positions[rows], layer.rope_table, neox)
        value = value[rows] if factor == 1.0 else (value[rows].float() * factor).to(value.dtype)
        block_size = layer.key_cache.shape[2]
        block, offset = slot // block_size, slot % block_size
        layer.key_cache[block, :, offset] = stored(key, layer.key_cache.dtype, layer.key_scale)
        layer.value_cache[block, :, offset] = stored(value, layer.value_cache.dtype, layer.value_scale)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """[..., head_dim] / its root mean square * weight."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight.float()
    return wide.to(x.dtype)


def rotate(x: torch.Tensor, positions: torch.Tensor, table: torch.Tensor, neox: bool) -> torch.Tensor:
    """x [N, heads, head_dim] turned by table[positions]; dimensions past the table's width stay."""
    half = table.shape[1] // 2
    cos, sin = table[positions.long()].to(x.dtype).float()[:, None].chunk(2, -1)
    turning = x[..., : 2 * half].float().unflatten(-1, (2, half) if neox else (half, 2))
    first, second = turning.unbind(-2 if neox else -1)
    turned = torch.stack([first * cos - second * sin, second * cos + first * sin], -2 if neox else -1).flatten(-2)
    return torch.cat([turned.to(x.dtype), x[..., 2 * half :]], -1)


def stored(x: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor | None) -> torch.Tensor:
    """x as the cache holds it: cast, or for fp8 divided by the scale and held within the format's range."""
    if dtype != FP8:
        return x.to(dtype)
    limit = torch.finfo(FP8).max
    wide = x.float() if scale is None else x.float() / scale
    return wide.clamp(-limit, limit).to(FP8)
