# SPDX-License-Identifier: Apache-2.0
"""Draft attention through vLLM's FlashAttention, with the draft layer's rule in place of metadata flags."""

from dataclasses import replace
from typing import Any

import torch
from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend, FlashAttentionImpl

from vllm_dflash.checkpoint import DraftLayer


class Impl(FlashAttentionImpl):
    rule: DraftLayer

    def follow(self, rule: DraftLayer) -> None:
        """FlashAttention counts a window as keys to the left and right of the diagonal, itself excluded."""
        self.rule = rule
        if rule.window is not None:
            reach = rule.window - 1
            self.sliding_window = (reach, 0 if rule.causal else reach)

    def get_impl_variants(self) -> tuple[Any, ...]:
        """Hidden from vLLM's schedule planning, which drops the target's plan when any layer has a window."""
        return () if self.rule.window is not None else super().get_impl_variants()

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
        """query [N, heads, head_dim]; writes and returns output, same shape."""
        if attn_metadata is not None and (self.rule.causal or self.rule.window is not None):
            # The group's schedule was planned for full bidirectional layers; this layer plans for itself.
            attn_metadata = replace(attn_metadata, causal=self.rule.causal, scheduler_metadata=None)
        return super().forward(
            layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
        )


class Backend(FlashAttentionBackend):
    @staticmethod
    def get_impl_cls() -> type[Impl]:
        return Impl
