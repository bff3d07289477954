# SPDX-License-Identifier: Apache-2.0
"""Drafter attention on the CPU, compiled: checks and the call. The kernel is csrc/cpu/attention_kernel.cpp.

Row r of a request is at position p = seq_len - rows + r. It sees context c when c < anchor and, in a windowed layer,
p - c < window; of the block it sees rows q <= p if causal, else all, in a windowed layer those with |p - q| < window
(reference/attention.py). Arithmetic is float32 whatever is stored; a request's result does not depend on the number
of threads or on the rest of the batch.
"""

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p

import torch

from vllm_dflash.errors import UserError
from vllm_dflash.kernels import native
from vllm_dflash.kernels.native_arguments import DTYPES, INT32, require


class _Arguments(ctypes.Structure):
    """dflash_attention_args of csrc/include/dflash_cpu.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("query", "output", "key", "value", "block_table", "query_start")),
        *((name, c_void_p) for name in ("seq_lens", "sinks")),
        *((name, c_int64) for name in ("query_row_stride", "query_head_stride")),
        *((name, c_int64) for name in ("output_row_stride", "output_head_stride")),
        *((name, c_int64) for name in ("kv_block_stride", "kv_head_stride", "kv_slot_stride")),
        ("block_table_stride", c_int64),
        *((name, c_int32) for name in ("rows", "requests", "heads", "kv_heads", "head_dim")),
        *((name, c_int32) for name in ("blocks", "block_size", "pages")),
        *((name, c_int32) for name in ("dtype", "kv_dtype", "window", "causal")),
        ("scale", c_float),
    ]


def drafter_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    window: int | None,
    causal: bool,
    scale: float,
    sinks: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Block rows against a paged cache that already holds the context and the block itself.

    Args:
        query: [N, heads, head_dim] float32, bfloat16 or float16; last dimension contiguous.
        kv_cache: [blocks, kv_heads, block_size, 2 * head_dim], key first; its own dtype of those three, any strides
            but a contiguous last dimension.
        block_table: [requests or more, pages] int32; query_start_loc: [requests + 1] int32; seq_lens: [requests] int32,
            block rows included; 0 for a request that is padding.
        window: keys that a row sees, its own included, or None.
        sinks: [heads] logits of a key that every row sees and whose value is zero.
        out: where to write, as query; made when None.

    Returns:
        `out`, of query's shape and dtype. Rows of no request and of requests of length 0 are zero.

    Raises:
        UserError: a shape, dtype or stride that the kernel does not take, a request shorter than its rows, or a page
            outside the cache.
    """
    out = torch.empty_like(query) if out is None else out
    require(
        ("query.dim()", query.dim(), (3,)),
        ("kv_cache.dim()", kv_cache.dim(), (4,)),
        ("block_table.dim()", block_table.dim(), (2,)),
    )
    rows, heads, head_dim = query.shape
    blocks, kv_heads, block_size, pair = kv_cache.shape
    requests = len(seq_lens)
    require(
        ("query.dtype", query.dtype, DTYPES),
        ("kv_cache.dtype", kv_cache.dtype, DTYPES),
        ("out.dtype", out.dtype, (query.dtype,)),
        ("block_table.dtype", block_table.dtype, INT32),
        ("query_start_loc.dtype", query_start_loc.dtype, INT32),
        ("seq_lens.dtype", seq_lens.dtype, INT32),
        ("out.shape", out.shape, (query.shape,)),
        ("kv_cache.shape[3]", pair, (2 * head_dim,)),
        ("query_start_loc.shape", query_start_loc.shape, ((requests + 1,),)),
        ("len(block_table)", min(len(block_table), requests), (requests,)),
        ("query.stride(-1)", query.stride(-1), (1,)),
        ("kv_cache.stride(-1)", kv_cache.stride(-1), (1,)),
        ("out.stride(-1)", out.stride(-1), (1,)),
        ("block_table.stride(-1)", block_table.stride(-1), (1,)),
        ("query_start_loc.stride(-1)", query_start_loc.stride(-1), (1,)),
        ("seq_lens.stride(-1)", seq_lens.stride(-1), (1,)),
        ("query.is_cpu", query.is_cpu and kv_cache.is_cpu and out.is_cpu, (True,)),
        ("block_table.is_cpu", block_table.is_cpu and query_start_loc.is_cpu and seq_lens.is_cpu, (True,)),
    )
    if window is not None and window < 1:
        raise UserError("no key would be visible", field="window", found=window, needed="None, or 1 or more")
    if sinks is not None:
        require(("sinks.shape", sinks.shape, ((heads,),)))
        sinks = sinks.to(torch.float32).contiguous()
    if rows == 0:
        return out
    base = kv_cache.data_ptr()
    arguments = _Arguments(
        query.data_ptr(),
        out.data_ptr(),
        base,
        base + head_dim * kv_cache.element_size(),
        block_table.data_ptr(),
        query_start_loc.data_ptr(),
        seq_lens.data_ptr(),
        None if sinks is None else sinks.data_ptr(),
        *query.stride()[:2],
        *out.stride()[:2],
        *kv_cache.stride()[:3],
        block_table.stride(0),
        rows,
        requests,
        heads,
        kv_heads,
        head_dim,
        blocks,
        block_size,
        block_table.shape[1],
        DTYPES[query.dtype],
        DTYPES[kv_cache.dtype],
        window or 0,
        causal,
        scale,
    )
    native.call("dflash_attention", arguments)
    return out
