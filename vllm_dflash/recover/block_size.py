# SPDX-License-Identifier: Apache-2.0
"""How many rows the trained block has.

Two signs. In bidirectional layers every row sees all the others, so that a block longer than the trained one spoils the
first positions too, and often a shorter one does. And rows past the trained block were never trained: their likelihood
falls off a step, an excess over the falls before and after it. Causal drafters show only the second sign, and one that
carries on smoothly past its block shows none: then the size cannot be told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from vllm_dflash.fit.compare import Ranked, compare, mean_and_error, still_open
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.candidates import USUAL_BLOCKS
from vllm_dflash.recover.memo import Memo
from vllm_dflash.recover.search import contest

SMALLEST, LARGEST = 4, 32
CLEAR = 3.5  # standard errors: many positions are looked at, so 2 would find steps in noise
NO_STEP = 0.05  # nats
MOST_COMMON = 16  # of the public drafters
RUN_GROUPS = 4
BEYOND = 8  # positions looked at past the longest block

Step = tuple[float, float]


@dataclass(frozen=True)
class BlockEvidence:
    """ranked: block sizes by the first positions. steps[b]: excess fall past a block of b rows in nats, its error.

    left: sizes that the first positions do not exclude. falls: mean of position 1 to 2, 2 to 3, ... in a longer block.
    """

    size: int
    decided: bool
    ranked: tuple[Ranked, ...]
    left: tuple[int, ...]
    steps: dict[int, Step]
    falls: tuple[float, ...] = ()
    clear_step: bool = False


def find_block_size(memo: Memo, reading: Reading, groups: int) -> BlockEvidence:
    """By `groups` groups of samples; only by the first sign, and undecided, when that is not all of them.

    Undecided: the longest usual size that the first positions bear; where they bear any, the most common size.
    """
    causal = all(layer.causal for layer in reading.layers)
    sizes = [replace(reading, block_size=size) for size in range(SMALLEST, LARGEST + 1)]
    if causal:
        ranked = compare(memo, [reading], 1)
        left = tuple(one.block_size for one in sizes)
    else:
        ranked = contest(memo, sizes, lambda one: abs(one.block_size - reading.block_size), groups)
        if groups == memo.groups:
            finalists = {one.reading.block_size for one in still_open(ranked)} | set(USUAL_BLOCKS)
            ranked = _pairs(memo, [one for one in sizes if one.block_size in finalists])
        left = tuple(one.reading.block_size for one in still_open(ranked))
    if groups < memo.groups:
        size = reading.block_size if reading.block_size in left else ranked[0].reading.block_size
        return BlockEvidence(size, False, tuple(ranked), left, {})
    table = _falls(memo, reading, max(left) + BEYOND)
    steps = {size: _step(table, size) for size in left}
    falls = tuple(round(float(v), 4) for v in table.nanmean(0))
    step = _clear_step(steps, falls)
    clear = step or (left[0] if len(left) == 1 else None)
    if clear is not None:
        return BlockEvidence(clear, True, tuple(ranked), left, steps, falls, step is not None)
    usual = max([size for size in USUAL_BLOCKS if size in left] or left)
    return BlockEvidence(MOST_COMMON if causal else usual, False, tuple(ranked), left, steps, falls)


def _pairs(memo: Memo, readings: Sequence[Reading]) -> list[Ranked]:
    """Each by the comparison that is worst for it; best first.

    All together over the first positions, where a wrong size tells most, and in pairs over all that both draft.
    """
    together = compare(memo, readings, memo.groups)
    found = []
    for one in readings:
        pairs = [compare(memo, [one, other], memo.groups) for other in readings if other is not one]
        own = [next(ranked for ranked in rows if ranked.reading == one) for rows in (together, *pairs)]
        found.append(min(own, key=lambda ranked: (not ranked.excluded, ranked.behind)))
    return sorted(found, key=lambda ranked: (ranked.excluded, -ranked.behind))


def _falls(memo: Memo, reading: Reading, rows: int) -> torch.Tensor:
    """[sequences, draft positions - 1] from position 1; a drafter that predicts from the anchor has one more before."""
    long = replace(reading, block_size=rows)
    table = torch.cat([memo.falls(long, i) for i in range(min(RUN_GROUPS, memo.groups))])
    return table[:, int(reading.sample_from_anchor) :]


def _step(falls: torch.Tensor, size: int) -> Step:
    """From the last position of a block of `size` rows to the one after it."""
    excess = falls[:, size - 2] - (falls[:, size - 3] + falls[:, size - 1]) / 2
    return mean_and_error(excess) if (~excess.isnan()).any() else (0.0, float("inf"))


def _clear_step(steps: dict[int, Step], falls: Sequence[float]) -> int | None:
    """The highest step, if it is beyond doubt and the likelihood stays down after it."""
    order = sorted(steps, key=lambda one: -steps[one][0])
    size, (excess, error) = order[0], steps[order[0]]
    second = steps[order[1]][0] if len(order) > 1 else 0.0
    stays = min(accumulate(falls[size - 2 : size - 2 + BEYOND - 2])) > excess / 2
    return size if excess > max(CLEAR * error, NO_STEP) and excess - second > 2 * error and stays else None
