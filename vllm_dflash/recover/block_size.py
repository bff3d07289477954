# SPDX-License-Identifier: Apache-2.0
"""How many rows the trained block has.

Two signs. In bidirectional layers every row sees all the others, so that blocks longer or shorter than the trained one
spoil the first positions too. And rows past the trained block were never trained: their likelihood falls off a step, an
excess over the falls before and after it. Causal drafters show only the second sign, and one that carries on smoothly
past its block shows none: then the size cannot be told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from vllm_dflash.fit.compare import Ranked, mean_and_error
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.candidates import USUAL_BLOCKS
from vllm_dflash.recover.memo import Memo
from vllm_dflash.recover.search import contest

SMALLEST, LARGEST = 4, 32
CLEAR = 3.0  # standard errors: many positions are looked at, so 2 would find steps in noise
NO_STEP = 0.05  # nats

Step = tuple[float, float]


@dataclass(frozen=True)
class BlockEvidence:
    """ranked: block sizes by the first positions. steps[b]: excess fall past a block of b rows in nats, its error.

    left: sizes that the first positions do not exclude. curve: mean log-likelihood of positions 1, 2, ... of a longer
    block than any of these.
    """

    size: int
    decided: bool
    ranked: tuple[Ranked, ...]
    left: tuple[int, ...]
    steps: dict[int, Step]
    curve: tuple[float, ...]
    clear_step: bool = False


def find_block_size(memo: Memo, reading: Reading, quick: bool = False) -> BlockEvidence:
    """quick: on the first samples, and only by the first sign. Undecided: the usual size with the clearest step."""
    sizes = [replace(reading, block_size=size) for size in range(SMALLEST, LARGEST + 1)]
    ranked = contest(memo, sizes, lambda one: abs(one.block_size - reading.block_size), not quick)
    left = tuple(sorted(one.reading.block_size for one in ranked if not one.excluded))
    if quick:
        size = reading.block_size if reading.block_size in left else ranked[0].reading.block_size
        return BlockEvidence(size, False, tuple(ranked), left, {}, ())
    table = _long_table(memo, reading, max(left) + 3)
    steps = {size: _step(table, size) for size in left}
    curve = tuple(round(float(v), 4) for v in table.nanmean(0))
    step = _clear_step(steps)
    clear = step or (left[0] if len(left) == 1 else None)
    if clear is not None:
        return BlockEvidence(clear, True, tuple(ranked), left, steps, curve, step is not None)
    candidates = [size for size in USUAL_BLOCKS if size in left] or list(left)
    size = max(candidates, key=lambda one: steps[one][0])
    return BlockEvidence(size, False, tuple(ranked), left, steps, curve)


def _long_table(memo: Memo, reading: Reading, rows: int) -> torch.Tensor:
    """[sequences, draft positions]: position 1, ... ; a drafter that predicts from the anchor has one more."""
    long = replace(reading, block_size=rows)
    table = torch.cat([memo.table(long, i) for i in range(memo.groups)])
    return table[:, int(reading.sample_from_anchor) :]


def _step(table: torch.Tensor, size: int) -> Step:
    fall = table[:, size - 3 : size] - table[:, size - 2 : size + 1]
    excess = fall[:, 1] - (fall[:, 0] + fall[:, 2]) / 2
    return mean_and_error(excess) if (~excess.isnan()).any() else (0.0, float("inf"))


def _clear_step(steps: dict[int, Step]) -> int | None:
    order: Sequence[int] = sorted(steps, key=lambda one: -steps[one][0])
    excess, error = steps[order[0]]
    second = steps[order[1]][0] if len(order) > 1 else 0.0
    return order[0] if excess > max(CLEAR * error, NO_STEP) and excess - second > 2 * error else None
