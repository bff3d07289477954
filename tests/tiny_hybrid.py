# SPDX-License-Identifier: Apache-2.0
"""A tiny Qwen3.5: gated-delta-net layers and full attention, three to one, with a drafter of another head shape."""

from pathlib import Path

import torch
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from tests import tiny

KV_HEADS, DRAFT_HEADS, WINDOW = 2, (2, 1, 64), 16  # as many bytes a token, another shape: Qwen3.6 and its drafter


def target(folder: Path, seed: int = 0, positions: int = 2048) -> Path:
    """Eight layers, two of them full attention. bf16, which is all that vLLM's CPU kernels for this family take.

    Small weights: with those of `tiny.target`, rounding in bf16 moves some logits by more than 1.
    """
    torch.manual_seed(seed)
    model = Qwen3_5ForCausalLM(
        Qwen3_5TextConfig(
            vocab_size=tiny.VOCABULARY,
            hidden_size=tiny.HIDDEN,
            intermediate_size=96,
            num_hidden_layers=8,
            num_attention_heads=tiny.HEADS,
            num_key_value_heads=KV_HEADS,
            head_dim=tiny.HEAD_DIM,
            linear_num_key_heads=1,
            linear_num_value_heads=2,
            linear_key_head_dim=64,
            linear_value_head_dim=64,
            max_position_embeddings=positions,
            initializer_range=0.05,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=1,
        )
    )
    with torch.no_grad():
        rows = torch.nn.functional.normalize(torch.randn(4, tiny.HIDDEN))
        model.lm_head.weight.zero_()
        model.lm_head.weight[10:14] = rows - rows.mean(0)
    model.to(torch.bfloat16).save_pretrained(folder)
    tiny.tokenizer(folder)
    return folder


def drafter(folder: Path, kinds: str, k: int, window: int = WINDOW, positions: int = 2048) -> Path:
    return tiny.drafter(
        folder,
        kinds,
        window=window,
        taps=(0, 3, 6),
        block=k + 1,
        target_layers=8,
        positions=positions,
        heads=DRAFT_HEADS,
    )
