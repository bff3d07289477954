# SPDX-License-Identifier: Apache-2.0
"""Draft attention through our Triton kernel, with the metadata of the vLLM backend that the device would use.

The block's own K/V are read from where the projection left them and never stored: context_kv writes the pages, and
only of positions that the target has confirmed.
"""

from typing import Any

import torch
from vllm.platforms import current_platform
from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend, FlashAttentionMetadataBuilder
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionImpl
from vllm.v1.kv_cache_interface import is_quantized_kv_cache

from vllm_dflash.checkpoint import DraftLayer
from vllm_dflash.engine import attention_flash
from vllm_dflash.errors import UserError
from vllm_dflash.kernels.drafter_attention import drafter_attention
from vllm_dflash.kernels.drafter_attention_plan import most_rows, new_counters
from vllm_dflash.kernels.selection import stock_is_faster

CACHE_DTYPES = ("auto", "float32", "float16", "bfloat16", "fp8", "fp8_e4m3")


class OursFirst:
    """Mixed into a vLLM attention implementation: our kernel, or that implementation where it was measured faster."""

    rule: DraftLayer
    always = True
    head_size: int
    num_heads: int
    num_kv_heads: int
    scale: float
    kv_cache_dtype: str
    sinks: torch.Tensor | None
    do_kv_cache_update: Any
    counters: torch.Tensor | None = None

    def counters_on(self, device: torch.device) -> torch.Tensor | None:
        """This layer's own. Made in memory profiling: in a captured graph, or among the weights that a server puts to
        sleep, they could come back with other values, and the kernel would wait forever."""
        if self.counters is None and device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
            self.counters = new_counters(device)
        return self.counters

    def insist(self, always: bool) -> None:
        """Called after follow(rule). always: our kernel for every shape that it takes, faster or not."""
        if getattr(self, "dcp_world_size", 1) > 1:
            raise UserError(
                "draft attention sees a request's whole context",
                field="decode_context_parallel_size",
                found=self.dcp_world_size,  # type: ignore[attr-defined]
                needed="1",
            )
        if self.kv_cache_dtype not in CACHE_DTYPES:
            raise UserError(
                "draft attention does not read this cache",
                field="speculative_config.kv_cache_dtype",
                found=self.kv_cache_dtype,
                needed=" or ".join(CACHE_DTYPES),
            )
        self.always = always
        self.supports_quant_query_input = False  # an fp8 cache is read with an unquantised query

    def takes(self, metadata: Any, query: torch.Tensor) -> bool:
        """Whether our kernel runs this batch. Decided on the host from shapes alone, so a graph keeps its choice."""
        if metadata.max_query_len > most_rows(self.head_size, query.element_size(), query.device):
            return False
        if self.always or is_quantized_kv_cache(self.kv_cache_dtype):
            return True
        if getattr(self, "vllm_flash_attn_version", None) != 3:  # the only one that was measured
            return True
        return not stock_is_faster(metadata.seq_lens.shape[0] * self.num_kv_heads, self.rule.window)

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
        """query [N, heads, head_dim], key and value [N, kv_heads, head_dim]; writes and returns output, as query."""
        if attn_metadata is None:  # memory profiling
            self.counters_on(query.device)
            return output.fill_(0)
        if not self.takes(attn_metadata, query):
            self.do_kv_cache_update(layer, key, value, kv_cache, attn_metadata.slot_mapping)
            return super().forward(  # type: ignore[misc]
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
        scales = {}
        if is_quantized_kv_cache(self.kv_cache_dtype):
            kv_cache = kv_cache.view(current_platform.fp8_dtype())
            scales = {"key_scale": layer._k_scale.view(1), "value_scale": layer._v_scale.view(1)}
        key_cache, value_cache = kv_cache.transpose(1, 2).split(self.head_size, dim=-1)
        count = attn_metadata.num_actual_tokens
        drafter_attention(
            query[:count],
            key[:count],
            value[:count],
            key_cache,
            value_cache,
            attn_metadata.block_table,
            attn_metadata.seq_lens,
            attn_metadata.query_start_loc,
            output.view_as(query)[:count],
            max_rows=attn_metadata.max_query_len,
            scale=self.scale,
            window=self.rule.window,
            causal=self.rule.causal,
            sinks=self.sinks,
            counters=self.counters_on(query.device),
            **scales,
        )
        return output


class FlashImpl(OursFirst, attention_flash.Impl):
    def get_impl_variants(self) -> tuple[Any, ...]:
        """Hidden from vLLM's schedule planning, which drops the target's plan when any layer has a window."""
        return ()


class FlashBuilder(FlashAttentionMetadataBuilder):
    """Without the launch that plans FlashAttention's schedule: where that runs, it plans for itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.aot_schedule = False


class OverFlash(FlashAttentionBackend):
    forward_includes_kv_cache_update = True
    supports_kv_cache_update_bypass = False  # from vLLM 0.33 on: whether key and value may be left out

    @staticmethod
    def get_impl_cls() -> type[FlashImpl]:
        return FlashImpl

    @staticmethod
    def get_builder_cls() -> type[FlashBuilder]:
        return FlashBuilder


class TritonImpl(OursFirst, TritonAttentionImpl):
    def follow(self, rule: DraftLayer) -> None:
        self.rule = rule

    def takes(self, metadata: Any, query: torch.Tensor) -> bool:
        """vLLM's own Triton kernel is slower at every measured shape, and knows no rule of a layer."""
        if not super().takes(metadata, query):
            most = most_rows(self.head_size, query.element_size(), query.device)
            raise UserError(
                "too many rows of a block for the draft attention kernel",
                field="num_speculative_tokens",
                found=metadata.max_query_len - 1,
                needed=f"at most {most - 1} for heads of {self.head_size} in {query.dtype} here",
            )
        return True


class OverTriton(TritonAttentionBackend):
    forward_includes_kv_cache_update = True

    @staticmethod
    def get_impl_cls() -> type[TritonImpl]:
        return TritonImpl
