# SPDX-License-Identifier: Apache-2.0
"""The attention layer of a draft layer: it knows its own window and causality.

On both runners every draft layer asks for a full-attention KV spec. So all draft layers share one KV cache group
(mixed drafters run on the V1 runner too) and no context page is freed from under a windowed layer while its request
lives. The window is honoured when keys are read, and only visible pages are read.
"""

from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.model_executor.layers.attention import Attention

from vllm_dflash.checkpoint import DraftLayer
from vllm_dflash.engine.options import Options
from vllm_dflash.errors import UserError

# vLLM's choice of backend for the draft -> (our kernels option, module with a `Backend` class).
_BACKENDS = {
    "CPU_ATTN": ("torch", "vllm_dflash.engine.attention_torch"),
    "FLASH_ATTN": ("flash_attn", "vllm_dflash.engine.attention_flash"),
}


def backend_for(stock_backend: Any) -> tuple[str, Any]:
    """Our attention backend beside vLLM's choice: (kernels name, backend class).

    Raises UserError when there is none, or when `kernels` insists on another.
    """
    import importlib

    asked = Options.parse(get_current_vllm_config().additional_config).kernels
    name = stock_backend.get_name()
    if name not in _BACKENDS:
        raise UserError(
            "vllm-dflash has no draft attention for this backend",
            field="speculative_config.attention_backend",
            found=name,
            needed=" or ".join(_BACKENDS),
        )
    kernels, module = _BACKENDS[name]
    if asked not in ("auto", kernels):
        raise UserError(
            "these kernels do not run on this device",
            field='additional_config["dflash"].kernels',
            found=asked,
            needed=f"auto or {kernels} (vLLM's draft backend is {name})",
        )
    return kernels, importlib.import_module(module).Backend


class DraftAttention(Attention):
    """vLLM's attention layer with a rule of its own. Takes the place of a stock layer under the same name."""

    def __init__(self, stock: Attention, rule: DraftLayer, cache_config: Any, quant_config: Any, sinks: Any) -> None:
        forward_context = get_current_vllm_config().compilation_config.static_forward_context
        del forward_context[stock.layer_name]
        self_kernels, backend = backend_for(stock.attn_backend)
        super().__init__(
            stock.num_heads,
            stock.head_size,
            stock.impl.scale,
            num_kv_heads=stock.num_kv_heads,
            cache_config=cache_config,
            quant_config=quant_config,
            prefix=stock.layer_name,
            attn_type=stock.attn_type,
            attn_backend=backend,
            sinks=sinks,
        )
        self.kernels = self_kernels
        self.sliding_window = None  # the KV spec's window, not the rule's
        self.rule = rule
        self.impl.follow(rule)


def stored_slots(slot_mapping: torch.Tensor) -> torch.Tensor:
    """Rows whose slot is real; padding slots are negative."""
    return slot_mapping >= 0
