# SPDX-License-Identifier: Apache-2.0
"""Registers the draft model in vLLM's public model registry."""

from vllm.model_executor.models.registry import ModelRegistry

# A name of our own: where the plugin stands aside, vLLM's own class keeps "DFlashDraftModel".
ARCHITECTURE = "VllmDFlashDraftModel"


def install() -> None:
    """Lazy: the model is imported when vLLM builds a drafter of this architecture."""
    ModelRegistry.register_model(ARCHITECTURE, "vllm_dflash.engine.model:DFlashDraftModel")
