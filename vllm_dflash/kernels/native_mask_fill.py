# SPDX-License-Identifier: Apache-2.0
"""Block-diffusion mask filling on the CPU, compiled: the call. The kernel is csrc/cpu/mask_fill.cpp.

It writes what reference/mask_fill.py writes, bit for bit.
"""

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_int64, c_void_p

import torch

from vllm_dflash.kernels import native
from vllm_dflash.kernels.native_arguments import INT32, INTEGERS, require
from vllm_dflash.reference.mask_fill import BlockInputs, KVGroup, TargetStep


class _Integers(ctypes.Structure):
    """dflash_integers of csrc/include/dflash_cpu.h."""

    _fields_ = (("data", c_void_p), ("bytes", c_int32), ("size", c_int32))


class _Group(ctypes.Structure):
    """dflash_mask_fill_group."""

    _fields_ = (
        *((name, c_void_p) for name in ("block_table", "query_slots", "context_slots")),
        ("block_table_stride", c_int64),
        *((name, c_int32) for name in ("pages", "block_size", "context_size")),
    )


_READ = ("positions", "query_start_loc", "anchor_tokens", "num_rejected", "request_state", "num_sampled")
_WRITTEN = ("input_ids", "positions", "context_positions", "sample_rows", "query_start_loc", "seq_lens")
_WRITTEN_SAMPLES = ("sample_positions", "sample_requests")


class _Arguments(ctypes.Structure):
    """dflash_mask_fill_args."""

    _fields_ = (
        *((name, _Integers) for name in (*_READ, "prefill_tokens")),
        *((f"out_{name}", _Integers) for name in (*_WRITTEN, *_WRITTEN_SAMPLES)),
        *((name, c_void_p) for name in ("is_padding", "temperature", "out_temperature", "seeds", "out_seeds")),
        ("groups", c_void_p),
        *((name, c_int32) for name in ("group_count", "requests", "drafts", "padded_tokens", "states")),
        *((name, c_int64) for name in ("mask_token", "max_model_len")),
    )


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
    """Arguments as reference.mask_fill takes them and mask_fill_arguments.check_call has checked them.

    Raises UserError for contents that would be read or written outside a buffer; nothing is written then.
    """
    read = [getattr(step, name) for name in (*_READ, "prefill_tokens")]
    written = [getattr(out, name) for name in (*_WRITTEN, *_WRITTEN_SAMPLES)]
    for source, target, dtype in (
        (step.temperature, out.temperature, torch.float32),
        (step.seeds, out.seeds, torch.int64),
    ):
        if source is not None and target is not None:
            require(("temperature and seeds: dtypes", (source.dtype, target.dtype), ((dtype, dtype),)))
    table = (_Group * len(groups))(*map(_group, groups))
    sizes = [
        x.numel() for x in (step.anchor_tokens, step.prefill_tokens, step.temperature, step.seeds) if x is not None
    ]
    arguments = _Arguments(
        *map(_integers, read),
        *map(_integers, written),
        *map(_address, (out.is_padding, step.temperature, out.temperature, step.seeds, out.seeds)),
        ctypes.addressof(table),
        len(groups),
        num_reqs,
        num_drafts,
        padded_tokens,
        min(sizes),
        mask_token_id,
        max_model_len,
    )
    native.call("dflash_mask_fill", arguments)


def _integers(tensor: torch.Tensor | None) -> _Integers:
    if tensor is None:
        return _Integers(None, 4, 0)
    require(("dtype", tensor.dtype, INTEGERS))
    return _Integers(tensor.data_ptr(), tensor.element_size(), tensor.numel())


def _group(group: KVGroup) -> _Group:
    table = group.block_table
    require(("block_table.dtype", table.dtype, INT32))
    return _Group(
        table.data_ptr(),
        group.query_slots.data_ptr(),
        group.context_slots.data_ptr(),
        table.stride(0),
        table.shape[1],
        group.block_size,
        group.context_slots.shape[0],
    )


def _address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
