# SPDX-License-Identifier: Apache-2.0
"""Slots decoding gives what Hugging Face's own greedy generation gives."""

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from vllm_dflash.errors import UserError
from vllm_dflash.train.generate import greedy_answers


@pytest.mark.parametrize(
    ("config", "model"),
    [(LlamaConfig, LlamaForCausalLM), (Qwen2Config, Qwen2ForCausalLM), (Qwen3Config, Qwen3ForCausalLM)],
)
def test_equals_generate(config: type, model: type) -> None:
    torch.manual_seed(0)
    target = model(
        config(
            vocab_size=200, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, initializer_range=0.3,
        )
    )  # fmt: skip
    target = target.eval().requires_grad_(False)
    target.set_attn_implementation("sdpa")
    prompts = [torch.randint(3, 200, (n,)).tolist() for n in (3, 9, 1, 20, 7, 5, 12, 2, 2, 40, 11)]
    got = dict(greedy_answers(target, prompts, 40, [2, 7, 8], 4))
    assert target.config._attn_implementation == "sdpa"
    assert sorted(got) == list(range(len(prompts)))
    for index, prompt in enumerate(prompts):
        whole = target.generate(
            torch.tensor([prompt]), max_new_tokens=40, do_sample=False, eos_token_id=[2, 7, 8], pad_token_id=0
        )
        assert got[index] == whole[0, len(prompt) :].tolist(), index


def test_windows_that_would_be_left_out_are_refused() -> None:
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
    window = {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 0, "num_hidden_layers": 1}
    target = Qwen3ForCausalLM(Qwen3Config(**sizes, **window, num_key_value_heads=1, head_dim=16)).eval()
    assert len(dict(greedy_answers(target, [[3, 4, 5]], 8, [2], 1))) == 1
    with pytest.raises(UserError, match="sliding_window: found 32"):
        dict(greedy_answers(target, [[3, 4, 5]], 40, [2], 1))
