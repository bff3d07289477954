# SPDX-License-Identifier: Apache-2.0
"""The mean of drafter_attention's partial results by their weights (Triton), in the same launch or in a second one.

    out[m] = sum_i 2^w[i, m] v[i, m] / sum_i 2^w[i, m]     over the parts i of one request and KV head

Shapes: part_values [requests, kv_heads, parts, BLOCK_M, BLOCK_D]; part_weights the same without BLOCK_D, fp32, -inf
where a part saw nothing. Where a few programs share the query heads of one KV head, each counts as a KV head here.
"""

import torch
import triton
import triton.language as tl

MOST_PARTS = 33
ROWS_A_PROGRAM = 2  # of the second launch


@triton.jit
def arrive_and_wait(counter, last, parts):  # type: ignore[no-untyped-def]
    """Returns when all `parts` programs of this counter are here; what they stored before can then be read.

    last: whether this is the one of them that makes up for the others, so that each launch adds 65,536 in all, whatever
    `parts` is: a counter is never reset, and may wrap. All the programs must be on the card at once.
    """
    own = tl.where(last, 65536 - (parts - 1), 1)
    tl.debug_barrier()
    before = tl.atomic_add(counter, own, sem="acq_rel", scope="gpu")
    full = (before & -65536) + 65536
    seen = before + own
    while seen - full < 0:
        seen = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")


@triton.jit
def merge_rows(  # type: ignore[no-untyped-def]
    part_values, part_weights, out, first_row, begin, rows, length, pair, parts, head, out_row, out_head,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Rows first_row to first_row + ROWS of one KV head. PARTS: at least `parts`; all are read before any is used.

    pair: request x KV heads + head. No sum goes across threads.
    """
    m, d = (first_row + tl.arange(0, ROWS))[:, None], tl.arange(0, BLOCK_D)[None, :]
    weight_at = part_weights + (pair * parts).to(tl.int64) * BLOCK_M + tl.minimum(m, BLOCK_M - 1)
    value_at = part_values + ((pair * parts).to(tl.int64) * BLOCK_M + tl.minimum(m, BLOCK_M - 1)) * BLOCK_D + d
    weights, values = (), ()
    for i in tl.static_range(PARTS):
        part = tl.minimum(i, parts - 1)
        weight = tl.load(weight_at + part * BLOCK_M)
        weights = weights + (tl.where(i < parts, weight, float("-inf")),)  # type: ignore[assignment]
        values = values + (tl.load(value_at + part * (BLOCK_M * BLOCK_D)),)  # type: ignore[assignment]
    highest = weights[0]  # type: ignore[misc]
    for i in tl.static_range(1, PARTS):
        highest = tl.maximum(highest, weights[i])
    highest = tl.where(highest == float("-inf"), 0.0, highest)
    total = tl.zeros([ROWS, 1], tl.float32)
    result = tl.zeros([ROWS, BLOCK_D], tl.float32)
    for i in tl.static_range(PARTS):
        share = tl.exp2(weights[i] - highest)
        total += share
        result += share * values[i].to(tl.float32)
    result = tl.where(length > 0, result * (1.0 / tl.where(total == 0.0, 1.0, total)), 0.0)
    target = out + (begin + m // GROUP).to(tl.int64) * out_row + (head * GROUP + m % GROUP) * out_head + d
    tl.store(target, result.to(out.dtype.element_ty), mask=(m < rows * GROUP) & (d < D))


@triton.jit
def _merge_kernel(  # type: ignore[no-untyped-def]
    part_values, part_weights, out, seq_lens, query_start_loc, parts, out_row, out_head,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    PARTS: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """ROWS rows of one KV head a program."""
    head, request = tl.program_id(1), tl.program_id(2)
    begin = tl.load(query_start_loc + request)  # not the first launch's: there since before it began
    rows = tl.load(query_start_loc + request + 1) - begin
    length = tl.load(seq_lens + request)
    if DEPENDENT:
        tl.extra.cuda.gdc_wait()  # by every program: the grid must not end before the first launch has
    if tl.program_id(0) * ROWS < rows * GROUP:
        merge_rows(
            part_values, part_weights, out, tl.program_id(0) * ROWS, begin, rows, length,
            request * tl.num_programs(1) + head, parts, head, out_row, out_head,
            GROUP, D, BLOCK_M, BLOCK_D, ROWS, PARTS,
        )  # fmt: skip


def read_at_once(parts: int) -> int:
    """Parts that merge_rows is compiled for: one of few numbers, at least `parts`."""
    return MOST_PARTS if parts > 16 else triton.next_power_of_2(parts)


def merge(
    part_values: torch.Tensor,
    part_weights: torch.Tensor,
    out: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    *,
    parts: int,
    pieces: int,
    max_queries: int,
    block_m: int,
    block_d: int,
    dependent: bool,
) -> None:
    """The second launch. out [N, heads, D]; seq_lens [B], query_start_loc [B + 1] int32.

    Args:
        parts, block_m, block_d: as the first launch had them. pieces: KV heads x programs that share one's query heads.
        max_queries: rows x query heads of a program, of the longest request.
        dependent: start beside the first launch and wait for it on the device.
    """
    heads, head_dim = out.shape[1:]
    rows = min(ROWS_A_PROGRAM, block_m)
    extra = {"launch_pdl": True} if dependent else {}
    _merge_kernel[(triton.cdiv(max_queries, rows), pieces, seq_lens.shape[0])](
        part_values, part_weights, out, seq_lens, query_start_loc, parts, out.stride(0), out.stride(1),
        GROUP=heads // pieces, D=head_dim, BLOCK_M=block_m, BLOCK_D=block_d, ROWS=rows,
        PARTS=read_at_once(parts), DEPENDENT=dependent, num_warps=4, **extra,
    )  # fmt: skip
