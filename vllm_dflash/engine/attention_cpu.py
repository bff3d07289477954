# SPDX-License-Identifier: Apache-2.0
"""Draft attention through the compiled CPU kernels (csrc/cpu), over vLLM's paged cache.

Cache layout as in attention_torch: [blocks, kv_heads, block_size, 2 * head_dim], key first.
"""

from typing import Any

import torch
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

from vllm_dflash.checkpoint import DraftLayer
from vllm_dflash.engine import attention_torch
from vllm_dflash.kernels.native_attention import DrafterAttention
from vllm_dflash.kernels.native_context_kv import store


class Impl(attention_torch.Impl):
    """The torch path's class with its store and its attention in C++."""

    def follow(self, rule: DraftLayer) -> None:
        super().follow(rule)
        self.attend = DrafterAttention(window=rule.window, causal=rule.causal, scale=self.scale)

    def do_kv_cache_update(
        self,
        layer: Any,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        store(key, value, kv_cache, slot_mapping)

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
        if attn_metadata is None:
            return output.zero_()
        self.attend(
            query,
            kv_cache,
            attn_metadata.block_table,
            attn_metadata.query_start_loc,
            attn_metadata.seq_lens,
            self.sinks,
            output.view_as(query),
        )
        return output


class Backend(CPUAttentionBackend):
    @staticmethod
    def get_impl_cls() -> type[Impl]:
        return Impl
