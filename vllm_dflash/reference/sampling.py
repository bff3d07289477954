# SPDX-License-Identifier: Apache-2.0
"""Verification: which draft tokens the target keeps, and the token it adds (arXiv 2211.17192, algorithm 1)."""

from collections.abc import Sequence

import torch


def greedy(logits: torch.Tensor) -> int:
    """[vocabulary] -> token id."""
    return int(logits.argmax())


class Sampler:
    """Draws from softmax(logits / temperature) with a generator of its own."""

    def __init__(self, temperature: float, seed: int) -> None:
        if temperature <= 0:
            raise ValueError(f"temperature: found {temperature}, needed > 0 (greedy decoding takes no sampler)")
        self.temperature = temperature
        self.generator = torch.Generator().manual_seed(seed)

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        return (logits.double() / self.temperature).softmax(-1)

    def pick(self, probabilities: torch.Tensor) -> int:
        return int(torch.multinomial(probabilities, 1, generator=self.generator))

    def draw(self, logits: torch.Tensor) -> int:
        return self.pick(self.probabilities(logits))

    def uniform(self) -> float:
        return float(torch.rand((), generator=self.generator, dtype=torch.float64))


def verify_greedy(proposed: Sequence[int], target_logits: torch.Tensor) -> tuple[int, int]:
    """Longest prefix equal to the target's argmax, and the target's next token.

    Args:
        proposed: k draft tokens; target_logits: [k + 1, vocabulary], row i predicts proposed[i].
    """
    best = target_logits.argmax(-1).tolist()
    accepted = 0
    while accepted < len(proposed) and proposed[accepted] == best[accepted]:
        accepted += 1
    return accepted, best[accepted]


def verify_sampled(
    proposed: Sequence[int], draft_logits: torch.Tensor, target_logits: torch.Tensor, sampler: Sampler
) -> tuple[int, int]:
    """Accept token t with probability min(1, p(t) / q(t)); at the first refusal draw from max(0, p - q), renormalised.

    p is the target's distribution, q the drafter's. Args as verify_greedy; draft_logits: [k, vocabulary].
    """
    for i, token in enumerate(proposed):
        p, q = sampler.probabilities(target_logits[i]), sampler.probabilities(draft_logits[i])
        if sampler.uniform() * q[token] >= p[token]:
            residual = (p - q).clamp(min=0)
            return i, sampler.pick(residual / residual.sum())
    return len(proposed), sampler.pick(sampler.probabilities(target_logits[len(proposed)]))
