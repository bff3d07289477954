# SPDX-License-Identifier: Apache-2.0
"""Draft attention over a paged cache, one request at a time: what every kernel for it is compared with."""

import torch

from vllm_dflash.checkpoint import DraftLayer
from vllm_dflash.reference.attention import attention, visible_block, visible_context


def drafter_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    rule: DraftLayer,
    scale: float,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Each request's block rows see its context, in pages, and its own block, in key and value.

    Args:
        query: [N, heads, head_dim], the requests' rows one after another; row 0 of a request is its anchor.
        key, value: [N, kv_heads, head_dim] of the same rows. The block's own keys are not read from the pages.
        key_cache, value_cache: [blocks, page_size, kv_heads, head_dim].
        block_table: [requests, pages] integer, the block of each page of a request.
        seq_lens: [requests], context and block rows together. query_start_loc: [requests + 1].
        sinks: [heads] logits of an extra key without value.

    Returns:
        [N, heads, head_dim]; rows of no request, and of requests of length 0, are 0.
    """
    out = torch.zeros_like(query)
    page_size = key_cache.shape[1]
    for i, seq_len in enumerate(seq_lens.tolist()):
        start, stop = query_start_loc[i : i + 2].tolist()
        rows = stop - start
        if rows == 0 or seq_len == 0:
            continue
        anchor = seq_len - rows
        pages = block_table[i, : -(-anchor // page_size)].long()
        context_key = key_cache[pages].flatten(0, 1)[:anchor].to(query.dtype)
        context_value = value_cache[pages].flatten(0, 1)[:anchor].to(query.dtype)
        positions = torch.arange(anchor, seq_len, device=query.device)
        anchors = torch.full_like(positions, anchor)
        context = torch.arange(anchor, device=query.device)
        visible = torch.cat(
            [visible_context(positions, anchors, context, rule), visible_block(positions, anchors, rule)], dim=-1
        )
        keys = torch.cat([context_key, key[start:stop]])
        values = torch.cat([context_value, value[start:stop]])
        # A key that no row sees may hold anything.
        seen = visible.any(0)[:, None, None]
        keys, values = keys.masked_fill(~seen, 0), values.masked_fill(~seen, 0)
        out[start:stop] = attention(query[None, start:stop], keys[None], values[None], visible[None], scale, sinks)[0]
    return out
