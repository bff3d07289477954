# SPDX-License-Identifier: Apache-2.0
"""Halving, choice among equals and the signs of the block size, on made-up scores: no model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.fit.compare import compare
from vllm_dflash.fit.reading import Reading
from vllm_dflash.fit.score import deal
from vllm_dflash.recover.block_size import find_block_size
from vllm_dflash.recover.candidates import Space
from vllm_dflash.recover.known import Known
from vllm_dflash.recover.memo import Memo
from vllm_dflash.recover.search import choose, contest
from vllm_dflash.recover.verdict import judge

PLAIN = Reading((0,), 0, (DraftLayer(None, False, Rope(1e4, 16)),), 8)
CAUSAL = replace(PLAIN, layers=(DraftLayer(None, True, Rope(1e4, 16)),))
SIZES = [len(one) for one in deal([9] * 48)]


class Made:
    """Scores of 48 sequences: `quality` of the reading at each draft position, noise of the reading and sequence.

    fall: by draft position, zero-based, to the next one.
    """

    def __init__(
        self, quality: Callable[[Reading], float], noise: float = 0.1, fall: Callable[[int], float] = lambda i: 0.1
    ) -> None:
        self.quality, self.noise, self.fall, self.asked = quality, noise, fall, 0

    @property
    def groups(self) -> int:
        return len(SIZES)

    def _noise(self, reading: Reading, group: int, positions: int) -> torch.Tensor:
        seed = hash((reading.mask_token_id, reading.block_size, group)) % 2**31
        return self.noise * torch.randn(SIZES[group], positions, generator=torch.Generator().manual_seed(seed))

    def table(self, reading: Reading, group: int) -> torch.Tensor:
        self.asked += SIZES[group]
        return self._noise(reading, group, 1).expand(-1, reading.draft_tokens) + self.quality(reading)

    def falls(self, reading: Reading, group: int) -> torch.Tensor:
        count = reading.draft_tokens - 1
        return self._noise(reading, group, count) + torch.tensor([self.fall(i) for i in range(count)])


def memo(made: Made) -> Memo:
    return cast(Memo, made)


def masks(count: int) -> list[Reading]:
    return [replace(PLAIN, mask_token_id=i) for i in range(count)]


def by_id(reading: Reading) -> int:
    return reading.mask_token_id


def test_groups_double_and_mix_lengths() -> None:
    assert SIZES == [3, 3, 6, 12, 24] and [len(one) for one in deal([1] * 8)] == [3, 3, 2]
    groups = deal(list(range(48)))
    assert sorted(i for one in groups for i in one) == list(range(48))
    assert all(max(one) >= 32 and min(one) < 24 for one in groups)


def test_the_best_is_found_at_a_fraction_of_the_cost() -> None:
    made = Made(lambda r: 0.0 if r.mask_token_id == 33 else -0.3)
    ranked = contest(memo(made), masks(60), by_id, 5)
    assert ranked[0].reading.mask_token_id == 33 and len(ranked) == 60
    assert choose(ranked, by_id).mask_token_id == 33
    assert made.asked < 60 * 48 / 2


def test_of_equals_the_most_usual_is_chosen_and_the_others_stay_open() -> None:
    made = Made(lambda r: -0.5 * (r.mask_token_id > 2))
    ranked = contest(memo(made), masks(9), by_id, 5)
    chosen = choose(ranked, by_id)
    assert chosen.mask_token_id == 0
    verdict = judge("mask_token_id", ranked, chosen, by_id)
    assert not verdict.decided and set(verdict.others) == {1, 2}


def test_a_clear_field_is_decided_with_its_margin() -> None:
    made = Made(lambda r: -0.5 * (r.mask_token_id != 4))
    ranked = contest(memo(made), masks(9), by_id, 5)
    verdict = judge("mask_token_id", ranked, choose(ranked, by_id), by_id)
    assert verdict.decided and verdict.value == 4 and verdict.others == ()
    assert verdict.margin == pytest.approx(0.5, abs=0.1) and verdict.error == pytest.approx(
        0.1 * 2**0.5 / 48**0.5, rel=0.3
    )


def test_equal_but_for_rounding_is_not_excluded() -> None:
    made = Made(lambda r: -1e-6 * r.mask_token_id, noise=0.0)
    assert not any(one.excluded for one in compare(made, masks(5), made.groups))


def late(step: int, size: float) -> Callable[[int], float]:
    """A block of `step` rows drafts positions 0 to step - 2."""
    return lambda i: 0.1 + size * (i == step - 2)


def test_block_size_by_the_step_of_a_causal_drafter() -> None:
    found = find_block_size(memo(Made(lambda r: 0.0, fall=late(10, 0.3))), CAUSAL, 5)
    assert (found.size, found.decided, found.clear_step) == (10, True, True)


def test_a_dip_is_no_step() -> None:
    """The likelihood comes back: rows past the trained block may do that, trained ones do not."""
    dip = {17: 0.6, 18: -0.4, 19: -0.3}
    found = find_block_size(memo(Made(lambda r: 0.0, fall=lambda i: dip.get(i, 0.02))), CAUSAL, 5)
    assert not found.decided and found.steps[19][0] > 0.5


def test_block_size_of_a_causal_drafter_without_a_step_is_open() -> None:
    found = find_block_size(memo(Made(lambda r: 0.0)), CAUSAL, 5)
    assert not found.decided and found.size == 16 and len(found.left) == 29


def test_block_size_by_the_first_positions() -> None:
    found = find_block_size(memo(Made(lambda r: -0.2 * abs(r.block_size - 6), noise=0.05)), PLAIN, 5)
    assert (found.size, found.decided, found.left) == (6, True, (6,))


def test_block_size_undecided_is_the_longest_usual_one_that_the_first_positions_bear() -> None:
    made = Made(lambda r: -0.2 * max(0, r.block_size - 9), noise=0.05)
    found: Any = find_block_size(memo(made), PLAIN, 5)
    assert not found.decided and found.size == 8 and {4, 8} <= set(found.left) <= {4, 5, 6, 7, 8, 9}


def test_block_sizes_are_compared_over_all_positions_that_both_draft() -> None:
    """A block of 16 spoils positions 5 to 7 only."""

    class Late(Made):
        def table(self, reading: Reading, group: int) -> torch.Tensor:
            late = (torch.arange(reading.draft_tokens) > 3) * (reading.block_size > 8)
            return super().table(reading, group) - 0.3 * late

    found = find_block_size(memo(Late(lambda r: 0.0, noise=0.05)), PLAIN, 5)
    assert not found.decided and found.size == 8 and max(found.left) == 8


def test_of_windows_alike_the_power_of_two_is_written() -> None:
    """96 is no better than 128 by anything but noise; a window that the other layer has counts for more."""
    rope = Rope(1e4, 16)
    space = Space(Known(), 8, 1, 3, (0,), (rope,), 300)
    full, sliding = DraftLayer(None, False, rope), DraftLayer(128, True, rope)

    def chosen(second: DraftLayer) -> int | None:
        reading = replace(PLAIN, layers=(sliding, second, full))
        field = next(one for one in space.fields() if one.name == "layers.0")
        made = Made(lambda r: {96: 1e-6, 128: 0.0}.get(r.layers[0].window or 0, -1.0), noise=0.0)
        options = [one for one in field.options(reading) if one.layers[0].causal]
        return choose(compare(memo(made), options, made.groups), field.habit).layers[0].window

    assert chosen(replace(full, causal=True)) == 128
    assert chosen(sliding) == 128
    assert chosen(replace(sliding, window=96)) == 96
