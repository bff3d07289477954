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


class DrafterAttention:
    """The attention of one draft layer. What it knows of the cache is kept from call to call."""

    def __init__(self, *, window: int | None, causal: bool, scale: float) -> None:
        """window: keys that a row sees, its own included, or None. Raises UserError when that is none."""
        if window is not None and window < 1:
            raise UserError("no key would be visible", field="window", found=window, needed="None, or 1 or more")
        self._cache: torch.Tensor | None = None
        self._arguments = _Arguments(window=window or 0, causal=causal, scale=scale)

    def __call__(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        block_table: torch.Tensor,
        query_start_loc: torch.Tensor,
        seq_lens: torch.Tensor,
        sinks: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Block rows against a paged cache that already holds the context and the block itself.

        Args:
            query: [N, heads, head_dim] float32, bfloat16 or float16; last dimension contiguous.
            kv_cache: [blocks, kv_heads, block_size, 2 * head_dim], key first; its own dtype of those three, any
                strides but a contiguous last dimension.
            block_table: [requests or more, pages] int32; query_start_loc: [requests + 1] int32; seq_lens: [requests]
                int32, block rows included; 0 for a request that is padding.
            sinks: [heads] logits of a key that every row sees and whose value is zero.
            out: where to write, as query; made when None.

        Returns:
            `out`, of query's shape and dtype. Rows of no request and of requests of length 0 are zero.

        Raises:
            UserError: a shape, dtype or stride that the kernel does not take, a request shorter than its rows, or a
                page outside the cache. Nothing is written then.
        """
        if kv_cache is not self._cache:
            self._take(kv_cache)
        out = torch.empty_like(query) if out is None else out
        arguments, requests = self._arguments, len(seq_lens)
        require(
            ("query.dim()", query.dim(), (3,)),
            ("query.dtype", query.dtype, DTYPES),
            ("query.stride(-1)", query.stride(-1), (1,)),
            ("out.dtype", out.dtype, (query.dtype,)),
            ("out.shape", out.shape, (query.shape,)),
            ("out.stride(-1)", out.stride(-1), (1,)),
            ("block_table.dim()", block_table.dim(), (2,)),
            ("block_table.dtype", block_table.dtype, INT32),
            ("block_table.stride(-1)", block_table.stride(-1), (1,)),
            ("query_start_loc.dtype", query_start_loc.dtype, INT32),
            ("query_start_loc.shape", query_start_loc.shape, ((requests + 1,),)),
            ("seq_lens.dtype", seq_lens.dtype, INT32),
            ("strides", query_start_loc.is_contiguous() and seq_lens.is_contiguous(), (True,)),
            ("len(block_table)", min(len(block_table), requests), (requests,)),
            ("devices", query.is_cpu and out.is_cpu and block_table.is_cpu and seq_lens.is_cpu, (True,)),
        )
        rows, arguments.heads, head_dim = query.shape
        require(("query.shape[2]", head_dim, (arguments.head_dim,)))
        if sinks is not None:
            require(("sinks.shape", sinks.shape, ((arguments.heads,),)))
            sinks = sinks.to(torch.float32).contiguous()
        if rows == 0:
            return out
        arguments.query, arguments.output = query.data_ptr(), out.data_ptr()
        arguments.query_row_stride, arguments.query_head_stride, _ = query.stride()
        arguments.output_row_stride, arguments.output_head_stride, _ = out.stride()
        arguments.block_table, arguments.block_table_stride = block_table.data_ptr(), block_table.stride(0)
        arguments.query_start, arguments.seq_lens = query_start_loc.data_ptr(), seq_lens.data_ptr()
        arguments.sinks = None if sinks is None else sinks.data_ptr()
        arguments.rows, arguments.requests, arguments.pages = rows, requests, block_table.shape[1]
        arguments.dtype = DTYPES[query.dtype]
        native.call("dflash_attention", arguments)
        return out

    def _take(self, kv_cache: torch.Tensor) -> None:
        require(("kv_cache.dim()", kv_cache.dim(), (4,)), ("kv_cache.dtype", kv_cache.dtype, DTYPES))
        blocks, kv_heads, block_size, pair = kv_cache.shape
        require(
            ("kv_cache.stride(-1)", kv_cache.stride(-1), (1,)),
            ("kv_cache.is_cpu", kv_cache.is_cpu, (True,)),
            ("kv_cache.shape[3] % 2", pair % 2, (0,)),
        )
        arguments = self._arguments
        arguments.key = kv_cache.data_ptr()
        arguments.value = kv_cache.data_ptr() + pair // 2 * kv_cache.element_size()
        arguments.kv_block_stride, arguments.kv_head_stride, arguments.kv_slot_stride = kv_cache.stride()[:3]
        arguments.blocks, arguments.kv_heads, arguments.block_size = blocks, kv_heads, block_size
        arguments.head_dim, arguments.kv_dtype = pair // 2, DTYPES[kv_cache.dtype]
        self._cache = kv_cache
