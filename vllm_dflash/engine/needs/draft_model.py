# SPDX-License-Identifier: Apache-2.0
"""What the draft model needs: vLLM's own, which it subclasses, its attention layer and its rope."""

from vllm_dflash.engine.need import Need

_DFLASH, _PROPOSER = "vllm.model_executor.models.qwen3_dflash", "vllm.v1.spec_decode.dflash"
_ROPE = "vllm.model_executor.layers.rotary_embedding.base"

MODEL_NEEDS = (
    Need(_DFLASH, "DFlashQwen3ForCausalLM.__init__", ("self", "vllm_config", "prefix"), mentions=("logits_processor",)),
    Need(_DFLASH, "DFlashQwen3ForCausalLM.model_cls"),
    Need(_DFLASH, "DFlashQwen3ForCausalLM.forward", ("self", "input_ids", "positions", "inputs_embeds")),
    Need(_DFLASH, "DFlashQwen3ForCausalLM.get_draft_attn_causal", ("self",)),
    Need(_DFLASH, "DFlashQwen3ForCausalLM.load_weights", ("self", "weights")),
    Need(_DFLASH, "DFlashQwen3Model.decoder_layer_cls"),
    Need(_DFLASH, "DFlashQwen3Model.embed_input_ids", ("self", "input_ids"), mentions=("embed_tokens",)),
    Need(
        _DFLASH,
        "DFlashQwen3Model.precompute_and_store_context_kv",
        ("self", "context_states", "context_positions", "context_slot_mapping"),
    ),
    Need(_DFLASH, "DFlashQwen3Model._build_context_kv_buffers", mentions=("hidden_norm",)),
    Need(_DFLASH, "DFlashQwen3Model._normalize_context_k", ("self", "all_k")),
    Need(
        _DFLASH,
        "DFlashQwen3Model._build_fused_kv_buffers",
        ("self",),
        mentions=("_num_attn_layers", "_num_kv_heads", "_head_dim"),
    ),
    Need(
        _DFLASH,
        "DFlashQwen3Model._project_context_kv",
        ("self", "context_states", "num_ctx", "num_layers", "num_kv_heads", "head_dim"),
        mentions=("_fused_kv_weight", "_fused_kv_bias"),
    ),
    Need(
        _DFLASH,
        "DFlashQwen3DecoderLayer.__init__",
        ("self", "vllm_config", "config", "layer_idx", "cache_config", "quant_config", "prefix"),
        mentions=("self_attn",),
    ),
    Need(
        _DFLASH,
        "DFlashQwen3Attention.__init__",
        mentions=(
            "attn",
            "rotary_emb",
            "k_norm",
            "num_kv_heads",
            "head_dim",
            "v_scale",
            "attention_sink_bias",
            "sliding_window",
            "causal",
        ),
    ),
    Need("vllm._custom_ops", "rms_norm", ("out", "input", "weight", "epsilon")),
    Need("vllm.model_executor.layers.logits_processor", "LogitsProcessor.__init__", mentions=("soft_cap",)),
    Need(
        "vllm.model_executor.layers.attention",
        "Attention.__init__",
        ("self", "num_heads", "head_size", "scale"),
        accepts=("num_kv_heads", "cache_config", "quant_config", "prefix", "attn_type", "attn_backend"),
        mentions=(
            "attn_backend",
            "impl",
            "layer_name",
            "num_heads",
            "head_size",
            "num_kv_heads",
            "attn_type",
            "kv_cache_dtype",
            "sliding_window",
        ),
    ),
    Need("vllm.model_executor.layers.attention", "Attention.get_kv_cache_spec", ("self", "vllm_config")),
    Need("vllm.config.compilation", "CompilationConfig", fields=("static_forward_context",)),
    Need(
        _ROPE,
        "RotaryEmbedding.__init__",
        ("self", "head_size", "rotary_dim", "max_position_embeddings", "base", "is_neox_style", "dtype"),
    ),
    Need(_ROPE, "RotaryEmbedding._compute_cos_sin_cache", ("self",)),
    Need(_PROPOSER, "DFlashProposer.set_inputs_first_pass", ("self",)),
    Need(
        "vllm.v1.attention.backend",
        "CommonAttentionMetadata",
        fields=(
            "block_table_tensor",
            "slot_mapping",
            "seq_lens",
            "max_seq_len",
            "seq_lens_cpu_upper_bound",
            "num_reqs",
        ),
    ),
)
