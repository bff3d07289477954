# SPDX-License-Identifier: Apache-2.0
"""Context K/V of every draft layer, from the projection's output to the pages, in one launch.

For layer l, row n, head h, with k = keys[l, n, h] and v = values[l, n, h], both [head_dim]:

    k'  = k / sqrt(mean(k^2) + eps) * norm_weight[l]
    k'' = (x cos - y sin, y cos + x sin) for each pair (x, y) of k', cos and sin from rope_table[l][positions[n]]
    key_cache[l][slot // block_size, h, slot % block_size]   = k'' / key_scale[l]        slot = slots[group[l], n]
    value_cache[l][slot // block_size, h, slot % block_size] = v factor / value_scale[l]

Rounding and shapes: vllm_dflash.reference.context_kv. Rows with a negative slot are not written.
One program handles BLOCK (row, head) pairs of one layer: heads of a row are neighbours in memory, and share its angles.
Everything that differs between layers (addresses, strides, page size, scales) is read from a device table built once,
so that a captured CUDA graph replays with new rows, positions and slots.
"""

import torch
import triton
import triton.language as tl

from vllm_dflash.kernels import native_context_kv
from vllm_dflash.kernels.context_kv_arguments import COLUMNS, ContextLayers, check_call
from vllm_dflash.reference import context_kv as reference
from vllm_dflash.reference.context_kv import FP8

_TRITON_TYPES = {
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    FP8: tl.float8e4nv,
}


@triton.jit(do_not_specialize=("rows", "slot_group"), do_not_specialize_on_alignment=("positions", "slots"))
def _context_kv_kernel(  # type: ignore[no-untyped-def]
    keys,
    values,
    positions,
    slots,
    table,
    rows,
    key_layer,
    key_row,
    key_head,
    value_layer,
    value_row,
    value_head,
    slot_group,
    factor,
    eps,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROTARY_DIM: tl.constexpr,
    NEOX: tl.constexpr,
    SCALED: tl.constexpr,
    CACHE: tl.constexpr,
    FP8_MAX: tl.constexpr,
    ALIGNED: tl.constexpr,
    WEIGHTS_ALIGNED: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    BLOCK_REST: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """CACHE: element type of the caches; FP8_MAX: its largest value, 0 for other types; ALIGNED, WEIGHTS_ALIGNED: the
    caches' (weights' and rope tables') addresses and strides, in elements, are multiples of it."""
    activation = keys.dtype.element_ty
    cache_bytes: tl.constexpr = ALIGNED * (CACHE.primitive_bitwidth // 8)
    weights_bytes: tl.constexpr = WEIGHTS_ALIGNED * (keys.dtype.element_ty.primitive_bitwidth // 8)
    layer = tl.program_id(1).to(tl.int64)
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = (pair // HEADS).to(tl.int64)
    head = (pair % HEADS).to(tl.int64)
    table += layer * COLUMNS
    # Nothing that is loaded waits for the slots: padding rows are read, with their angle held within the table.
    there = row < rows
    position = tl.load(positions + row, mask=there, other=0).to(tl.int64)
    position = tl.minimum(tl.maximum(position, 0), tl.load(table + 15))
    slot = tl.load(slots + tl.load(table + 12) * slot_group + row, mask=there, other=-1).to(tl.int32)
    live = (slot >= 0)[:, None]
    page_size = tl.load(table + 8).to(tl.int32)
    page = (slot // page_size).to(tl.int64)
    offset = (slot % page_size).to(tl.int64)

    half: tl.constexpr = ROTARY_DIM // 2
    turn = tl.arange(0, BLOCK_HALF)
    first = turn if NEOX else 2 * turn
    second = turn + half if NEOX else 2 * turn + 1
    turns = there[:, None] & (turn < half)[None, :]
    source = keys + (layer * key_layer + row * key_row + head * key_head)[:, None]
    x = tl.load(source + first[None, :], mask=turns, other=0.0).to(tl.float32)
    y = tl.load(source + second[None, :], mask=turns, other=0.0).to(tl.float32)
    squares = tl.sum(x * x, 1) + tl.sum(y * y, 1)
    if ROTARY_DIM < HEAD_DIM:
        still = ROTARY_DIM + tl.arange(0, BLOCK_REST)
        stays = there[:, None] & (still < HEAD_DIM)[None, :]
        z = tl.load(source + still[None, :], mask=stays, other=0.0).to(tl.float32)
        squares += tl.sum(z * z, 1)
    column = tl.arange(0, BLOCK_DIM)
    whole = there[:, None] & (column < HEAD_DIM)[None, :]
    value_source = values + (layer * value_layer + row * value_row + head * value_head)[:, None]
    v = tl.load(value_source + column[None, :], mask=whole, other=0.0)

    inverse = tl.math.rsqrt(squares / HEAD_DIM + eps)[:, None]
    weight = tl.multiple_of(tl.load(table + 9).to(tl.pointer_type(activation)), weights_bytes)
    x_weight = tl.load(weight + first, mask=turn < half, other=0.0).to(tl.float32)
    y_weight = tl.load(weight + second, mask=turn < half, other=0.0).to(tl.float32)
    x = (x * inverse * x_weight[None, :]).to(activation).to(tl.float32)
    y = (y * inverse * y_weight[None, :]).to(activation).to(tl.float32)

    rope = tl.multiple_of(tl.load(table + 10).to(tl.pointer_type(activation)), weights_bytes)
    angles = rope + (position * tl.multiple_of(tl.load(table + 11), WEIGHTS_ALIGNED))[:, None]
    cos = tl.load(angles + turn[None, :], mask=turns, other=0.0).to(tl.float32)
    sin = tl.load(angles + half + turn[None, :], mask=turns, other=0.0).to(tl.float32)
    turned_x = (x * cos - y * sin).to(activation)
    turned_y = (y * cos + x * sin).to(activation)
    if SCALED:
        v = (v.to(tl.float32) * factor).to(values.dtype.element_ty)

    # Triton cannot see how what it reads from the table is aligned, and would store element by element.
    key_cache = tl.multiple_of(tl.load(table + 0).to(tl.pointer_type(CACHE)), cache_bytes)
    value_cache = tl.multiple_of(tl.load(table + 1).to(tl.pointer_type(CACHE)), cache_bytes)
    key_page = tl.multiple_of(tl.load(table + 2), ALIGNED)
    key_cache_head = tl.multiple_of(tl.load(table + 3), ALIGNED)
    key_offset = tl.multiple_of(tl.load(table + 4), ALIGNED)
    value_page = tl.multiple_of(tl.load(table + 5), ALIGNED)
    value_cache_head = tl.multiple_of(tl.load(table + 6), ALIGNED)
    value_offset = tl.multiple_of(tl.load(table + 7), ALIGNED)
    key_out = key_cache + (page * key_page + head * key_cache_head + offset * key_offset)[:, None]
    value_out = value_cache + (page * value_page + head * value_cache_head + offset * value_offset)[:, None]
    key_scale = 1.0
    value_scale = 1.0
    if FP8_MAX > 0:
        key_scale = tl.load(tl.load(table + 13).to(tl.pointer_type(tl.float32)))
        value_scale = tl.load(tl.load(table + 14).to(tl.pointer_type(tl.float32)))
    tl.store(key_out + first[None, :], _stored(turned_x, key_scale, CACHE, FP8_MAX), mask=turns & live)
    tl.store(key_out + second[None, :], _stored(turned_y, key_scale, CACHE, FP8_MAX), mask=turns & live)
    if ROTARY_DIM < HEAD_DIM:
        z_weight = tl.load(weight + still, mask=still < HEAD_DIM, other=0.0).to(tl.float32)
        z = (z * inverse * z_weight[None, :]).to(activation)
        tl.store(key_out + still[None, :], _stored(z, key_scale, CACHE, FP8_MAX), mask=stays & live)
    tl.store(value_out + column[None, :], _stored(v, value_scale, CACHE, FP8_MAX), mask=whole & live)


@triton.jit
def _stored(x, scale, CACHE: tl.constexpr, FP8_MAX: tl.constexpr):  # type: ignore[no-untyped-def]
    if FP8_MAX > 0:
        x = tl.clamp(x.to(tl.float32) / scale, -FP8_MAX, FP8_MAX)
    return x.to(CACHE)


def context_kv(
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    layers: ContextLayers,
    *,
    plain: bool = False,
) -> None:
    """Norm, rotate, scale and store: with Triton on a CUDA device, else in C++ where that is built, else in torch.

    Args:
        keys, values: [layers, N, kv_heads, head_dim], last stride 1; a view of the projection's output will do.
        positions: [N] int64 or int32; slots: [groups, N] int64 or int32, last stride 1.
        plain: the torch reference in any case.

    Raises:
        UserError: naming the argument at fault.
    """
    check_call(keys, values, positions, slots, layers)
    if keys.shape[1] == 0:
        return
    if plain:
        _in_torch(keys, values, positions, slots, layers)
    elif keys.device.type == "cuda":
        launch(keys, values, positions, slots, layers)
    elif native_context_kv.takes(layers):
        native_context_kv.context_kv(keys, values, positions, slots, layers)
    else:
        _in_torch(keys, values, positions, slots, layers)


def _in_torch(
    keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, layers: ContextLayers
) -> None:
    reference.context_kv(
        keys, values, positions, slots, layers.layers, eps=layers.eps, neox=layers.neox, factor=layers.factor
    )


def launch(
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    layers: ContextLayers,
    block: int | None = None,
    warps: int | None = None,
) -> None:
    """The Triton kernel. Arguments as context_kv has checked them; block and warps: see tile."""
    count, rows, heads, head_dim = keys.shape
    chosen = tile(count, rows, heads)
    block, warps = block or chosen[0], warps or chosen[1]
    half, rest = layers.rotary_dim // 2, head_dim - layers.rotary_dim
    fp8 = layers.cache_dtype == FP8
    _context_kv_kernel[(triton.cdiv(rows * heads, block), count)](
        keys,
        values,
        positions,
        slots,
        layers.table,
        rows,
        *keys.stride()[:3],
        *values.stride()[:3],
        slots.stride(0),
        layers.factor,
        layers.eps,
        HEADS=heads,
        HEAD_DIM=head_dim,
        ROTARY_DIM=layers.rotary_dim,
        NEOX=layers.neox,
        SCALED=layers.factor != 1.0,
        CACHE=_TRITON_TYPES[layers.cache_dtype],
        FP8_MAX=torch.finfo(FP8).max if fp8 else 0.0,
        ALIGNED=layers.aligned,
        WEIGHTS_ALIGNED=layers.weights_aligned,
        COLUMNS=COLUMNS,
        BLOCK=block,
        BLOCK_HALF=triton.next_power_of_2(half),
        BLOCK_REST=triton.next_power_of_2(max(rest, 1)),
        BLOCK_DIM=triton.next_power_of_2(head_dim),
        num_warps=warps,
    )


TILES = {16 * 1024: (16, 4), None: (32, 4)}  # most pairs -> (pairs a program, warps)


def tile(layers: int, rows: int, heads: int) -> tuple[int, int]:
    """Small tiles spread few rows over the card, large ones keep more bytes in flight."""
    pairs = layers * rows * heads
    return next(found for most, found in TILES.items() if most is None or pairs <= most)


def compile_for(
    keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, layers: ContextLayers
) -> None:
    """Compile every tile for calls like this one, so that serving does not wait for it later. Writes nothing."""
    nowhere = torch.full_like(slots, -1)
    for block, warps in TILES.values():
        launch(keys, values, positions, nowhere, layers, block, warps)
