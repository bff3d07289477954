# SPDX-License-Identifier: Apache-2.0
"""The target with its weights and tokenizer, of any family that transformers loads as a causal LM."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from vllm_dflash.checkpoint import TargetConfig, load_target_config
from vllm_dflash.errors import UserError
from vllm_dflash.fit.local_model import check_weights, local_model


@dataclass
class LoadedTarget:
    """model: without gradients, on its device; eos: ids that end an answer."""

    config: TargetConfig
    model: Any
    tokenizer: Any
    eos: tuple[int, ...]

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device


def load_target(path: str | Path, device: torch.device) -> LoadedTarget:
    """Weights in bfloat16 on a GPU, float32 on a CPU.

    A hub id is downloaded. Raises UserError when config, weights or tokenizer are not all there, or transformers
    cannot load them.
    """
    folder = local_model(path)
    config = load_target_config(folder)
    check_weights(folder, "the target's")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise UserError(f"transformers cannot load the target: {reason}", file=folder) from None
    if getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is not None:
        # Gemma 2. transformers' default, PyTorch's attention function, leaves the cap out without a word.
        model.set_attn_implementation("eager")
    model = model.to(device).eval().requires_grad_(False)
    return LoadedTarget(config, model, tokenizer, _eos(model, tokenizer))


def _eos(model: Any, tokenizer: Any) -> tuple[int, ...]:
    ids = getattr(model.generation_config, "eos_token_id", None)
    found = [ids] if isinstance(ids, int) else list(ids or [])
    if tokenizer.eos_token_id is not None:
        found.append(tokenizer.eos_token_id)
    return tuple(sorted(set(found)))
