# SPDX-License-Identifier: Apache-2.0
"""What draft attention needs of the vLLM backend that it stands beside, by device."""

from vllm_dflash.engine.need import Need

_BACKENDS, _BASE = "vllm.v1.attention.backends", "vllm.v1.attention.backend"
_FLASH, _TRITON, _CPU = f"{_BACKENDS}.flash_attn", f"{_BACKENDS}.triton_attn", f"{_BACKENDS}.cpu_attn"
_FORWARD = (
    "self",
    "layer",
    "query",
    "key",
    "value",
    "kv_cache",
    "attn_metadata",
    "output",
    "output_scale",
    "output_block_scale",
)
_STORE = ("self", "layer", "key", "value", "kv_cache", "slot_mapping")
_READ = ("query_start_loc", "seq_lens", "block_table")
_HEADS = ("scale", "sinks", "kv_cache_dtype")

_EVERYWHERE = (
    Need(_BASE, "AttentionImpl.forward", _FORWARD[:8]),
    Need(_BASE, "AttentionBackend.get_name"),
)
CPU_ATTENTION_NEEDS = (
    *_EVERYWHERE,
    Need(_CPU, "CPUAttentionBackend.get_impl_cls"),
    Need(_CPU, "CPUAttentionBackend.forward_includes_kv_cache_update"),
    Need(_CPU, "CPUAttentionBackendImpl.__init__", mentions=(*_HEADS, "is_fp8_kv_cache")),
    Need(_CPU, "CPUAttentionBackendImpl.forward", _FORWARD),
    Need(_CPU, "CPUAttentionBackendImpl.do_kv_cache_update", _STORE),
    Need(_CPU, "CPUAttentionMetadata", fields=_READ),
)
GPU_ATTENTION_NEEDS = (
    *_EVERYWHERE,
    Need(_BASE, "AttentionBackend.forward_includes_kv_cache_update"),
    Need(_BASE, "AttentionImplBase.get_impl_variants", ("self",)),
    Need("vllm.v1.kv_cache_interface", "is_quantized_kv_cache", ("kv_cache_dtype",)),
    Need(_TRITON, "TritonAttentionBackend.get_impl_cls"),
    Need(
        _TRITON,
        "TritonAttentionImpl.__init__",
        mentions=(*_HEADS, "num_heads", "num_kv_heads", "head_size", "supports_quant_query_input"),
    ),
    Need(_TRITON, "TritonAttentionImpl.forward", _FORWARD),
    Need(_TRITON, "TritonAttentionImpl.do_kv_cache_update", _STORE),
    Need(
        _TRITON,
        "TritonAttentionMetadata",
        fields=(*_READ, "num_actual_tokens", "max_query_len", "slot_mapping"),
    ),
    Need(_FLASH, "FlashAttentionBackend.get_impl_cls"),
    Need(_FLASH, "FlashAttentionBackend.get_builder_cls"),
    Need(
        _FLASH,
        "FlashAttentionMetadataBuilder.__init__",
        ("self", "kv_cache_spec", "layer_names", "vllm_config", "device"),
        mentions=("aot_schedule",),
    ),
    Need(
        _FLASH,
        "FlashAttentionImpl.__init__",
        mentions=(*_HEADS, "num_heads", "num_kv_heads", "head_size", "sliding_window", "supports_quant_query_input"),
    ),
    Need(_FLASH, "FlashAttentionImpl.forward", _FORWARD),
    Need(_FLASH, "FlashAttentionImpl.do_kv_cache_update", _STORE),
    Need(
        _FLASH,
        "FlashAttentionMetadata",
        fields=(*_READ, "num_actual_tokens", "max_query_len", "slot_mapping", "causal", "scheduler_metadata"),
    ),
)
