# SPDX-License-Identifier: Apache-2.0
"""Block-diffusion mask filling in Triton: the kernel and its launch. What it computes: kernels/mask_fill.py.

Programs: one for each (request, BLOCK of its context rows, KV group); the first of a request also writes its block,
that of group 0 what the groups share; then one for each PAD_BLOCK of padding.
"""

import triton
import triton.language as tl

from vllm_dflash.kernels.mask_fill_arguments import COLUMNS, KVGroups
from vllm_dflash.reference.mask_fill import NULL_PAGE, PAD, BlockInputs, TargetStep

_PAD_BLOCK = 256


@triton.jit
def _slots(position, written, block_table, pages, block_size, NULL_PAGE: tl.constexpr, PAD: tl.constexpr):  # type: ignore[no-untyped-def]
    """block_table: the request's row. position: int32."""
    page = position // block_size
    known = written & (page < pages)
    physical = tl.load(block_table + page, mask=known, other=NULL_PAGE).to(tl.int64)
    slot = physical * block_size + (position % block_size)
    return tl.where(physical != NULL_PAGE, slot, PAD)


_NUMBERS = (
    "num_reqs",
    "blocks",
    "mask_token_id",
    "max_model_len",
    "padded_tokens",
    "padded_reqs",
    "padded_samples",
)
_SLICED = ("target_positions", "target_starts", "anchor_tokens", "num_rejected", "request_state", "num_sampled")


@triton.jit(do_not_specialize=_NUMBERS, do_not_specialize_on_alignment=_SLICED)
def _mask_fill_kernel(  # type: ignore[no-untyped-def]
    target_positions,
    target_starts,
    anchor_tokens,
    num_rejected,
    request_state,
    num_sampled,
    prefill_tokens,
    temperature,
    seeds,
    groups,
    input_ids,
    positions,
    context_positions,
    sample_rows,
    query_start_loc,
    seq_lens,
    sample_positions,
    sample_requests,
    is_padding,
    out_temperature,
    out_seeds,
    num_reqs,
    blocks,
    mask_token_id,
    max_model_len,
    padded_tokens,
    padded_reqs,
    padded_samples,
    ROWS: tl.constexpr,
    NULL_PAGE: tl.constexpr,
    PAD: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
    PAD_BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    group = tl.program_id(1)
    groups += group * COLUMNS
    query_slots = tl.load(groups + 4).to(tl.pointer_type(tl.int64))
    drafts: tl.constexpr = ROWS - 1

    if program >= num_reqs * blocks:
        index = (program - num_reqs * blocks) * PAD_BLOCK + tl.arange(0, PAD_BLOCK)
        token = num_reqs * ROWS + index
        tl.store(query_slots + token, PAD, mask=token < padded_tokens)
        if group == 0:
            tl.store(input_ids + token, 0, mask=token < padded_tokens)
            tl.store(positions + token, 0, mask=token < padded_tokens)
            if is_padding is not None:
                tl.store(is_padding + token, True, mask=token < padded_tokens)
            if query_start_loc is not None:
                start = num_reqs + index
                tl.store(query_start_loc + start, num_reqs * ROWS, mask=start < padded_reqs + 1)
            if seq_lens is not None:
                request = num_reqs + index
                tl.store(seq_lens + request, 0, mask=request < padded_reqs)
            sample = num_reqs * drafts + index
            tl.store(sample_rows + sample, 0, mask=sample < padded_samples)
            if sample_positions is not None:
                tl.store(sample_positions + sample, 0, mask=sample < padded_samples)
            if sample_requests is not None:
                tl.store(sample_requests + sample, -1, mask=sample < padded_samples)
        return

    req = program // blocks
    block = program % blocks
    block_table = tl.load(groups + 0).to(tl.pointer_type(tl.int32)) + req * tl.load(groups + 1)
    pages = tl.load(groups + 2).to(tl.int32)
    block_size = tl.load(groups + 3).to(tl.int32)
    context_slots = tl.load(groups + 5).to(tl.pointer_type(tl.int64))
    start = tl.load(target_starts + req).to(tl.int32)
    end = tl.load(target_starts + req + 1).to(tl.int32)
    valid_end = end
    if num_rejected is not None:
        valid_end = end - tl.load(num_rejected + req).to(tl.int32)
    live = valid_end > start

    context = start + block * BLOCK + tl.arange(0, BLOCK)
    counts = context < valid_end
    position = tl.load(target_positions + context, mask=counts, other=0).to(tl.int32)
    slot = _slots(position, counts, block_table, pages, block_size, NULL_PAGE, PAD)
    tl.store(context_slots + context, slot, mask=context < end)
    if group == 0:
        tl.store(context_positions + context, position, mask=context < end)

    if block == 0:
        after = tl.load(target_positions + valid_end - 1, mask=live, other=-1).to(tl.int32) + 1
        i = tl.arange(0, ROW_BLOCK)
        here = i < ROWS
        row = req * ROWS + i
        block_position = after + i
        inside = here & (block_position < tl.where(live, max_model_len, 0))
        block_slot = _slots(block_position, inside, block_table, pages, block_size, NULL_PAGE, PAD)
        tl.store(query_slots + row, block_slot, mask=here)
        if group == 0:
            state = req
            if request_state is not None:
                state = tl.load(request_state + req).to(tl.int32)
            anchor = tl.load(anchor_tokens + state).to(tl.int32)
            if num_sampled is not None:  # noqa: SIM102, decided when compiling
                if tl.load(num_sampled + req) <= 0:
                    anchor = tl.load(prefill_tokens + state).to(tl.int32)
            token = tl.where(i == 0, anchor, mask_token_id)
            held = tl.minimum(block_position, max_model_len - 1)
            tl.store(input_ids + row, tl.where(live, token, 0), mask=here)
            tl.store(positions + row, tl.where(live, held, 0), mask=here)
            if is_padding is not None:
                tl.store(is_padding + row, tl.where(live, i, -1) < 0, mask=here)
            sample = req * drafts + i - 1
            sampled = here & (i > 0)
            tl.store(sample_rows + sample, tl.where(live, row, 0), mask=sampled)
            if sample_positions is not None:
                tl.store(sample_positions + sample, tl.where(live, block_position, 0), mask=sampled)
            if sample_requests is not None:
                tl.store(sample_requests + sample, tl.where(live, state, -1), mask=sampled)
            if query_start_loc is not None:
                tl.store(query_start_loc + req, req * ROWS)
            if seq_lens is not None:
                tl.store(seq_lens + req, tl.where(live, tl.minimum(after + ROWS, max_model_len), 0))
            if temperature is not None:
                tl.store(out_temperature + state, tl.load(temperature + state))
            if seeds is not None:
                tl.store(out_seeds + state, tl.load(seeds + state))


def launch(
    step: TargetStep,
    groups: KVGroups,
    out: BlockInputs,
    num_reqs: int,
    longest_context: int,
    mask_token_id: int,
    num_drafts: int,
    max_model_len: int,
    padded_tokens: int,
) -> None:
    """Arguments as mask_fill has checked them."""
    rows = 1 + num_drafts
    block = 32 if longest_context <= 32 else 256  # two, so that serving does not compile for each length it meets
    blocks = triton.cdiv(max(longest_context, 1), block)
    padded_reqs = _padded_reqs(out, num_reqs)
    padded_samples = out.sample_rows.shape[0]
    longest = max(padded_tokens - num_reqs * rows, padded_reqs + 1 - num_reqs, padded_samples - num_reqs * num_drafts)
    copies_temperature = step.temperature is not None and out.temperature is not None
    copies_seeds = step.seeds is not None and out.seeds is not None
    _mask_fill_kernel[(num_reqs * blocks + triton.cdiv(longest, _PAD_BLOCK), len(groups.groups))](
        step.positions,
        step.query_start_loc,
        step.anchor_tokens,
        step.num_rejected,
        step.request_state,
        step.num_sampled,
        step.prefill_tokens,
        step.temperature if copies_temperature else None,
        step.seeds if copies_seeds else None,
        groups.table,
        out.input_ids,
        out.positions,
        out.context_positions,
        out.sample_rows,
        out.query_start_loc,
        out.seq_lens,
        out.sample_positions,
        out.sample_requests,
        out.is_padding,
        out.temperature,
        out.seeds,
        num_reqs,
        blocks,
        mask_token_id,
        max_model_len,
        padded_tokens,
        padded_reqs,
        padded_samples,
        ROWS=rows,
        NULL_PAGE=NULL_PAGE,
        PAD=PAD,
        COLUMNS=COLUMNS,
        BLOCK=block,
        ROW_BLOCK=triton.next_power_of_2(rows),
        PAD_BLOCK=_PAD_BLOCK,
        num_warps=1 if block == 32 else 4,
    )


def _padded_reqs(out: BlockInputs, num_reqs: int) -> int:
    """Requests that the buffers of a request each have room for."""
    if out.seq_lens is not None:
        return out.seq_lens.shape[0]
    return num_reqs if out.query_start_loc is None else out.query_start_loc.shape[0] - 1
