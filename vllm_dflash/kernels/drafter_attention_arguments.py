# SPDX-License-Identifier: Apache-2.0
"""What drafter_attention takes: checked before every launch, so that the kernel need not."""

import torch

from vllm_dflash.errors import UserError
from vllm_dflash.kernels.drafter_attention_plan import most_rows

TYPES = (torch.bfloat16, torch.float16, torch.float32)
CACHE_TYPES = (*TYPES, torch.float8_e4m3fn)


def check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    out: torch.Tensor,
    max_rows: int,
    window: int | None,
) -> None:
    """Shapes: kernels/drafter_attention.py. Raises UserError naming the argument, what was found and what is needed."""

    def need(true: bool, field: str, found: object, needed: str) -> None:
        if not true:
            raise UserError("drafter_attention cannot take this", field=field, found=found, needed=needed)

    need(query.dim() == 3, "query", tuple(query.shape), "[N, heads, head_dim]")
    n, heads, head_dim = query.shape
    need(out.shape == query.shape, "out", tuple(out.shape), str(tuple(query.shape)))
    need(key.dim() == 3 and key.shape[::2] == (n, head_dim), "key", tuple(key.shape), f"[{n}, kv_heads, {head_dim}]")
    kv_heads = key.shape[1]
    need(value.shape == key.shape, "value", tuple(value.shape), str(tuple(key.shape)))
    need(kv_heads > 0 and heads % kv_heads == 0, "key", f"{kv_heads} heads", f"a divisor of {heads} query heads")
    for name, tensor in (("key_cache", key_cache), ("value_cache", value_cache)):
        need(
            tensor.dim() == 4 and tensor.shape[2:] == (kv_heads, head_dim),
            name, tuple(tensor.shape), f"[blocks, page, {kv_heads}, {head_dim}]",
        )  # fmt: skip
        need(tensor.dtype in CACHE_TYPES, name, tensor.dtype, " or ".join(map(str, CACHE_TYPES)))
    need(value_cache.dtype == key_cache.dtype, "value_cache", value_cache.dtype, str(key_cache.dtype))
    need(value_cache.shape[:2] == key_cache.shape[:2], "value_cache", tuple(value_cache.shape), "the key cache's")
    for name, tensor in (("query", query), ("key", key), ("value", value), ("out", out)):
        need(tensor.dtype in TYPES, name, tensor.dtype, " or ".join(map(str, TYPES)))
        need(tensor.dtype == query.dtype, name, tensor.dtype, f"{query.dtype}, as query")
    for name, tensor in (
        ("query", query), ("key", key), ("value", value), ("out", out),
        ("key_cache", key_cache), ("value_cache", value_cache), ("block_table", block_table),
    ):  # fmt: skip
        need(tensor.stride(-1) == 1, name, f"strides {tensor.stride()}", "elements of the last dimension together")
        need(tensor.device == query.device, name, tensor.device, f"{query.device}, as query")
    requests = seq_lens.shape[0]
    table = tuple(block_table.shape)
    need(len(table) == 2 and table[0] >= requests, "block_table", table, f"[{requests}, pages]")
    need(query_start_loc.shape[0] > requests, "query_start_loc", tuple(query_start_loc.shape), f"[{requests + 1}]")
    for name, tensor in (("block_table", block_table), ("seq_lens", seq_lens), ("query_start_loc", query_start_loc)):
        need(tensor.dtype == torch.int32, name, tensor.dtype, "torch.int32")
    need(max_rows >= 1, "max_rows", max_rows, "1 or more")
    need(head_dim <= 256, "head_dim", head_dim, "at most 256")
    most = most_rows(head_dim, query.element_size(), query.device)
    need(max_rows <= most, "max_rows", max_rows, f"at most {most} for heads of {head_dim} in {query.dtype} here")
    if key_cache.dtype == torch.float8_e4m3fn and query.is_cuda:
        capability = torch.cuda.get_device_capability(query.device)
        found = "{} on compute capability {}.{}".format(key_cache.dtype, *capability)
        need(capability >= (8, 9), "key_cache", found, "compute capability 8.9 or later")
    need(window is None or window >= 1, "window", window, "None, or 1 or more")
