# SPDX-License-Identifier: Apache-2.0
"""Which of several readings predicts the target better, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import torch

from vllm_dflash.fit.reading import Reading


class Scores(Protocol):
    """Scores of samples that are dealt to groups."""

    @property
    def groups(self) -> int: ...

    def table(self, reading: Reading, group: int) -> torch.Tensor:
        """[sequences of the group, draft tokens], mean log-likelihood in nats; NaN where there is no such position."""
        ...


ROUNDING = 1e-4  # nats a row
CHANCE = 1e-3


@dataclass(frozen=True)
class Ranked:
    """A candidate against the best one: mean difference in nats a row (<= 0) and its error, over `count` sequences."""

    reading: Reading
    score: float
    behind: float
    error: float
    count: int

    @property
    def excluded(self) -> bool:
        """Behind by more than rounding, and by more than happens by chance in one case of a thousand (CHANCE).

        Dozens of candidates are close in some drafters: one in a hundred would strike the right one out too often.
        """
        return -self.behind > max(student(self.count, CHANCE) * self.error, ROUNDING)


def student(count: int, chance: float) -> float:
    """What a mean of `count` values exceeds by chance, in standard errors: Student's t, by its series about the normal.

    Within 2 % from six values on for chances down to 1e-3, from eight on down to 1e-4, too low for fewer (Abramowitz
    and Stegun 26.7.5).
    """
    z, freedom = NormalDist().inv_cdf(1 - chance), max(count - 1, 1)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def per_sequence(scores: Scores, reading: Reading, groups: int, positions: int) -> torch.Tensor:
    """Mean over the first draft positions, of each sequence of the first groups. float64 [n]."""
    return torch.cat([scores.table(reading, i)[:, :positions].double().nanmean(1) for i in range(groups)])


def mean_and_error(values: torch.Tensor) -> tuple[float, float]:
    """Mean of the values that are not NaN and its standard error, infinite for fewer than two."""
    there = values[~values.isnan()]
    error = float(there.std() / len(there) ** 0.5) if len(there) > 1 else float("inf")
    return float(there.mean()), error


def difference(scores: Scores, one: Reading, other: Reading) -> tuple[float, float]:
    """How much better `one` is, in nats a row, over positions that both draft, and the standard error.

    The error is that of a mean over sequences: rows of one sequence are not independent.
    """
    positions = min(one.draft_tokens, other.draft_tokens)
    first, second = (per_sequence(scores, each, scores.groups, positions) for each in (one, other))
    return mean_and_error(first - second)


def compare(scores: Scores, readings: Sequence[Reading], groups: int) -> list[Ranked]:
    """Best first; errors as in `difference`."""
    positions = min(one.draft_tokens for one in readings)
    means = [per_sequence(scores, one, groups, positions) for one in readings]
    best = max(range(len(readings)), key=lambda i: float(means[i].nanmean()))
    ranked = [
        Ranked(reading, float(mean.nanmean()), *mean_and_error(mean - means[best]), int((~mean.isnan()).sum()))
        for reading, mean in zip(readings, means, strict=True)
    ]
    return sorted(ranked, key=lambda one: -one.score)


def still_open(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Those that all samples do not exclude, or that went out early but within one standard error of the best."""
    whole = max((one.count for one in ranked), default=0)
    return [one for one in ranked if not one.excluded and (one.count == whole or one.behind >= -one.error)]
