# SPDX-License-Identifier: Apache-2.0
"""Arguments of the mask_fill kernel: the KV groups' addresses on the device, and the checks of a call."""

from collections.abc import Sequence

import torch

from vllm_dflash.errors import UserError
from vllm_dflash.reference.mask_fill import BlockInputs, KVGroup, TargetStep

COLUMNS = 6  # of the device table, see KVGroups._row


class KVGroups:
    """The drafter's KV cache groups, checked, with their addresses on the device.

    Built once, outside CUDA graphs, and again only when a tensor moves. Holds references to everything that the
    device table points to.
    """

    def __init__(self, groups: Sequence[KVGroup]) -> None:
        """Raises UserError for tensors that the kernel cannot use."""
        _check_groups(groups)
        self.groups = tuple(groups)
        self.device = groups[0].block_table.device
        self.requests = min(group.block_table.shape[0] for group in groups)
        self.tokens = min(group.query_slots.shape[0] for group in groups)
        self.context = min(group.context_slots.shape[0] for group in groups)
        self.addresses = tuple(self._row(group) for group in groups)
        self.table = torch.tensor(self.addresses, dtype=torch.int64, device=self.device)

    @classmethod
    def of(
        cls,
        block_tables: Sequence[torch.Tensor],
        block_sizes: Sequence[int],
        query_slots: Sequence[torch.Tensor],
        context_slots: Sequence[torch.Tensor],
    ) -> "KVGroups":
        """One entry a group: [>= R, pages] int32; tokens a page; [>= padded tokens] int64; [>= C] int64."""
        parts = zip(block_tables, block_sizes, query_slots, context_slots, strict=True)
        return cls([KVGroup(*part) for part in parts])

    @staticmethod
    def _row(group: KVGroup) -> tuple[int, ...]:
        table = group.block_table
        return (
            table.data_ptr(),
            table.stride(0),
            table.shape[1],
            group.block_size,
            group.query_slots.data_ptr(),
            group.context_slots.data_ptr(),
        )

    def same(self, groups: Sequence[KVGroup]) -> bool:
        """Whether these are the tensors this was built for, so that it can be used again."""
        return self.addresses == tuple(self._row(group) for group in groups)


def _bad(message: str, field: str, found: object, needed: str) -> UserError:
    return UserError(f"mask_fill: {message}", field=field, found=found, needed=needed)


def _check_groups(groups: Sequence[KVGroup]) -> None:
    if not groups:
        raise _bad("no KV groups", "groups", list(groups), "one or more")
    device = groups[0].block_table.device
    for i, group in enumerate(groups):
        table = group.block_table
        if table.dim() != 2 or table.dtype != torch.int32 or table.stride(1) != 1:
            found = tuple(table.shape), table.dtype, table.stride()
            raise _bad("not a block table", f"groups[{i}].block_table", found, "[R, pages] int32, last stride 1")
        if group.block_size < 1:
            raise _bad("not a page size", f"groups[{i}].block_size", group.block_size, "1 or more")
        for name, slots in (("query_slots", group.query_slots), ("context_slots", group.context_slots)):
            if slots.dim() != 1 or slots.dtype != torch.int64 or not slots.is_contiguous():
                found = tuple(slots.shape), slots.dtype, slots.stride()
                raise _bad("not a slot buffer", f"groups[{i}].{name}", found, "[n] int64, contiguous")
            if slots.device != device or table.device != device:
                raise _bad("groups on two devices", f"groups[{i}].{name}.device", slots.device, str(device))


_INTEGERS = (torch.int32, torch.int64)


def check_call(
    step: TargetStep,
    groups: KVGroups,
    out: BlockInputs,
    num_reqs: int,
    longest_context: int,
    num_drafts: int,
    max_model_len: int,
    padded_tokens: int,
) -> None:
    rows = num_reqs * (1 + num_drafts)
    for name, number in (("num_reqs", num_reqs), ("num_drafts", num_drafts), ("max_model_len", max_model_len)):
        if number < 1:
            raise _bad("nothing to fill", name, number, "1 or more")
    if num_reqs > groups.requests:
        raise _bad("more requests than rows of the block tables", "num_reqs", num_reqs, f"at most {groups.requests}")
    if not rows <= padded_tokens <= groups.tokens:
        raise _bad("padding outside the slot buffers", "padded_tokens", padded_tokens, f"{rows} to {groups.tokens}")
    if longest_context > step.positions.shape[0]:
        needed = f"at most {step.positions.shape[0]}, the positions given"
        raise _bad("longer than the step", "longest_context", longest_context, needed)
    if (step.num_sampled is None) != (step.prefill_tokens is None):
        raise _bad("one without the other", "num_sampled", "only one of num_sampled, prefill_tokens", "both or none")
    sizes: tuple[tuple[str, torch.Tensor | None, int], ...] = (
        ("step.positions", step.positions, 1),
        ("step.query_start_loc", step.query_start_loc, num_reqs + 1),
        ("step.anchor_tokens", step.anchor_tokens, 1 if step.request_state is not None else num_reqs),
        ("step.num_rejected", step.num_rejected, num_reqs),
        ("step.request_state", step.request_state, num_reqs),
        ("step.num_sampled", step.num_sampled, num_reqs),
        ("step.prefill_tokens", step.prefill_tokens, 1 if step.request_state is not None else num_reqs),
        ("out.input_ids", out.input_ids, padded_tokens),
        ("out.positions", out.positions, padded_tokens),
        ("out.context_positions", out.context_positions, longest_context),
        ("out.sample_rows", out.sample_rows, num_reqs * num_drafts),
        ("out.query_start_loc", out.query_start_loc, num_reqs + 1),
        ("out.seq_lens", out.seq_lens, num_reqs),
        ("out.sample_positions", out.sample_positions, out.sample_rows.shape[0]),
        ("out.sample_requests", out.sample_requests, out.sample_rows.shape[0]),
    )
    for name, tensor, size in sizes:
        if tensor is None:
            continue
        if tensor.numel() < size:
            raise _bad("too small", name, tuple(tensor.shape), f"{size} or more")
        if tensor.dtype not in _INTEGERS:
            raise _bad("not integers", f"{name}.dtype", tensor.dtype, "int32 or int64")
        if not tensor.is_contiguous():
            raise _bad("not contiguous", f"{name}.stride()", tensor.stride(), "a contiguous tensor")
        if tensor.device != groups.device:
            raise _bad("another device than the block tables'", f"{name}.device", tensor.device, str(groups.device))
    if out.is_padding is not None and (out.is_padding.dtype != torch.bool or len(out.is_padding) < padded_tokens):
        found = out.is_padding.dtype, tuple(out.is_padding.shape)
        raise _bad("not a padding mask", "out.is_padding", found, f"bool, {padded_tokens} or more")
    if out.seq_lens is not None and out.query_start_loc is not None:
        requests = out.seq_lens.shape[0], out.query_start_loc.shape[0] - 1
        if requests[0] != requests[1]:
            raise _bad("buffers for different numbers of requests", "out.seq_lens", requests, "equal numbers")
