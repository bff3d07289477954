# SPDX-License-Identifier: Apache-2.0
"""What our KV cache groups need."""

from vllm_dflash.engine.need import Need

_MANAGER, _GDN = "vllm.v1.core.single_type_kv_cache_manager", "vllm.v1.attention.backends.gdn_attn"
_SPECS, _REGISTRY = "vllm.v1.kv_cache_interface", "vllm.v1.kv_cache_spec_registry"
_BACKEND, _WORKER = "vllm.v1.attention.backend", "vllm.v1.worker.worker_base"
_KV_TRANSFER = "vllm.distributed.kv_transfer.kv_connector.utils"
_MAMBA, _LAYOUT = "vllm.model_executor.layers.mamba.abstract", "vllm.v1.kv_cache_layout"

# One of these is enough: vLLM 0.33 moved its planning into a module of its own. kv_groups_hook looks in this order.
PLANNING_NEEDS = tuple(
    Need(f"vllm.v1.core.{module}", "get_kv_cache_groups", ("vllm_config", "kv_cache_spec"))
    for module in ("kv_cache_planning", "kv_cache_utils")
)
KV_NEEDS = (
    Need("vllm_dflash.engine.kv_groups_hook", "planning_module", ()),
    Need(_WORKER, "WorkerBase.__init__", mentions=("vllm_config",)),
    Need(_WORKER, "WorkerBase.get_supported_kv_cache_layouts", ("self",)),
    Need(_WORKER, "WorkerBase.get_kv_cache_spec", ("self",)),
    Need(_KV_TRANSFER, "get_current_attn_backends", ("vllm_config", "layer_names")),
    Need(_BACKEND, "AttentionBackend.get_supported_kernel_block_sizes", ("kv_cache_spec",)),
    Need(_BACKEND, "AttentionBackend.is_ssm"),
    Need(_BACKEND, "MultipleOf", fields=("base",)),
    Need("vllm.config.cache", "CacheConfig.get_resolved_kv_cache_layout", ("self",)),
    Need("vllm.config.cache", "CacheConfig", fields=("enable_prefix_caching",)),
    Need("vllm.config.scheduler", "SchedulerConfig", fields=("disable_hybrid_kv_cache_manager",)),
    Need(
        "vllm.config.parallel",
        "ParallelConfig",
        fields=("pipeline_parallel_size", "decode_context_parallel_size"),
    ),
    Need("vllm.config.vllm", "VllmConfig", fields=("kv_transfer_config", "cache_config", "compilation_config")),
    Need(_LAYOUT, "KVCacheLayout.is_block_outermost"),
    Need(_LAYOUT, "KVCacheLayout.is_block_compact"),
    Need(_SPECS, "replace_as", ("spec", "target_cls", "drop", "changes")),
    Need(_SPECS, "AttentionSpec", fields=("block_size", "page_size_padded")),
    Need(_SPECS, "AttentionSpec.unpadded_page_size_bytes"),
    Need(_SPECS, "KVCacheSpec.max_memory_usage_bytes", ("self", "vllm_config")),
    Need(_SPECS, "KVCacheSpec.page_size_bytes"),
    Need(_SPECS, "FullAttentionSpec", fields=("attention_chunk_size", "non_causal")),
    Need(_SPECS, "SlidingWindowSpec", fields=("sliding_window", "extra_retained_tokens", "block_size")),
    Need(
        _SPECS,
        "SlidingWindowSpec.max_admission_blocks_per_request",
        ("self", "max_in_flight_tokens", "max_model_len"),
    ),
    Need(
        _SPECS,
        "MambaSpec",
        fields=(
            "shapes",
            "dtypes",
            "page_size_padded",
            "mamba_type",
            "mamba_cache_mode",
            "num_speculative_blocks",
            "num_prefill_checkpoint_blocks",
        ),
    ),
    Need(_SPECS, "UniformTypeKVCacheSpecs.from_specs", ("kv_cache_specs",)),
    Need(_SPECS, "UniformTypeKVCacheSpecs", fields=("kv_cache_specs",)),
    Need(_SPECS, "KVCacheGroupSpec", fields=("layer_names", "kv_cache_spec")),
    Need(_REGISTRY, "KVCacheSpecRegistry.register", ("kvcache_spec_cls", "manager_class", "uniform_type_base_spec")),
    Need(_REGISTRY, "KVCacheSpecRegistry.get_manager_class"),
    Need(
        _MANAGER,
        "SlidingWindowManager.allocate_new_blocks",
        ("self", "request_id", "num_tokens", "num_tokens_main_model"),
    ),
    Need(
        _MANAGER,
        "SlidingWindowManager.get_num_blocks_to_allocate",
        ("self", "request_id", "num_tokens", "new_computed_blocks"),
    ),
    Need(
        _MANAGER,
        "SlidingWindowManager._remove_blocks_in_range",
        ("self", "request_id", "first_block", "last_block"),
    ),
    Need(_MANAGER, "SlidingWindowManager._get_num_evictable_blocks", ("blocks",)),
    Need(
        _MANAGER,
        "SingleTypeKVCacheManager.__init__",
        mentions=("kv_cache_spec", "block_size", "req_to_blocks", "_null_block"),
    ),
    Need(_MAMBA, "MambaBase.bind_kv_cache", ("self", "kv_cache"), mentions=("kv_cache",)),
    Need(_MAMBA, "MambaBase.get_state_shape", ("self",)),
    Need(_MAMBA, "MambaBase.get_state_dtype", ("self",)),
    Need(_MAMBA, "MambaBase.mamba_type"),
    Need("vllm.utils.torch_utils", "get_dtype_size", ("dtype",)),
    Need(_BACKEND, "AttentionMetadataBuilder.__init__", mentions=("vllm_config", "layer_names")),
    Need(_BACKEND, "CommonAttentionMetadata.replace"),
    Need(_GDN, "GDNAttentionMetadataBuilder.build", ("self", "common_prefix_len", "common_attn_metadata")),
    Need(
        _GDN,
        "GDNAttentionMetadataBuilder.update_block_table",
        ("self", "metadata", "blk_table", "slot_mapping"),
    ),
)
