# SPDX-License-Identifier: Apache-2.0
"""A target's attention is computed as its family asks, whatever transformers' default function knows of it."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests import tiny
from vllm_dflash.fit.loaded_target import load_target


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
def test_logits_are_those_of_plain_attention(tmp_path: Path, family: str) -> None:
    """Gemma 2 caps attention logits, gpt-oss has attention sinks."""
    folder = tiny.target(tmp_path, family)
    ids = torch.randint(2, 120, (1, 40), generator=torch.Generator().manual_seed(0))
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        torch.testing.assert_close(load_target(folder, torch.device("cpu")).model(ids).logits, plain(ids).logits)
