# SPDX-License-Identifier: Apache-2.0
"""Block-diffusion mask filling in plain torch: from the target's verified step to the drafter's next block.

A request's block is [anchor, mask, ..., mask]. The anchor is the last accepted token, one position after the last
context row that was not rejected. R requests, Q = 1 + k rows a block, C context rows, G KV cache groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

PAD = -1  # a slot that nothing is written to
NULL_PAGE = 0  # vLLM's page that no request owns


@dataclass(frozen=True)
class KVGroup:
    """One KV cache group of the drafter.

    block_table: [>= R, pages] int32, physical page of each logical page; block_size: tokens a page.
    query_slots: [>= padded tokens] int64 and context_slots: [>= C] int64, both written.
    """

    block_table: torch.Tensor
    block_size: int
    query_slots: torch.Tensor
    context_slots: torch.Tensor


@dataclass(frozen=True)
class TargetStep:
    """What the target's step left behind. All on one device; int32 or int64 unless said.

    positions: [>= C]; query_start_loc: [>= R + 1], context rows of request r are query_start_loc[r] to [r + 1].
    anchor_tokens: [states], last accepted token of each state row.
    num_rejected: [>= R], rows at a request's end that were rejected; None: none.
    request_state: [>= R], state row of each request; None: request r has row r.
    num_sampled: [>= R]; 0: the request is still prefilling, and its anchor is prefill_tokens[state].
    temperature: [states] float32 and seeds: [states] int64, copied for the states of this batch.
    """

    positions: torch.Tensor
    query_start_loc: torch.Tensor
    anchor_tokens: torch.Tensor
    num_rejected: torch.Tensor | None = None
    request_state: torch.Tensor | None = None
    num_sampled: torch.Tensor | None = None
    prefill_tokens: torch.Tensor | None = None
    temperature: torch.Tensor | None = None
    seeds: torch.Tensor | None = None


@dataclass(frozen=True)
class BlockInputs:
    """What the drafter's pass reads, written here; int32 or int64 unless said. None: not wanted.

    input_ids, positions, is_padding (bool): [>= padded tokens]; context_positions: [>= C].
    sample_rows: [>= R k], the row of each mask token; sample_positions, sample_requests: the same shape, its
    position (not held below max_model_len) and its request's state row.
    query_start_loc: [>= R + 1]; seq_lens: [>= R], context and block together.
    """

    input_ids: torch.Tensor
    positions: torch.Tensor
    context_positions: torch.Tensor
    sample_rows: torch.Tensor
    query_start_loc: torch.Tensor | None = None
    seq_lens: torch.Tensor | None = None
    sample_positions: torch.Tensor | None = None
    sample_requests: torch.Tensor | None = None
    is_padding: torch.Tensor | None = None
    temperature: torch.Tensor | None = None
    seeds: torch.Tensor | None = None


def mask_fill(
    step: TargetStep,
    groups: Sequence[KVGroup],
    out: BlockInputs,
    *,
    num_reqs: int,
    mask_token_id: int,
    num_drafts: int,
    max_model_len: int,
    padded_tokens: int,
) -> None:
    """Fill `out` and the groups' slots. Rows from R Q to padded_tokens, and what follows the last request in the
    buffers of a request each, become padding.

    A request without a context row that counts is padding too.
    """
    rows, device = 1 + num_drafts, step.positions.device
    starts, ends = step.query_start_loc[:num_reqs].long(), step.query_start_loc[1 : num_reqs + 1].long()
    valid_ends = ends if step.num_rejected is None else ends - step.num_rejected[:num_reqs].long()
    live = valid_ends > starts
    states = torch.arange(num_reqs, device=device)
    if step.request_state is not None:
        states = step.request_state[:num_reqs].long()

    context = torch.arange(int(ends[-1]), device=device)
    request = torch.searchsorted(ends, context, right=True)
    counts = context < valid_ends[request]
    context_positions = torch.where(counts, step.positions[: len(context)].long(), 0)
    out.context_positions[: len(context)] = context_positions.to(out.context_positions.dtype)

    after = step.positions[(valid_ends - 1).clamp(min=0)].long() + 1
    positions = after[:, None] + torch.arange(rows, device=device)
    inside = live[:, None] & (positions < max_model_len)
    for group in groups:
        group.context_slots[: len(context)] = slots_of(context_positions, request, counts, group)
        filled = slots_of(positions, torch.arange(num_reqs, device=device)[:, None], inside, group)
        _fill(group.query_slots[:padded_tokens], filled, PAD)

    anchors = step.anchor_tokens.flatten()[states].long()
    if step.num_sampled is not None and step.prefill_tokens is not None:
        anchors = torch.where(step.num_sampled[:num_reqs] > 0, anchors, step.prefill_tokens.flatten()[states].long())
    ids = torch.full((num_reqs, rows), mask_token_id, device=device)
    ids[:, 0] = anchors
    held = positions.clamp(max=max_model_len - 1)
    _fill(out.input_ids[:padded_tokens], torch.where(live[:, None], ids, 0), 0)
    _fill(out.positions[:padded_tokens], torch.where(live[:, None], held, 0), 0)
    _fill(None if out.is_padding is None else out.is_padding[:padded_tokens], ~live[:, None].expand(-1, rows), 1)

    masks = torch.arange(num_reqs, device=device)[:, None] * rows + torch.arange(1, rows, device=device)
    _fill(out.sample_rows, torch.where(live[:, None], masks, 0), 0)
    _fill(out.sample_positions, torch.where(live[:, None], positions[:, 1:], 0), 0)
    _fill(out.sample_requests, torch.where(live, states, -1)[:, None].expand(-1, num_drafts), -1)
    _fill(out.query_start_loc, torch.arange(num_reqs + 1, device=device) * rows, num_reqs * rows)
    _fill(out.seq_lens, torch.where(live, (after + rows).clamp(max=max_model_len), 0), 0)
    for source, target in ((step.temperature, out.temperature), (step.seeds, out.seeds)):
        if source is not None and target is not None:
            target[states] = source[states]


def slots_of(positions: torch.Tensor, requests: torch.Tensor, written: torch.Tensor, group: KVGroup) -> torch.Tensor:
    """Slot of each position in its request's pages; PAD where nothing may be written: rows that do not count, pages
    past the table, and the null page."""
    page = positions // group.block_size
    known = written & (page < group.block_table.shape[1])
    physical = group.block_table[requests, torch.where(known, page, 0)].long()
    slots = physical * group.block_size + positions % group.block_size
    return torch.where(known & (physical != NULL_PAGE), slots, PAD)


def _fill(buffer: torch.Tensor | None, values: torch.Tensor, padding: int) -> None:
    """values, flattened, at the front of the buffer; padding behind them."""
    if buffer is not None:
        buffer[: values.numel()] = values.reshape(-1).to(buffer.dtype)
        buffer[values.numel() :] = padding
