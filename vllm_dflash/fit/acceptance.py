# SPDX-License-Identifier: Apache-2.0
"""Greedy speculative decoding replayed along the target's answers: exact, and one draft pass a step for all of them."""

from dataclasses import dataclass

import torch

from vllm_dflash.fit.reading import Reading
from vllm_dflash.fit.score import Scorer


@dataclass(frozen=True)
class Acceptance:
    """length: accepted draft tokens + 1 a step; by_position: share of steps that accept position 1, 2, ...

    Each with a standard error over sequences. steps: in all sequences together.
    """

    steps: int
    length: tuple[float, float]
    by_position: tuple[tuple[float, float], ...]


@torch.no_grad()
def acceptance(scorer: Scorer, reading: Reading) -> Acceptance:
    """As `train.evaluate.walk`: drafts past the end of an answer count as wrong; the last token is no anchor."""
    counts: list[list[int]] = []
    for group in range(scorer.groups):
        counts += _walk(scorer, reading, group)
    counts = [one for one in counts if one]
    k = reading.draft_tokens
    rates = [_ratio([(sum(c > i for c in one), len(one)) for one in counts]) for i in range(k)]
    mean, error = _ratio([(sum(one), len(one)) for one in counts])
    return Acceptance(sum(map(len, counts)), (1 + mean, error), tuple(rates))


def _walk(scorer: Scorer, reading: Reading, group: int) -> list[list[int]]:
    part, context = scorer.parts[group], scorer.context(reading, group)
    anchors = torch.tensor([scorer.samples.prompt_lengths[i] for i in part.members], device=scorer.device)
    last, first = part.lengths - 1, 0 if reading.sample_from_anchor else 1
    offsets = torch.arange(1, reading.draft_tokens + 1, device=scorer.device)
    counts: list[list[int]] = [[] for _ in part.members]
    while bool((anchors < last).any()):
        hidden = scorer.hidden(reading, part, anchors[:, None], context)[:, 0, first:]
        drafts = scorer.weights.token_of_row[(hidden @ scorer.weights.head.T).argmax(-1)]
        ahead = anchors[:, None] + offsets
        truth = part.tokens.gather(1, ahead.clamp(max=part.tokens.shape[1] - 1))
        right = (drafts == truth) & (ahead < part.lengths[:, None])
        accepted = right.long().cumprod(1).sum(1)
        for i, (live, count) in enumerate(zip((anchors < last).tolist(), accepted.tolist(), strict=True)):
            if live:
                counts[i].append(count)
        anchors = torch.where(anchors < last, anchors + accepted + 1, anchors)
    return counts


def _ratio(pairs: list[tuple[int, int]]) -> tuple[float, float]:
    """sum / sum and its standard error, sequences being independent."""
    total, steps = sum(a for a, _ in pairs), sum(n for _, n in pairs)
    if not steps:
        return 0.0, float("inf")
    ratio, count = total / steps, len(pairs)
    squares = sum((a - ratio * n) ** 2 for a, n in pairs)
    return ratio, (squares * count / (count - 1)) ** 0.5 / steps if count > 1 else float("inf")
