# SPDX-License-Identifier: Apache-2.0
"""The decoding loop: greedy output is the target's whatever the drafter says, and the counts add up."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests import tiny
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.reference.decode import generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.sampling import Sampler
from vllm_dflash.reference.target import Target

PROMPT, K, TOKENS = [5, 6, 7, 8, 9, 10], 4, 40


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Target, Drafter, list[int]]:
    torch.set_num_threads(1)
    root: Path = tmp_path_factory.mktemp(request.param)
    model = AutoModelForCausalLM.from_pretrained(tiny.target(root / "t", request.param), dtype=torch.float32)
    config = load_draft_config(tiny.drafter(root / "d", "SSF"))
    alone = model.generate(
        torch.tensor([PROMPT]), max_new_tokens=TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0, len(PROMPT) :].tolist()
    return Target(model, config.tap_layer_ids), Drafter.load(config), alone


def test_output_is_the_targets(loaded: tuple[Target, Drafter, list[int]]) -> None:
    target, drafter, alone = loaded
    out = generate(target, drafter, PROMPT, k=K, max_tokens=TOKENS)
    assert out.tokens == alone
    assert sum(out.acceptance_histogram) == len(out.accepted) == len(out.drafts)
    assert out.acceptance_length == 1 + sum(i * n for i, n in enumerate(out.acceptance_histogram)) / len(out.accepted)
    assert len(alone) <= 1 + sum(a + 1 for a in out.accepted) < len(alone) + K + 1


def test_an_oracle_is_always_accepted(loaded: tuple[Target, Drafter, list[int]]) -> None:
    target, drafter, alone = loaded
    padded = alone + [0] * K

    def oracle(sequence: list[int]) -> list[int]:
        done = len(sequence) - len(PROMPT)
        return padded[done : done + K]

    out = generate(target, drafter, PROMPT, k=K, max_tokens=TOKENS, draft_override=oracle)
    assert out.tokens == alone
    assert set(out.accepted[:-1]) == {K}


def test_stop_token_ends_generation(loaded: tuple[Target, Drafter, list[int]]) -> None:
    target, drafter, alone = loaded
    stop = alone[20]
    out = generate(target, drafter, PROMPT, k=K, max_tokens=TOKENS, stop={stop})
    assert out.tokens == alone[: alone.index(stop) + 1]


def test_sampling_is_reproducible_by_seed(loaded: tuple[Target, Drafter, list[int]]) -> None:
    target, drafter, _ = loaded
    runs = [generate(target, drafter, PROMPT, k=K, max_tokens=12, sampler=Sampler(1.0, s)).tokens for s in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


def test_last_layer_tap_is_before_the_final_norm(loaded: tuple[Target, Drafter, list[int]]) -> None:
    target, _, _ = loaded
    last = target.model.config.num_hidden_layers - 1
    tapped = Target(target.model, [last])
    logits, taps, _ = tapped(torch.tensor([PROMPT]))
    torch.testing.assert_close(tapped.head(tapped.final_norm_module(taps)), logits)
