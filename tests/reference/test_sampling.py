# SPDX-License-Identifier: Apache-2.0
"""Verification: greedy prefixes, and that rejection sampling gives the target's distribution exactly."""

import pytest
import torch

from vllm_dflash.reference.sampling import Sampler, verify_greedy, verify_sampled

VOCABULARY, DRAWS = 5, 20000


@pytest.mark.parametrize(
    ("proposed", "accepted", "following"),
    [([1, 2, 3], 3, 4), ([1, 2, 0], 2, 3), ([1, 0, 3], 1, 2), ([0, 2, 3], 0, 1), ([], 0, 1)],
)
def test_greedy_prefix(proposed: list[int], accepted: int, following: int) -> None:
    logits = torch.eye(VOCABULARY)[[1, 2, 3, 4]]
    assert verify_greedy(proposed, logits[: len(proposed) + 1]) == (accepted, following)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_first_token_has_the_targets_distribution(temperature: float) -> None:
    generator = torch.Generator().manual_seed(3)
    target, draft = torch.randn(2, VOCABULARY, generator=generator), torch.randn(1, VOCABULARY, generator=generator)
    sampler = Sampler(temperature, 0)
    counts = torch.zeros(VOCABULARY)
    accepted_steps = 0
    for _ in range(DRAWS):
        token = sampler.draw(draft[0])
        accepted, following = verify_sampled([token], draft, target, sampler)
        accepted_steps += accepted
        counts[token if accepted else following] += 1
    want = sampler.probabilities(target[0])
    error = (want * (1 - want) / DRAWS).sqrt()
    assert ((counts / DRAWS - want).abs() < 4.5 * error).all()
    overlap = torch.minimum(want, sampler.probabilities(draft[0])).sum()
    assert accepted_steps / DRAWS == pytest.approx(float(overlap), abs=0.02)


def test_equal_distributions_are_always_accepted() -> None:
    logits, sampler = torch.randn(4, VOCABULARY), Sampler(1.0, 1)
    for _ in range(200):
        proposed = [sampler.draw(row) for row in logits[:3]]
        assert verify_sampled(proposed, logits[:3], logits, sampler)[0] == 3


def test_temperature_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature: found 0"):
        Sampler(0, 0)
