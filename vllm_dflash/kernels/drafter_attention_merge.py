# SPDX-License-Identifier: Apache-2.0
"""The second launch of drafter_attention (Triton): the mean of partial results by their weights.

    out[m] = sum_i 2^w[i, m] v[i, m] / sum_i 2^w[i, m]     parts i that hold something

Shapes: part_values [requests, kv_heads, parts, BLOCK_M, BLOCK_D]; part_weights the same without BLOCK_D, fp32.
"""

import torch
import triton
import triton.language as tl

FEW = 4  # parts that one program takes for many rows; with more, a program a row
ROWS_OF_FEW = 16
AHEAD = 4096  # numbers of partial results that a warp reads at once, before any is used


@triton.jit
def visible(anchor, WINDOW: tl.constexpr):  # type: ignore[no-untyped-def]
    """First visible context key of any row, and how many there are."""
    first = 0
    if WINDOW > 0:
        first = tl.maximum(anchor - WINDOW + 1, 0)
    return first, anchor - first


@triton.jit
def share_of(count, splits, BLOCK_N: tl.constexpr, ONE_TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Keys a split: a whole number of tiles, the same for all. ONE_TILE: there is a split for each tile of a window."""
    if ONE_TILE:
        return BLOCK_N
    return tl.cdiv(tl.cdiv(count, splits), BLOCK_N) * BLOCK_N


@triton.jit
def _merge_few_kernel(  # type: ignore[no-untyped-def]
    part_values, part_weights, out, seq_lens, query_start_loc, splits, parts, out_row, out_head,
    GROUP: tl.constexpr, WINDOW: tl.constexpr, ONE_TILE: tl.constexpr, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """ROWS rows of one KV head a program."""
    head, request = tl.program_id(1), tl.program_id(2)
    begin = tl.load(query_start_loc + request)
    rows = tl.load(query_start_loc + request + 1) - begin
    length = tl.load(seq_lens + request)
    if DEPENDENT:
        tl.extra.cuda.gdc_wait()  # also by programs without a row: the grid must not end before the first launch has
    _first, count = visible(tl.maximum(length - rows, 0), WINDOW)
    share = share_of(count, splits, BLOCK_N, ONE_TILE)
    m, d = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None], tl.arange(0, BLOCK_D)[None, :]
    place = ((request * tl.num_programs(1) + head) * parts).to(tl.int64) * BLOCK_M + m
    maximum = tl.full([ROWS, 1], float("-inf"), tl.float32)
    total = tl.zeros([ROWS, 1], tl.float32)
    result = tl.zeros([ROWS, BLOCK_D], tl.float32)
    for part in tl.static_range(BLOCK_S):
        holds = (parts > part) & ((count > share * part) | (parts - 1 == part))
        at = place + part * BLOCK_M
        there = m < tl.where(holds, rows * GROUP, 0)
        weight = tl.load(part_weights + at, mask=there, other=float("-inf"))
        value = tl.load(part_values + at * BLOCK_D + d, mask=there & (d < D), other=0.0).to(tl.float32)
        higher = tl.maximum(maximum, weight)
        base = tl.where(higher == float("-inf"), 0.0, higher)
        shrink, grown = tl.exp2(maximum - base), tl.exp2(weight - base)
        total = total * shrink + grown
        result = result * shrink + value * grown
        maximum = higher
    result = tl.where(length > 0, result / tl.where(total == 0.0, 1.0, total), 0.0)
    target = out + (begin + m // GROUP).to(tl.int64) * out_row + (head * GROUP + m % GROUP) * out_head + d
    tl.store(target, result.to(out.dtype.element_ty), mask=(m < rows * GROUP) & (d < D))


@triton.jit
def _merge_many_kernel(  # type: ignore[no-untyped-def]
    part_values, part_weights, out, seq_lens, query_start_loc, splits, parts, out_row, out_head,
    GROUP: tl.constexpr, WINDOW: tl.constexpr, ONE_TILE: tl.constexpr, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, AHEAD: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """One row a program, of one warp: with two, 33 parts took 1 us longer on an H200."""
    m, head, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(query_start_loc + request)
    rows = tl.load(query_start_loc + request + 1) - begin
    length = tl.load(seq_lens + request)
    if DEPENDENT:
        tl.extra.cuda.gdc_wait()  # as above
    if m >= rows * GROUP:
        return
    _first, count = visible(tl.maximum(length - rows, 0), WINDOW)
    share = share_of(count, splits, BLOCK_N, ONE_TILE)
    some, d = tl.arange(0, AHEAD), tl.arange(0, BLOCK_D)
    place = ((request * tl.num_programs(1) + head) * parts).to(tl.int64) * BLOCK_M + m
    maximum, total = float("-inf"), 0.0
    result = tl.zeros([BLOCK_D], tl.float32)
    for first_part in tl.range(0, parts, AHEAD):
        part = first_part + some
        holds = ((part * share < count) | (part == parts - 1)) & (part < parts)
        at = place + part * BLOCK_M
        weight = tl.load(part_weights + at, mask=holds, other=float("-inf"))
        value = tl.load(
            part_values + at[:, None] * BLOCK_D + d[None, :], mask=holds[:, None] & (d < D)[None, :], other=0.0
        ).to(tl.float32)
        higher = tl.maximum(maximum, tl.max(weight, 0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        shrink, grown = tl.exp2(maximum - base), tl.exp2(weight - base)
        total = total * shrink + tl.sum(grown, 0)
        result = result * shrink + tl.sum(value * grown[:, None], 0)
        maximum = higher
    result = tl.where(length > 0, result / tl.where(total == 0.0, 1.0, total), 0.0)
    target = out + (begin + m // GROUP).to(tl.int64) * out_row + (head * GROUP + m % GROUP) * out_head
    tl.store(target + d, result.to(out.dtype.element_ty), mask=d < D)


def merge(
    part_values: torch.Tensor,
    part_weights: torch.Tensor,
    out: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    *,
    splits: int,
    parts: int,
    kv_heads: int,
    max_queries: int,
    window: int,
    one_tile: bool,
    tile: int,
    block_m: int,
    block_d: int,
    dependent: bool,
) -> None:
    """Launches the one that fits. out [N, heads, D]; seq_lens [B], query_start_loc [B + 1] int32.

    Args:
        splits, parts, window, one_tile, tile, block_m, block_d: as the first launch had them.
        max_queries: rows x query heads a KV head of the longest request.
        dependent: start beside the first launch and wait for it on the device.
    """
    heads, head_dim = out.shape[1:]
    block_s = triton.next_power_of_2(parts)
    few = block_s <= FEW
    kernel = _merge_few_kernel if few else _merge_many_kernel
    own = {"ROWS": ROWS_OF_FEW, "BLOCK_S": block_s} if few else {"AHEAD": min(block_s, AHEAD // block_d)}
    programs = triton.cdiv(max_queries, ROWS_OF_FEW) if few else max_queries
    extra = {"launch_pdl": True} if dependent else {}
    kernel[(programs, kv_heads, seq_lens.shape[0])](
        part_values, part_weights, out, seq_lens, query_start_loc, splits, parts, out.stride(0), out.stride(1),
        GROUP=heads // kv_heads, WINDOW=window, ONE_TILE=one_tile, D=head_dim, BLOCK_M=block_m, BLOCK_N=tile,
        BLOCK_D=block_d, DEPENDENT=dependent, num_warps=4 if few else 1, **own, **extra,
    )  # fmt: skip
