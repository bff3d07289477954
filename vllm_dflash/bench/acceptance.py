# SPDX-License-Identifier: Apache-2.0
"""Acceptance, from vLLM's own counters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

PREFIX = "vllm:spec_decode_num_"
PREEMPTIONS = "vllm:num_preemptions"


@dataclass(frozen=True)
class Counters:
    """drafts: verified blocks, one for each request and step. by_position: accepted ones at each position."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    by_position: tuple[int, ...] = ()
    preemptions: int = 0

    def since(self, before: "Counters") -> "Counters":
        earlier = before.by_position or (0,) * len(self.by_position)
        return Counters(
            self.drafts - before.drafts,
            self.drafted - before.drafted,
            self.accepted - before.accepted,
            tuple(now - then for now, then in zip(self.by_position, earlier, strict=True)),
            self.preemptions - before.preemptions,
        )

    @property
    def length(self) -> float | None:
        """Mean tokens a step: accepted draft tokens + 1."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def rate_by_position(self) -> list[float]:
        return [count / self.drafts for count in self.by_position] if self.drafts else []


def read(metrics: Iterable[Any]) -> Counters:
    """From `LLM.get_metrics()`, summed over engines."""
    sums = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0, PREEMPTIONS: 0}
    positions: list[int] = []
    for metric in metrics:
        name = metric.name.removeprefix(PREFIX)
        if name in sums:
            sums[name] += int(metric.value)
        elif name == "accepted_tokens_per_pos":
            padded = max(len(positions), len(metric.values))
            pairs = zip(_padded(positions, padded), _padded(metric.values, padded), strict=True)
            positions = [a + b for a, b in pairs]
    return Counters(sums["drafts"], sums["draft_tokens"], sums["accepted_tokens"], tuple(positions), sums[PREEMPTIONS])


def length_by_category(histograms: Iterable[Sequence[int]], categories: Iterable[str]) -> dict[str, float]:
    """Acceptance length of each category, from each prompt's histogram of accepted tokens a step."""
    steps: dict[str, int] = {}
    tokens: dict[str, int] = {}
    for histogram, category in zip(histograms, categories, strict=True):
        steps[category] = steps.get(category, 0) + sum(histogram)
        tokens[category] = tokens.get(category, 0) + sum((j + 1) * count for j, count in enumerate(histogram))
    return {category: tokens[category] / count for category, count in sorted(steps.items()) if count}


def _padded(values: Sequence[int], length: int) -> list[int]:
    return [*values, *[0] * (length - len(values))]
