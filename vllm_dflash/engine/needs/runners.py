# SPDX-License-Identifier: Apache-2.0
"""What our V1 proposer and our mask filling on both runners need."""

from vllm_dflash.engine.need import Need

_DFLASH, _PROPOSER = "vllm.v1.spec_decode.dflash", "vllm.v1.spec_decode.llm_base_proposer"
_TABLE = "vllm.v1.worker.block_table"
_GPU = "vllm.v1.worker.gpu"
_SPECULATOR = f"{_GPU}.spec_decode.dflash.speculator"
_FIRST_PASS = Need(
    _DFLASH,
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
)
_PROPOSER_STATE = Need(_PROPOSER, "SpecDecodeBaseProposer.__init__", mentions=("vllm_config", "max_model_len"))

V1_NEEDS = (
    Need("vllm.v1.worker.gpu_model_runner", "DFlashProposer"),
    Need("vllm.v1.worker.gpu_model_runner", "GPUModelRunner.__init__", mentions=("drafter", "input_batch")),
    Need(
        _DFLASH,
        "DFlashProposer.__init__",
        ("self", "vllm_config", "device", "runner"),
        mentions=("_context_slot_mapping_buffer", "_slot_mapping_buffer", "positions"),
    ),
    Need(
        _FIRST_PASS.module,
        _FIRST_PASS.name,
        _FIRST_PASS.parameters,
        mentions=("_context_slot_mapping_buffer", "_slot_mapping_buffer", "block_size", "_dflash_num_context"),
    ),
    Need(
        _DFLASH,
        "DFlashProposer.build_model_inputs_first_pass",
        mentions=("_context_slot_mapping_buffer", "precompute_and_store_context_kv"),
    ),
    Need(_DFLASH, "DFlashProposer.build_per_group_and_layer_attn_metadata", ("self", "cad", "draft_index")),
    _PROPOSER_STATE,
    Need(_PROPOSER, "SpecDecodeBaseProposer.validate_same_kv_cache_group", ("self", "kv_cache_config")),
    Need(
        _PROPOSER,
        "SpecDecodeBaseProposer.initialize_attn_backend",
        ("self", "kv_cache_config", "kernel_block_sizes"),
        mentions=("_draft_attn_layer_names", "draft_attn_groups", "kv_cache_gid", "block_size"),
    ),
    Need(
        _PROPOSER,
        "SpecDecodeBaseProposer.build_per_group_and_layer_attn_metadata",
        mentions=("draft_attn_groups",),
    ),
    Need(_PROPOSER, "SpecDecodeBaseProposer._get_slot_mapping", ("self", "num_tokens", "slot_mapping")),
    Need("vllm.model_executor.models.qwen3_dflash", "DFlashQwen3ForCausalLM.get_draft_kv_cache_layer_names", ("self",)),
    Need("vllm.v1.attention.backends.utils", "PAD_SLOT_ID"),
    Need(_TABLE, "BlockTable.__init__", mentions=("block_size",)),
    Need(_TABLE, "BlockTable.get_device_tensor", ("self", "num_reqs")),
    Need(_TABLE, "MultiGroupBlockTable.__getitem__"),
    Need("vllm.v1.worker.gpu_input_batch", "InputBatch.__init__", mentions=("block_table",)),
)

FILL_NEEDS_V1 = (
    _FIRST_PASS,
    _PROPOSER_STATE,
    Need(
        _DFLASH,
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
        accepts=(
            "parallel_drafting_token_id",
            "block_size",
            "num_query_per_req",
            "num_speculative_tokens",
            "total_input_tokens",
            "max_tokens_per_req",
            "has_num_rejected",
        ),
    ),
)

FILL_NEEDS_V2 = (
    Need(
        _SPECULATOR,
        "DFlashSpeculator.set_attn",
        ("self", "model_state", "kv_cache_config", "block_tables", "target_input_buffers", "target_attn_groups"),
        mentions=("draft_kv_cache_group_ids", "_context_slot_mappings"),
    ),
    Need(_SPECULATOR, "DFlashSpeculator.__init__", mentions=("sample_from_anchor",)),
    Need(f"{_GPU}.spec_decode.speculator", "DraftModelSpeculator.__init__", mentions=("dcp_size", "input_buffers")),
    Need(f"{_GPU}.spec_decode.speculator", "DraftModelSpeculator.set_attn", mentions=("block_tables",)),
    Need(
        f"{_GPU}.block_table",
        "BlockTables.__init__",
        mentions=("block_sizes", "input_block_tables", "slot_mappings"),
    ),
    Need(
        f"{_GPU}.input_batch",
        "InputBuffers.__init__",
        mentions=("input_ids", "positions", "query_start_loc", "seq_lens"),
    ),
    Need(
        f"{_GPU}.input_batch",
        "InputBatch",
        fields=("num_reqs", "idx_mapping", "query_start_loc", "positions", "num_scheduled_tokens"),
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
