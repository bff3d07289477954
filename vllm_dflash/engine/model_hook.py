# SPDX-License-Identifier: Apache-2.0
"""Registers the draft model in vLLM's public model registry."""

from typing import Any

from vllm.model_executor.models.registry import ModelRegistry

# A name of our own: where the plugin stands aside, vLLM's own class keeps "DFlashDraftModel".
ARCHITECTURE = "VllmDFlashDraftModel"


def install() -> None:
    """Lazy: the model is imported when vLLM builds a drafter of this architecture."""
    ModelRegistry.register_model(ARCHITECTURE, "vllm_dflash.engine.model:DFlashDraftModel")


def drafts_with_us(speculative_config: Any) -> bool:
    """Whether this engine's drafter is ours (not a foreign checkpoint, not one the plugin stood aside from)."""
    draft = getattr(speculative_config, "draft_model_config", None)
    return draft is not None and ARCHITECTURE in (draft.hf_config.architectures or ())
