# SPDX-License-Identifier: Apache-2.0
"""More evidence for the fields that the search left open: their surviving values alone, against the chosen reading.

A look at the grown evidence is one more chance to be fooled. So the first may strike a value out by a difference that
chance brings about in one case of 2,000, the second in one of 4,000, and so on: in all, one of a thousand, as the
search had. And a difference below HARMLESS is none: what is so close on these texts may be the other way on others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from vllm_dflash.fit.compare import mean_and_error, student
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.parts import graft, part_of
from vllm_dflash.recover.verdict import HARMLESS, Verdict

CHANCE = 1e-3
MOST_MOVES = 4
BLOCK_SIZE = "block_size"  # has evidence of its own kind


class Evidence(Protocol):
    """Samples that grow."""

    blocks: int
    """drafted in each sequence"""

    def grow(self, readings: Sequence[Reading]) -> bool:
        """Make more samples for a comparison of these readings. False: no time or no prompts are left."""
        ...

    def late(self) -> bool: ...

    def table(self, reading: Reading) -> torch.Tensor:
        """[sequences, draft tokens], mean log-likelihood in nats; NaN where there is no such position."""
        ...


@dataclass(frozen=True)
class Measured:
    """How far a rival is behind the chosen reading, in nats a row, and the standard error over `count` sequences."""

    rival: Reading
    behind: float
    error: float
    count: int

    def clear(self, chance: float) -> bool:
        return abs(self.behind) > max(student(self.count, chance) * self.error, HARMLESS)

    def alike(self, chance: float) -> bool:
        """Sure to be closer than what matters: more samples would change nothing."""
        return abs(self.behind) + student(self.count, chance) * self.error < HARMLESS


@dataclass
class Contest:
    """A field that is open. rivals: readings whose part is another value; out: measurements that struck values out."""

    verdict: Verdict
    rivals: list[Reading]
    seen: dict[Any, Measured] = field(default_factory=dict)
    out: dict[Any, Measured] = field(default_factory=dict)
    looks: int = 0
    hopeless: bool = False

    @property
    def value(self) -> Callable[[Reading], Any]:
        return part_of(self.verdict.name)

    def against(self, reading: Reading) -> list[Reading]:
        """`reading` with each value that is left; causality also alone, and with the block size as it is."""
        name, mine = self.verdict.name, self.value(reading)
        others = [one for one in self.rivals if self.value(one) != mine and self.value(one) not in self.out]
        found = [graft(reading, name, one) for one in others]
        if name.endswith(".causal"):
            found += [replace(one, block_size=reading.block_size) for one in found]
            found += [graft(reading, name.replace("causal", "window"), self._flipped(reading, one)) for one in others]
        return list({one.key(): one for one in found}.values())

    def _flipped(self, reading: Reading, other: Reading) -> Reading:
        rules = zip(reading.layers, other.layers, strict=True)
        return replace(reading, layers=tuple(replace(one, causal=that.causal) for one, that in rules))

    def conclude(self, reading: Reading, left: Sequence[Reading], blocks: int) -> Verdict:
        """By all samples of the looks. left: rivals that no look struck out."""
        mine, measured = self.value(reading), self.out | self.seen
        others = tuple(dict.fromkeys(self.value(one) for one in left))
        order = sorted(measured, key=lambda value: measured[value].behind)
        nearest = next((value for value in order if not others or value in others), None)
        ranking = [(value, round(-measured[value].behind, 5), round(measured[value].error, 5)) for value in order]
        earlier = [one for one in self.verdict.ranking if one[0] not in measured and one[0] != mine]
        note = f"by {max(one.count for one in measured.values())} sequences, " if measured else ""
        note += f"up to {blocks} blocks each, look {self.looks}" + self.hopeless * "; those left draft alike"
        found = replace(
            self.verdict, value=mine, origin="search" if self.out and not others else "habit", others=others, rivals=(),
            note=note, ranking=((mine, 0.0, 0.0), *ranking, *earlier), margin=None, error=None, runner_up=None,
        )  # fmt: skip
        if nearest is None:
            return found
        one = measured[nearest]
        return replace(found, margin=round(one.behind, 5), error=round(one.error, 5), runner_up=nearest)


def refine(
    reading: Reading, verdicts: Sequence[Verdict], evidence: Evidence, tick: Callable[[str, int], None]
) -> tuple[Reading, dict[str, Verdict]]:
    """Looks at more and more evidence until every field is decided or cannot be, or `evidence` ends.

    A rival that proves better takes the reading's place, and all that is open is measured against that one.

    tick: called with a field and the look before it is measured.

    Returns:
        The reading, and the verdicts of the fields that were looked at.
    """
    open_ones = [one for one in verdicts if not one.decided and one.rivals and one.name != BLOCK_SIZE]
    contests = [Contest(one, list(one.rivals), hopeless=_alike(one)) for one in open_ones]
    looks, moves = 0, 0
    while going := _going_on(contests, reading):
        if not evidence.grow([reading, *(rival for _, rivals in going for rival in rivals)]):
            break
        looks += 1
        while (better := _look(contests, reading, evidence, looks, tick)) and moves < MOST_MOVES:
            for one in contests:  # the move may take other fields' values along
                one.rivals.append(reading)
                one.seen.clear()
            reading, moves = better, moves + 1
    looked_at = [one for one in contests if one.looks]
    return reading, {
        one.verdict.name: one.conclude(reading, _rivals(one, contests, reading), evidence.blocks) for one in looked_at
    }


def _rivals(contest: Contest, contests: Sequence[Contest], reading: Reading) -> list[Reading]:
    """Without those that come with a value that another field has struck out."""
    return [
        rival
        for rival in contest.against(reading)
        if not any(other.value(rival) in other.out for other in contests if other is not contest)
    ]


def _going_on(contests: Sequence[Contest], reading: Reading) -> list[tuple[Contest, list[Reading]]]:
    """Those with fewest rivals first: when time ends in the middle of a look, more fields had theirs."""
    found = [(one, _rivals(one, contests, reading)) for one in contests if not one.hopeless]
    return sorted(((one, rivals) for one, rivals in found if rivals), key=lambda pair: len(pair[1]))


def _alike(verdict: Verdict) -> bool:
    """By the search's own samples. Its ranking is told from its best, which need not be the value chosen."""
    near = {repr(value): (behind, error) for value, behind, error in verdict.ranking}
    own = near.get(repr(verdict.value))
    others = [near[repr(value)] for value in verdict.others if repr(value) in near]
    if own is None:
        return False
    return any(abs(behind - own[0]) + 4 * max(error, own[1]) < HARMLESS for behind, error in others)


def _look(
    contests: Sequence[Contest], reading: Reading, evidence: Evidence, look: int, tick: Callable[[str, int], None]
) -> Reading | None:
    """Strike out what is clearly behind; what is clearly ahead by most, if anything is."""
    chance, own = CHANCE / 2**look, evidence.table(reading)
    ahead: list[tuple[float, Reading]] = []
    for contest, rivals in _going_on(contests, reading):
        tick(contest.verdict.name, look)
        if evidence.late():
            break
        found: dict[Any, list[Measured]] = {}
        for rival in rivals:
            each = found.setdefault(contest.value(rival), [])
            if all(one.clear(chance) and one.behind > 0 for one in each):  # else the value stays open anyway
                each.append(_measure(evidence, own, rival))
        contest.looks = look
        for value, each in found.items():
            contest.seen[value] = closest = min(each, key=lambda one: one.behind)
            if all(one.clear(chance) and one.behind > 0 for one in each):
                contest.out[value] = contest.seen.pop(value)
            elif closest.behind < 0 and closest.clear(chance):
                ahead.append((closest.behind, closest.rival))
            contest.hopeless |= closest.alike(chance)
    return min(ahead, key=lambda one: one[0])[1] if ahead else None


def _measure(evidence: Evidence, own: torch.Tensor, rival: Reading) -> Measured:
    """Over the positions that both draft."""
    table = evidence.table(rival)
    both = min(own.shape[1], table.shape[1])
    differences = (own[:, :both] - table[:, :both]).double().nanmean(1)
    return Measured(rival, *mean_and_error(differences), int((~differences.isnan()).sum()))
