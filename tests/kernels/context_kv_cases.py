# SPDX-License-Identifier: Apache-2.0
"""Random cases for context_kv, and what must hold of a cache after it."""

import random
from dataclasses import dataclass
from typing import Any

import torch

from tests.kernels.device import DEVICE, INTERPRETED
from vllm_dflash.kernels.context_kv_arguments import ContextLayers
from vllm_dflash.reference.context_kv import FP8, ContextLayer

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
EPS, POSITIONS = 1e-6, 97
# (kv_heads, head_dim, rotary_dim, neox, activation, cache, factor on V)
SHAPES: list[tuple[int, int, int, bool, torch.dtype, torch.dtype, float]] = [
    (8, 128, 128, True, BF16, BF16, 1.0),
    (8, 128, 128, True, BF16, FP8, 1.0),
    (2, 128, 64, True, BF16, BF16, 0.5),
    (1, 64, 64, True, FP16, FP16, 1.0),
    (3, 80, 80, True, FP16, FP16, 0.7),
    (5, 96, 48, False, FP16, FP16, 1.0),
    (4, 256, 256, True, BF16, BF16, 1.0),
    (7, 48, 24, True, FP32, FP32, 1.3),
    (2, 10, 6, False, FP32, FP32, 1.0),
    (6, 64, 32, False, FP16, FP8, 0.7),
    (2, 128, 128, True, FP32, BF16, 1.0),
    (1, 16, 2, True, FP32, FP32, 1.0),
]


@dataclass
class Case:
    keys: torch.Tensor
    values: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    layers: list[ContextLayer]
    options: dict[str, Any]
    buffers: list[torch.Tensor]

    def table(self) -> ContextLayers:
        return ContextLayers(self.layers, self.keys.dtype, **self.options)


def poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.full(shape, float("nan"), device=DEVICE).to(dtype)


def cache(rng: random.Random, blocks: int, heads: int, size: int, dim: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """[key view, value view, whole buffer], in one of the layouts that vLLM has had, or one that it has not."""
    layout = rng.choice(["heads first", "tokens first", "apart", "loose", "odd"])
    if layout == "apart":
        whole = poisoned((2, blocks, size, heads, dim), dtype)
        return [*whole.transpose(2, 3), whole]
    width = {"loose": 2 * dim + 16, "odd": 2 * dim + 3}.get(layout, 2 * dim)
    order = (blocks, size, heads, width) if layout == "tokens first" else (blocks, heads, size, width)
    whole = poisoned(order, dtype)
    view = whole.transpose(1, 2) if layout == "tokens first" else whole
    return [view[..., :dim], view[..., dim : 2 * dim], whole]


def case(seed: int, rows: int | None = None) -> Case:
    rng, noise = random.Random(seed), torch.Generator().manual_seed(seed)
    heads, dim, rotary, neox, activation, stored, factor = SHAPES[seed % len(SHAPES)]
    count, groups = rng.randint(1, 5), rng.randint(1, 3)
    rows = (
        rng.choice([1, 2, 3, 7, 16, 33] if INTERPRETED else [1, 2, 3, 16, 17, 64, 255, 700]) if rows is None else rows
    )

    def random_tensor(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=noise).to(activation).to(DEVICE)

    if rng.random() < 0.5:  # as the projection leaves them, or copied apart
        keys, values = random_tensor(rows, count, 2, heads, dim).permute(2, 1, 0, 3, 4)
    else:
        keys, values = random_tensor(2, count, rows, heads, dim)
    layers, buffers, sizes = [], [], [rng.choice([1, 5, 16, 33]) for _ in range(groups)]
    for i in range(count):
        group = i % groups
        scale = [torch.tensor([rng.uniform(0.01, 2)], device=DEVICE) if rng.random() < 0.7 else None for _ in range(2)]
        key, value, whole = cache(rng, -(-(rows + 9) // sizes[group]), heads, sizes[group], dim, stored)
        angles = torch.rand(POSITIONS, rotary // 2, generator=noise) * 6.3
        table = torch.cat([angles.cos(), angles.sin()], 1).to(activation).to(DEVICE)
        layers.append(ContextLayer(key, value, random_tensor(dim), table, group, *scale))
        buffers.append(whole)
    slots = torch.stack([torch.randperm(rows + 9, generator=noise)[:rows] for _ in range(groups)])
    slots[torch.rand(slots.shape, generator=noise) < rng.choice([0.0, 0.3, 1.0])] = -1
    positions = torch.randint(0, POSITIONS, (rows,), generator=noise)
    options = {"eps": EPS, "neox": neox, "factor": factor}
    return Case(keys, values, positions.to(DEVICE), slots.to(DEVICE), layers, options, buffers)


def unit_of(dtype: torch.dtype) -> float:
    """Largest relative error of one rounding. Triton's interpreter cuts bf16 off where hardware rounds it."""
    return torch.finfo(dtype).eps / (1 if INTERPRETED else 2)


def exact(c: Case, i: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(K, V, bound on K's error) of layer i in float64 with one rounding each for norm and rotation allowed for."""
    layer, x = c.layers[i], c.keys[i].double()
    half = layer.rope_table.shape[1] // 2
    x = x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt() * layer.norm_weight.double()
    cos, sin = layer.rope_table[c.positions].double()[:, None].chunk(2, -1)
    pairs = (
        [slice(0, half), slice(half, 2 * half)] if c.options["neox"] else [slice(0, 2 * half, 2), slice(1, 2 * half, 2)]
    )
    first, second = x[..., pairs[0]], x[..., pairs[1]]
    turned, size = x.clone(), x.abs()
    turned[..., pairs[0]], size[..., pairs[0]] = first * cos - second * sin, (first * cos).abs() + (second * sin).abs()
    turned[..., pairs[1]], size[..., pairs[1]] = second * cos + first * sin, (second * cos).abs() + (first * sin).abs()
    return turned, c.values[i].double() * c.options["factor"], (2 * unit_of(c.keys.dtype) + 4e-7) * 1.05 * size + 1e-7


def check_exact(c: Case) -> None:
    if INTERPRETED and c.layers[0].key_cache.dtype == FP8:
        return  # the interpreter loses the carry when it rounds to fp8: 0.485 becomes 0.25
    for i, layer in enumerate(c.layers):
        slot = c.slots[layer.group]
        rows, size = slot >= 0, layer.key_cache.shape[2]
        block, offset = slot[rows] // size, slot[rows] % size
        key, value, bound = (part[rows] for part in exact(c, i))
        for stored, want, slack, scale in (
            (layer.key_cache, key, bound, layer.key_scale),
            (layer.value_cache, value, None, layer.value_scale),
        ):
            got, dtype, factor = stored[block, :, offset].double(), stored.dtype, 1.0
            if dtype == FP8:
                factor = 1.0 if scale is None else scale.item()
                want = (want / factor).clamp(-448, 448)
            rounding = unit_of(dtype)
            scaling = 0.0 if c.options["factor"] == 1.0 else unit_of(c.values.dtype)
            allowed = want.abs() * (rounding + scaling) * 1.05 + 1e-7 if slack is None else slack / factor
            allowed = allowed + (want.abs() * rounding * 1.05 if dtype != c.keys.dtype else 0)
            if dtype == FP8:
                allowed = allowed + 2.0**-10  # half of the least subnormal
            assert (got - want).abs().le(allowed).all(), (got - want).abs().sub(allowed).max()


def check_like_reference(c: Case, other: Case) -> None:
    """The same places are written, and V is equal bit for bit."""
    for i, (layer, want) in enumerate(zip(c.layers, other.layers, strict=True)):
        for mine, theirs in ((layer.key_cache, want.key_cache), (layer.value_cache, want.value_cache)):
            assert torch.equal(mine.float().isnan(), theirs.float().isnan()), i
        if not INTERPRETED or (c.options["factor"] == 1.0 and layer.value_cache.dtype == c.values.dtype):
            mine, theirs = layer.value_cache.float().nan_to_num(), want.value_cache.float().nan_to_num()
            assert torch.equal(mine, theirs), i
    untouched = [w.float().isnan().sum() for w in other.buffers]
    assert [b.float().isnan().sum() for b in c.buffers] == untouched, "something outside the caches' heads was written"
