# SPDX-License-Identifier: Apache-2.0
"""The attention layer of a draft layer: it knows its own window and causality.

Every draft layer asks for a full-attention KV spec. So all draft layers share one KV cache group (mixed drafters run on
the V1 runner too) and no context page is freed from under a windowed layer while its request lives; on hybrid targets
kv_groups.py decides, with pages enough for what a draft can still read. The window is honoured when keys are read, and
only visible pages are read.
"""

import importlib
from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.model_executor.layers.attention import Attention

from vllm_dflash.checkpoint import DraftLayer
from vllm_dflash.engine.options import Options
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import native


def backend_for(stock_backend: Any) -> tuple[str, Any]:
    """Our attention backend beside vLLM's choice: (what runs, backend class).

    Raises UserError when `kernels` insists on what does not run here.
    """
    asked = Options.parse(get_current_vllm_config().additional_config).kernels
    stock = stock_backend.get_name()
    if stock == "CPU_ATTN":
        return _on_the_cpu(asked)
    if stock == "FLASH_ATTN":
        if asked == "stock":
            return "stock (FlashAttention)", _module("attention_flash").Backend
        if asked == "triton":
            return "triton", _module("attention_triton").OverFlash
        if asked == "auto":
            return "auto (triton, FlashAttention)", _module("attention_triton").OverFlash
        raise _not_here(asked, "auto, triton or stock", stock)
    if asked in ("auto", "triton"):
        return "triton", _module("attention_triton").OverTriton
    raise _not_here(asked, "auto or triton", stock)


def _on_the_cpu(asked: str) -> tuple[str, Any]:
    if asked == "auto" and native.problem() is None:
        return f"cpu ({native.instruction_set()})", _module("attention_cpu").Backend
    if asked in ("auto", "torch"):
        return "torch", _module("attention_torch").Backend
    raise _not_here(asked, "auto or torch", "CPU_ATTN")


def _module(name: str) -> Any:
    """Imported when chosen: each belongs to a device."""
    return importlib.import_module(f"vllm_dflash.engine.{name}")


def _not_here(asked: str, needed: str, stock: str) -> UserError:
    why = "; the compiled CUDA kernel is not part of this release" if asked == "cuda" else ""
    return UserError(
        f"these kernels do not run on this device{why}",
        field='additional_config["dflash"].kernels',
        found=asked,
        needed=f"{needed} (vLLM's draft backend is {stock})",
    )


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
        if hasattr(self.impl, "insist"):
            self.impl.insist(self_kernels == "triton")


def stored_slots(slot_mapping: torch.Tensor) -> torch.Tensor:
    """Rows whose slot is real; padding slots are negative."""
    return slot_mapping >= 0
