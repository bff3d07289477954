# SPDX-License-Identifier: Apache-2.0
"""Coordinate ascent over readings: each field in turn, its candidates halved over growing parts of the samples."""

from collections.abc import Callable, Sequence

from vllm_dflash.fit.compare import Ranked, compare
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.candidates import Field, Space
from vllm_dflash.recover.memo import Memo

COARSE_ROUNDS, MOST_ROUNDS = 2, 8
LEVELS = ((1, 8), (4, 4), (8, 4))  # groups of samples, candidates that go on


def contest(memo: Memo, readings: Sequence[Reading], habit: Callable[[Reading], int], full: bool) -> list[Ranked]:
    """Successive halving. All candidates, best first; those that went out early keep their last comparison.

    habit: the most usual of the candidates that are not excluded always goes on.
    """
    alive = list({one.key(): one for one in readings}.values())
    out: list[Ranked] = []
    for groups, keep in LEVELS if full else LEVELS[:1]:
        ranked = compare(memo, alive, min(groups, memo.groups))
        open_ones = [one for one in ranked if not one.excluded]
        usual = min(open_ones, key=lambda one: habit(one.reading))
        going = [*open_ones[:keep], usual]
        if len(ranked) > 1 and len(going) < 3:
            going += ranked[:2]
        kept = {one.reading.key() for one in going}
        if full and groups >= memo.groups:
            return ranked + out
        if full:
            out = [one for one in ranked if one.reading.key() not in kept] + out
            alive = [one.reading for one in ranked if one.reading.key() in kept]
    return ranked + out


def choose(ranked: Sequence[Ranked], habit: Callable[[Reading], int]) -> Reading:
    """The best, or of those it does not beat clearly the most usual."""
    equals = [one for one in ranked if not one.excluded]
    return min(equals, key=lambda one: (habit(one.reading), -one.score)).reading


def search(
    memo: Memo,
    space: Space,
    block_size: Callable[[Reading, bool], Reading],
    tick: Callable[[str, int], None],
) -> tuple[Reading, dict[str, list[Ranked]]]:
    """The reading that no change of one field improves, and each field's ranking around it.

    tick: called with the field and the round before each contest.
    block_size: gives the reading another block size; its second argument asks for a quick look.
    """
    reading = space.start()
    fields, joint = list(space.fields()), space.joint()

    def no_habit(_reading: Reading) -> int:
        return 0

    for round_ in range(COARSE_ROUNDS):
        for field in fields:
            if round_ and field.name.startswith("layers"):
                continue
            if field.name == "layers.0":
                tick("layers", round_)
                reading = contest(memo, [reading, *space.patterns(reading)], no_habit, False)[0].reading
            tick(field.name, round_)
            reading = contest(memo, field.options(reading), no_habit, False)[0].reading
        if joint is not None:
            tick(joint.name, round_)
            reading = contest(memo, joint.options(reading), no_habit, False)[0].reading
        tick("block_size", round_)
        reading = block_size(reading, True)
    return _settle(memo, [*fields, joint] if joint else fields, reading, block_size, tick)


def _settle(
    memo: Memo,
    fields: Sequence[Field],
    reading: Reading,
    block_size: Callable[[Reading, bool], Reading],
    tick: Callable[[str, int], None],
) -> tuple[Reading, dict[str, list[Ranked]]]:
    visited = [reading]
    for round_ in range(COARSE_ROUNDS, MOST_ROUNDS):
        for field in fields:
            tick(field.name, round_)
            reading = choose(contest(memo, field.options(reading), field.habit, True), field.habit)
        tick("block_size", round_)
        reading = block_size(reading, False)
        if reading in visited:
            if reading != visited[-1]:  # going round in circles
                reading = compare(memo, visited[visited.index(reading) :], memo.groups)[0].reading
            break
        visited.append(reading)
    rankings = {field.name: contest(memo, field.options(reading), field.habit, True) for field in fields}
    return reading, rankings
