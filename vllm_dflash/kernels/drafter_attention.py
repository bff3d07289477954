# SPDX-License-Identifier: Apache-2.0
"""Draft attention (Triton): the rows of a block against their context in pages and against one another.

For request b with anchor a = seq_lens[b] - rows, row r at position p = a + r, query head h of KV head g = h // group:

    s[c] = scale q[r, h] . k[c, g]     context keys c < a (window W: p - c < W), read from the pages
    s[j] = scale q[r, h] . k'[j, g]    block rows j (causal: j <= r; window: |r - j| < W), read from `key`
    out[r, h] = sum softmax(s, sink[h]) v

Shapes: query, out [N, heads, D]; key, value [N, kv_heads, D]; caches [blocks, page, kv_heads, D] with any strides;
block_table [B, pages] int32; seq_lens [B], query_start_loc [B + 1] int32. Reference:
vllm_dflash.reference.drafter_attention. The block's own K/V need not be stored: nothing reads them after this step.

One program serves all rows and all query heads of one KV head (M = rows x group), so K/V are read once; where that is
too much for one, a few programs share the heads. The visible
context, from the first visible key to the anchor, is cut into equal splits, a program each; the block is a part of its
own where the card has room for its program, else the last split takes it too. With more than one part, each leaves its
softmax mean (in query's type) and the logarithm of its weight (fp32). If all programs are on the card at once they then
wait for one another, and each merges some rows (a cooperative launch: the driver refuses what does not fit); else, or
with a program a tile, a second launch merges. Lengths are read on the device and the number of parts does not depend on
them, so that a captured graph replays for any lengths.
"""

import torch
import triton
import triton.language as tl

from vllm_dflash.errors import UserError
from vllm_dflash.kernels.drafter_attention_arguments import check
from vllm_dflash.kernels.drafter_attention_merge import MOST_PARTS, arrive_and_wait, merge, merge_rows, read_at_once
from vllm_dflash.kernels.drafter_attention_plan import Plan, plan
from vllm_dflash.kernels.drafter_attention_steps import accumulate, log2, page_of, prefetch, share_of, visible

LOG2_E = 1.4426950408889634


@triton.jit
def _attention_kernel(  # type: ignore[no-untyped-def]
    query, key, value, key_cache, value_cache, out, part_values, part_weights,
    block_table, seq_lens, query_start_loc, sinks, key_scale, value_scale, counters,
    scale, splits, parts,
    query_row, query_head, key_row, key_head, value_row, value_head, out_row, out_head,
    key_block, key_page, key_cache_head, value_block, value_page, value_cache_head, table_row,
    GROUP: tl.constexpr, PIECES: tl.constexpr, ROWS: tl.constexpr, WINDOW: tl.constexpr, CAUSAL: tl.constexpr,
    MERGED: tl.constexpr, SINKS: tl.constexpr, SCALED: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
    EVERY_TILE: tl.constexpr, ONE_TILE: tl.constexpr, ALIKE: tl.constexpr, STAGES: tl.constexpr, ON_GPU: tl.constexpr,
    HOPPER: tl.constexpr, TOGETHER: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """GROUP: query heads of a program, of which PIECES share a KV head. ONE_TILE: each program has one tile, the last
    the block. TOGETHER: rows that each program merges, 0: not here.
    """
    if HOPPER:
        tl.extra.cuda.gdc_wait()  # the launch began while the kernel before it was ending
    split, head, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(query_start_loc + request)
    rows = tl.load(query_start_loc + request + 1) - begin
    length = tl.load(seq_lens + request)
    if HOPPER and MERGED and not TOGETHER:
        tl.extra.cuda.gdc_launch_dependents()
    if rows <= 0:
        return
    anchor = tl.maximum(length - rows, 0)

    first, count = visible(anchor, WINDOW)
    share = share_of(count, splits, BLOCK_N, EVERY_TILE)
    start = first + split * share
    stop = tl.minimum(start + share, anchor)
    m, d = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    row, query_of = m // GROUP, head * GROUP + m % GROUP
    kv_head = head // PIECES
    in_block, in_head = (m < ROWS * GROUP) & (row < rows), d < D
    mask = in_block[:, None] & in_head[None, :]
    query_at = (begin + row).to(tl.int64)[:, None] * query_row + query_of[:, None] * query_head + d[None, :]

    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    weighted = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    lowest = anchor + row - (WINDOW - 1) if WINDOW > 0 else None
    furthest = anchor + row if CAUSAL else anchor + rows - 1 + row * 0
    if WINDOW > 0:
        furthest = tl.minimum(furthest, anchor + row + (WINDOW - 1))
    if ONE_TILE:  # keys are on their way before anything waits for the queries, values as far as the L2 cache
        n = tl.arange(0, BLOCK_N)
        block_apart = split == parts - 1  # a tile of the block is one page, number 0, with other strides
        c = tl.where(block_apart, anchor, start) + n
        there = n < tl.where(block_apart, rows, stop - start)
        page, within = page_of(block_table + request * table_row, c, there & (not block_apart), PAGE)
        within = tl.where(block_apart, begin + tl.minimum(n, rows - 1), within).to(tl.int64)
        key_at = page * key_block + within * tl.where(block_apart, key_row, key_page)
        key_at += kv_head * tl.where(block_apart, key_head, key_cache_head)
        value_at = page * value_block + within * tl.where(block_apart, value_row, value_page)
        value_at += kv_head * tl.where(block_apart, value_head, value_cache_head)
        wanted = there[:, None] & in_head[None, :]
        keys = tl.load(tl.where(block_apart, key, key_cache) + key_at[:, None] + d[None, :], mask=wanted, other=0.0)
        values_from = tl.where(block_apart, value, value_cache) + value_at[:, None]
        if ON_GPU:
            prefetch(values_from + tl.minimum(tl.arange(0, BLOCK_D // 16) * 16, D - 1)[None, :])
        queries = tl.load(query + query_at, mask=mask, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee")
        values = tl.load(values_from + d[None, :], mask=wanted, other=0.0)
        last = tl.where(block_apart, furthest, stop - 1)
        maximum, total, weighted = accumulate(scores, values, c, lowest, last, None, None, None, scale)
    else:
        if ON_GPU:
            first_page = tl.minimum(start, tl.maximum(anchor - 1, 0)) // PAGE
            prefetch(block_table + request * table_row + first_page + tl.arange(0, 1))
        queries = tl.load(query + query_at, mask=mask, other=0.0)
        j = tl.arange(0, BLOCK_R)
        own = (begin + j).to(tl.int64)[:, None]
        if ON_GPU and split == parts - 1:  # the block's turn comes last; in registers it would hold shared memory
            first_row = (begin + tl.minimum(j, rows - 1)).to(tl.int64)[:, None]
            line = tl.minimum(tl.arange(0, BLOCK_D // 16) * 16, D - 1)[None, :]
            prefetch(key + first_row * key_row + kv_head * key_head + line)
            prefetch(value + first_row * value_row + kv_head * value_head + line)
        context_scale = scale
        if SCALED:
            context_scale = scale * tl.load(key_scale)
        for position in tl.range(start, stop, BLOCK_N, num_stages=STAGES):
            c = position + tl.arange(0, BLOCK_N)
            page, within = page_of(block_table + request * table_row, c, c < stop, PAGE)
            there = (c < stop)[:, None] & in_head[None, :]
            key_at = page * key_block + within * key_page + kv_head * key_cache_head
            value_at = key_at
            if not ALIKE:
                value_at = page * value_block + within * value_page + kv_head * value_cache_head
            keys = tl.load(key_cache + key_at[:, None] + d[None, :], mask=there, other=0.0)
            values = tl.load(value_cache + value_at[:, None] + d[None, :], mask=there, other=0.0)
            scores = tl.dot(queries, tl.trans(keys.to(queries.dtype)), input_precision="ieee")
            maximum, total, weighted = accumulate(
                scores, values.to(queries.dtype), c, lowest, stop - 1 + row * 0, maximum, total, weighted, context_scale
            )
        if SCALED:
            weighted = weighted * tl.load(value_scale)
        if split == parts - 1:
            wanted = (j < rows)[:, None] & in_head[None, :]
            own_keys = tl.load(key + own * key_row + kv_head * key_head + d[None, :], mask=wanted, other=0.0)
            own_values = tl.load(value + own * value_row + kv_head * value_head + d[None, :], mask=wanted, other=0.0)
            scores = tl.dot(queries, tl.trans(own_keys), input_precision="ieee")
            maximum, total, weighted = accumulate(
                scores, own_values, anchor + j, lowest, furthest, maximum, total, weighted, scale
            )
    if SINKS:  # noqa: SIM102 (known when compiling, not a value)
        if split == parts - 1:
            sink = tl.load(sinks + query_of, mask=in_block, other=0.0).to(tl.float32) * 1.4426950408889634
            base = tl.maximum(maximum, sink)
            shrink = tl.exp2(maximum - base)
            total = total * shrink + tl.exp2(sink - base)
            weighted = weighted * shrink[:, None]
            maximum = base

    result = weighted * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]
    if not MERGED:
        result = tl.where(length > 0, result, 0.0)
        target = out + (begin + row).to(tl.int64)[:, None] * out_row + query_of[:, None] * out_head + d[None, :]
        tl.store(target, result.to(out.dtype.element_ty), mask=mask)
    else:
        place = ((request * tl.num_programs(1) + head) * parts + split).to(tl.int64) * BLOCK_M + m
        part = part_values + place[:, None] * BLOCK_D + d[None, :]
        tl.store(part, result.to(part_values.dtype.element_ty), mask=mask)
        tl.store(part_weights + place, maximum + log2(total, ON_GPU), mask=in_block)
        if TOGETHER > 0:
            pair = request * tl.num_programs(1) + head
            arrive_and_wait(counters + pair, split == parts - 1, parts)
            if split * TOGETHER < rows * GROUP:
                merge_rows(
                    part_values, part_weights, out, split * TOGETHER, begin, rows, length, pair, parts, head,
                    out_row, out_head, GROUP, D, BLOCK_M, BLOCK_D, TOGETHER, PARTS,
                )  # fmt: skip


def drafter_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    out: torch.Tensor,
    *,
    max_rows: int,
    scale: float,
    window: int | None,
    causal: bool,
    sinks: torch.Tensor | None = None,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
    how: Plan | None = None,
    counters: torch.Tensor | None = None,
) -> torch.Tensor:
    """Launches the kernel; graph-safe. Shapes in the module's docstring.

    Args:
        max_rows: most rows of a request in this batch.
        window, causal: the draft layer's rule (None: full).
        sinks: [heads]. key_scale, value_scale: fp32 tensors of one element, factors of an fp8 cache.
        how: how the launch is cut; None: `plan`.
        counters: int32, zeros before its first use and this function's own from then on (`new_counters`); only one
            launch at a time may have it. None: parts are always merged in a second launch.

    Returns:
        out. Rows of requests of length 0 are set to 0; rows that belong to no request are left alone.

    Raises:
        UserError: shapes, types or strides that the kernel does not take.
    """
    check(query, key, value, key_cache, value_cache, block_table, seq_lens, query_start_loc, out, max_rows, window)
    if not scale > 0:  # the largest score must be the largest scaled one
        raise UserError("drafter_attention cannot take this", field="scale", found=scale, needed="more than 0")
    heads, head_dim = query.shape[1:]
    kv_heads, requests = key.shape[1], seq_lens.shape[0]
    if requests == 0 or query.shape[0] == 0:
        return out
    chosen = how or plan(
        requests, kv_heads, max_rows, heads // kv_heads, head_dim, query.element_size(), window, query.device
    )
    group = heads // kv_heads // chosen.pieces
    block_m, block_d = max(16, triton.next_power_of_2(max_rows * group)), max(16, triton.next_power_of_2(head_dim))
    parts, pairs, queries = chosen.splits + chosen.block_apart, requests * heads // group, max_rows * group
    if parts > MOST_PARTS:
        raise UserError("drafter_attention cannot take this", field="how", found=chosen, needed=f"{MOST_PARTS} parts")
    block_r = max(16, triton.next_power_of_2(max_rows))
    scaled = key_scale is not None or value_scale is not None
    if scaled and (key_scale is None or value_scale is None):
        raise UserError("a scaled cache has two scales", field="value_scale", found=value_scale, needed="a tensor")
    uniform = not scaled and key_cache.dtype == query.dtype  # the block's rows can be read like a page
    every_tile = window is not None and chosen.splits * chosen.tile >= window - 1
    one_tile = every_tile and chosen.block_apart and block_r <= chosen.tile and uniform
    together = counters is not None and parts > 1 and parts * pairs <= chosen.at_once and not one_tile
    if counters is not None and together and (counters.dtype != torch.int32 or counters.shape[0] < pairs):
        found, needed = f"{counters.shape[0]} of {counters.dtype}", f"{pairs} of torch.int32"
        raise UserError("drafter_attention cannot take this", field="counters", found=found, needed=needed)
    hopper = query.is_cuda and torch.cuda.get_device_capability(query.device)[0] >= 9
    if parts > 1:
        places = pairs * parts * block_m
        part_values = torch.empty(places * block_d, dtype=query.dtype, device=query.device)
        part_weights = torch.empty(places, dtype=torch.float32, device=query.device)
    else:
        part_values = part_weights = out
    extra = {"launch_pdl": True, "launch_cooperative_grid": together} if hopper else {}
    _attention_kernel[(parts, heads // group, requests)](
        query, key, value, key_cache, value_cache, out, part_values, part_weights,
        block_table, seq_lens, query_start_loc, sinks if sinks is not None else out,
        key_scale if scaled else out, value_scale if scaled else out, counters if together else seq_lens,
        scale * LOG2_E, chosen.splits, parts,
        query.stride(0), query.stride(1), key.stride(0), key.stride(1), value.stride(0), value.stride(1),
        out.stride(0), out.stride(1),
        key_cache.stride(0), key_cache.stride(1), key_cache.stride(2),
        value_cache.stride(0), value_cache.stride(1), value_cache.stride(2), block_table.stride(0),
        GROUP=group, PIECES=chosen.pieces, ROWS=max_rows, WINDOW=window or 0, CAUSAL=causal,
        MERGED=parts > 1, SINKS=sinks is not None, SCALED=scaled, D=head_dim, PAGE=key_cache.shape[1],
        BLOCK_M=block_m, BLOCK_N=chosen.tile, BLOCK_R=block_r, BLOCK_D=block_d,
        EVERY_TILE=every_tile, ONE_TILE=one_tile, ALIKE=key_cache.stride() == value_cache.stride(),
        STAGES=chosen.stages, ON_GPU=query.is_cuda, HOPPER=hopper, PARTS=read_at_once(parts) if together else 0,
        TOGETHER=triton.next_power_of_2(triton.cdiv(queries, parts)) if together else 0,
        num_warps=chosen.warps, **extra,
    )  # fmt: skip
    if parts > 1 and not together:
        merge(
            part_values, part_weights, out, seq_lens, query_start_loc, parts=parts, pieces=heads // group,
            max_queries=queries, block_m=block_m, block_d=block_d, dependent=hopper,
        )  # fmt: skip
    return out
