# SPDX-License-Identifier: Apache-2.0
"""Which positions a drafter drafts at, and which its tables must hold."""

from typing import Any

from vllm.config.vllm import VllmConfig

from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.engine.config_hook import draft_config_of, trained_positions


def draft_end(vllm_config: VllmConfig) -> int:
    """First position at which nothing is drafted: the end of the drafter's range or of the served length."""
    assert vllm_config.speculative_config is not None
    trained = trained_positions(draft_config_of(vllm_config), vllm_config.speculative_config)
    return min(trained, vllm_config.model_config.max_model_len)


def positions_reached(vllm_config: VllmConfig) -> int:
    """Rows that a table over positions needs: the served length and one block behind it, drafted or not."""
    config: DraftConfig = draft_config_of(vllm_config)
    speculative: Any = vllm_config.speculative_config
    return vllm_config.model_config.max_model_len + max(config.block_size, speculative.num_speculative_tokens + 1)
