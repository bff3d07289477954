# SPDX-License-Identifier: Apache-2.0
"""Draft attention in plain torch over vLLM's paged cache: the CPU path, and what other paths are compared with.

Cache layout: [blocks, kv_heads, block_size, 2 * head_dim], key first, value second.
"""

from typing import Any

import torch
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl

from vllm_dflash.checkpoint import DraftLayer
from vllm_dflash.errors import UserError
from vllm_dflash.reference.attention import attention, visible_block, visible_context


def store(kv_cache: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor) -> None:
    """Scatter key and value [N, kv_heads, head_dim] to slots [N]; negative slots are skipped."""
    rows = slot_mapping >= 0
    slots, block_size, head_dim = slot_mapping[rows], kv_cache.shape[2], key.shape[-1]
    block, offset = slots // block_size, slots % block_size
    kv_cache[block, :, offset, :head_dim] = key[: rows.shape[0]][rows].to(kv_cache.dtype)
    kv_cache[block, :, offset, head_dim:] = value[: rows.shape[0]][rows].to(kv_cache.dtype)


def block_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_len: int,
    rule: DraftLayer,
    scale: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """One request: its block rows against its visible pages.

    Args:
        query: [R, heads, head_dim], the last R positions of a sequence of seq_len; row 0 is the anchor.
        block_table: [pages] physical page of each logical page.

    Returns:
        [R, heads, head_dim].
    """
    rows, block_size, head_dim = query.shape[0], kv_cache.shape[2], query.shape[-1]
    anchor = seq_len - rows
    first = 0 if rule.window is None else max(0, anchor - rule.window + 1) // block_size
    pages = kv_cache[block_table[first : -(-seq_len // block_size)].long()]
    keys = pages.permute(0, 2, 1, 3).flatten(0, 1)[: seq_len - first * block_size]
    positions = torch.arange(first * block_size, seq_len)
    row_positions, anchors = positions[-rows:], torch.full((rows,), anchor)
    visible = visible_context(row_positions, anchors, positions, rule)
    visible[:, -rows:] = visible_block(row_positions, anchors, rule)
    return attention(query[None], keys[None, ..., :head_dim], keys[None, ..., head_dim:], visible[None], scale, sinks)[
        0
    ]


class Impl(CPUAttentionBackendImpl):
    """vLLM's CPU attention with the draft layer's rule in place of metadata flags."""

    rule: DraftLayer

    def follow(self, rule: DraftLayer) -> None:
        if self.is_fp8_kv_cache:
            raise UserError(
                "the drafter's CPU attention stores K/V unquantised",
                field="speculative_config.kv_cache_dtype",
                found=self.kv_cache_dtype,
                needed="auto",
            )
        self.rule = rule

    def do_kv_cache_update(
        self,
        layer: Any,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        store(kv_cache, key, value, slot_mapping)

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """query [N, heads, head_dim]; writes and returns output, same shape. Rows past the metadata are zeroed."""
        output.zero_()
        if attn_metadata is None:
            return output
        starts, lengths = attn_metadata.query_start_loc.tolist(), attn_metadata.seq_lens.tolist()
        out = output.view_as(query)
        for i, seq_len in enumerate(lengths):
            start, stop = starts[i], starts[i + 1]
            if stop > start and seq_len > 0:
                out[start:stop] = block_attention(
                    query[start:stop],
                    kv_cache,
                    attn_metadata.block_table[i],
                    seq_len,
                    self.rule,
                    self.scale,
                    self.sinks,
                )
        return output


class Backend(CPUAttentionBackend):
    @staticmethod
    def get_impl_cls() -> type[Impl]:
        return Impl
