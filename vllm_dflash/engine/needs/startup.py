# SPDX-License-Identifier: Apache-2.0
"""What the hooks need that are installed when vLLM loads its plugins; light modules only."""

from vllm_dflash.engine.need import Need

_SPECULATIVE, _MODEL = "vllm.config.speculative", "vllm.config.model"
_SCHEDULER, _SPEC_METRICS = "vllm.v1.core.sched.scheduler", "vllm.v1.spec_decode.metrics"

CONFIG_NEEDS = (
    Need(_SPECULATIVE, "SpeculativeConfig.__post_init__", ("self",)),
    Need(_SPECULATIVE, "SpeculativeConfig.use_eagle_block_drop", ("self",)),
    Need(
        _SPECULATIVE,
        "SpeculativeConfig",
        fields=(
            "method",
            "model",
            "revision",
            "num_speculative_tokens",
            "max_model_len",
            "target_model_config",
            "draft_model_config",
        ),
    ),
    Need("vllm.config.vllm", "VllmConfig.__post_init__", ("self",)),
    Need("vllm.config.vllm", "VllmConfig.use_v2_model_runner"),
    Need("vllm.config.vllm", "VllmConfig", fields=("additional_config", "model_config", "speculative_config")),
    Need(_MODEL, "ModelConfig", fields=("model", "revision", "max_model_len", "hf_config")),
    Need(_MODEL, "ModelConfig.__post_init__", mentions=("_architecture", "model_arch_config")),
    Need(_MODEL, "ModelConfig.get_total_num_hidden_layers", ("self",)),
    Need(_MODEL, "ModelConfig.get_hidden_size", ("self",)),
    Need(_MODEL, "ModelConfig.get_vocab_size", ("self",)),
    Need(_MODEL, "ModelConfig.get_model_arch_config", ("self",)),
    Need("vllm.model_executor.models.registry", "ModelRegistry.register_model"),
    Need(_SCHEDULER, "Scheduler.schedule", ("self",)),
    Need(_SCHEDULER, "Scheduler.__init__", mentions=("vllm_config", "running")),
    Need("vllm.v1.request", "Request.__init__", mentions=("spec_token_ids", "num_computed_tokens")),
    Need("vllm.v1.worker.worker_base", "WorkerWrapperBase.init_device", ("self",)),
)

WATCH_NEEDS = (
    Need(
        _SCHEDULER,
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
    Need(_SCHEDULER, "Scheduler.__init__", mentions=("requests",)),
    Need(
        _SPEC_METRICS,
        "SpecDecodingProm.__init__",
        ("self", "speculative_config", "labelnames", "per_engine_labelvalues"),
    ),
    Need(_SPEC_METRICS, "SpecDecodingProm.observe", ("self", "spec_decoding_stats", "engine_idx")),
    Need(_SPEC_METRICS, "SpecDecodingStats", fields=("num_drafts", "num_accepted_tokens_per_pos")),
    Need("vllm.v1.request", "Request.take_prefill_stats", ("self",)),
    Need("vllm.v1.metrics.stats", "PrefillStats", fields=("num_cached_tokens",)),
    Need("vllm.v1.metrics.utils", "create_metric_per_engine"),
)

WORKER_NEEDS = (Need("vllm.v1.worker.worker_base", "WorkerWrapperBase.init_device", ("self",)),)
