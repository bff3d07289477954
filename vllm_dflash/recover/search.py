# SPDX-License-Identifier: Apache-2.0
"""Coordinate ascent over readings: each field in turn, its candidates halved over growing parts of the samples."""

from collections.abc import Callable, Sequence

from vllm_dflash.fit.compare import Ranked, compare
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.candidates import Field, Space
from vllm_dflash.recover.memo import Memo

MOST_USUAL = 4
GOING_ON = (10, 6, 4, 3)  # candidates that go on to the second, third, ... group of samples; then the last
FIRST_STAGE, SECOND_STAGE = 2, 3  # groups of samples; then all
ROUNDS = {FIRST_STAGE: 4, SECOND_STAGE: 3}
LAST_ROUNDS = 6

FindBlockSize = Callable[[Reading, int], Reading]


def contest(memo: Memo, readings: Sequence[Reading], habit: Callable[[Reading], int], groups: int) -> list[Ranked]:
    """Successive halving. All candidates, best first; those that went out early keep their last comparison.

    groups: of samples, at most. habit: the most usual of the candidates that are not excluded always go on.
    """
    alive = list({one.key(): one for one in readings}.values())
    out: list[Ranked] = []
    last = min(groups, memo.groups)
    for count in range(1, last):
        ranked = compare(memo, alive, count)
        kept = _going_on(ranked, GOING_ON[min(count, len(GOING_ON)) - 1], habit)
        out = [one for one in ranked if one.reading.key() not in kept] + out
        alive = [one.reading for one in ranked if one.reading.key() in kept]
    return compare(memo, alive, last) + out


def _going_on(ranked: Sequence[Ranked], count: int, habit: Callable[[Reading], int]) -> set[str]:
    open_ones = [one for one in ranked if not one.excluded]
    most_usual = min(habit(one.reading) for one in open_ones)
    usual = [one for one in open_ones if habit(one.reading) == most_usual][:MOST_USUAL]
    going = [*open_ones[:count], *usual]
    if len(going) < 3:
        going += ranked[:2]
    return {one.reading.key() for one in going}


def choose(ranked: Sequence[Ranked], habit: Callable[[Reading], int]) -> Reading:
    """The best, or of those it does not beat clearly on all samples the most usual."""
    whole = max(one.count for one in ranked)
    equals = [one for one in ranked if not one.excluded and one.count == whole]
    return min(equals, key=lambda one: (habit(one.reading), -one.score)).reading


def search(memo: Memo, space: Space, block_size: FindBlockSize, tick: Callable[[str, int], None]) -> Reading:
    """The reading that no change of one field improves.

    On a few samples until nothing changes, then on more, then on all: only the last rounds are dear.

    block_size: gives the reading another block size, by that many groups of samples.
    tick: called with the field and the round before each contest.
    """
    reading, fields, round_ = space.start(), _fields(space), 0
    for groups in dict.fromkeys(min(one, memo.groups) for one in (FIRST_STAGE, SECOND_STAGE, memo.groups)):
        visited = [reading]
        for _ in range(ROUNDS.get(groups, LAST_ROUNDS) if groups < memo.groups else LAST_ROUNDS):
            for field in fields:
                if field.name == "layers.0" and not round_:
                    tick("layers", round_)
                    reading = contest(memo, [reading, *space.patterns(reading)], _no_habit, groups)[0].reading
                tick(field.name, round_)
                habit = field.habit if groups > FIRST_STAGE or groups == memo.groups else _no_habit
                reading = choose(contest(memo, field.options(reading), habit, groups), habit)
            tick("block_size", round_)
            reading = block_size(reading, groups)
            round_ += 1
            if reading in visited:
                if reading != visited[-1]:  # going round in circles
                    reading = compare(memo, visited[visited.index(reading) :], groups)[0].reading
                break
            visited.append(reading)
    return reading


def around(memo: Memo, space: Space, reading: Reading) -> dict[str, list[Ranked]]:
    """Each field's ranking, the others being as in `reading`."""
    return {one.name: contest(memo, one.options(reading), one.habit, memo.groups) for one in _fields(space)}


def _fields(space: Space) -> list[Field]:
    joint = space.joint()
    return [*space.fields(), *([joint] if joint else [])]


def _no_habit(_reading: Reading) -> int:
    return 0
