# SPDX-License-Identifier: Apache-2.0
"""Looks at growing evidence, on made-up scores: what is decided, what must stay open, how often a look is fooled."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
import torch

from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.fit.compare import student
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.parts import graft, part_of
from vllm_dflash.recover.refine import refine
from vllm_dflash.recover.verdict import Verdict

ROPE = Rope(1e4, 16)
PLAIN = Reading((1, 4), 0, (DraftLayer(16, True, ROPE), DraftLayer(None, False, ROPE)), 8)
STEP = 48


class Made:
    """Scores of `quality`, with noise of the reading and sequence; STEP sequences more a look, `looks` of them."""

    blocks = 64

    def __init__(
        self, quality: Callable[[Reading], float], noise: float = 0.03, looks: int = 4, seed: int = 0, fields: int = 99
    ) -> None:
        self.quality, self.noise, self.left, self.seed, self.fields = quality, noise, looks, seed, fields
        self.sequences, self.asked = 0, 0

    def grow(self, readings: Sequence[Reading]) -> bool:
        self.left -= 1
        self.sequences += STEP if self.left >= 0 else 0
        return self.left >= 0

    def late(self) -> bool:
        self.fields -= 1
        return self.fields < 0

    def table(self, reading: Reading) -> torch.Tensor:
        self.asked += 1
        generator = torch.Generator().manual_seed(crc32(f"{reading.key()}{self.seed}".encode()))
        noise = self.noise * torch.randn(self.sequences, 1, generator=generator).double()
        return noise.expand(-1, reading.draft_tokens) + self.quality(reading)


def verdict(name: str, *rivals: Reading, ranking: Any = ()) -> Verdict:
    value = part_of(name)
    others = tuple(value(one) for one in rivals)
    return Verdict(name, value(PLAIN), "habit", 0.0, 1.0, others[0], others, "", ranking, rivals)


def tap(layer: int) -> Reading:
    return graft(PLAIN, "tap_layer_ids.0", replace(PLAIN, tap_layer_ids=(layer, 4)))


TAPS = verdict("tap_layer_ids.0", tap(0), tap(2))


def looked(made: Made, *verdicts: Verdict) -> tuple[Reading, dict[str, Verdict], list[tuple[str, int]]]:
    ticks: list[tuple[str, int]] = []
    reading, found = refine(PLAIN, verdicts, made, lambda name, look: ticks.append((name, look)))
    return reading, found, ticks


def test_more_samples_decide() -> None:
    reading, found, ticks = looked(Made(lambda r: -0.02 * abs(r.tap_layer_ids[0] - 1)), TAPS)
    one = found["tap_layer_ids.0"]
    assert reading == PLAIN and one.decided and one.value == 1 and one.others == ()
    assert one.margin is not None and one.margin > 3 * (one.error or 0) and one.runner_up in (0, 2)
    assert "sequences" in one.note and ticks[0] == ("tap_layer_ids.0", 1)


def test_a_rival_that_is_better_takes_over() -> None:
    reading, found, _ = looked(Made(lambda r: -0.03 * abs(r.tap_layer_ids[0] - 2)), TAPS)
    one = found["tap_layer_ids.0"]
    assert reading == tap(2) and one.decided and one.value == 2


def test_what_makes_no_difference_stays_open_and_costs_little() -> None:
    made = Made(lambda r: 0.0, noise=1e-5)
    reading, found, ticks = looked(made, TAPS)
    one = found["tap_layer_ids.0"]
    assert reading == PLAIN and not one.decided and set(one.others) == {0, 2} and "alike" in one.note
    assert len(ticks) == 1


def test_a_difference_that_does_not_matter_decides_nothing() -> None:
    """0.0015 nats, certain to many standard errors: on other texts it may be the other way round."""
    for sign in (1, -1):
        made = Made(lambda r, sign=sign: -0.0015 * sign * abs(r.tap_layer_ids[0] - 1), noise=1e-4)
        reading, found, _ = looked(made, verdict("tap_layer_ids.0", tap(2)))
        assert reading == PLAIN and not found["tap_layer_ids.0"].decided


def test_what_the_search_saw_to_be_alike_is_not_looked_at() -> None:
    masks = [replace(PLAIN, mask_token_id=i) for i in (1, 2)]
    same = verdict("mask_token_id", *masks, ranking=((0, 0.0, 0.0), (1, 0.0, 0.0), (2, -0.0001, 0.0001)))
    made = Made(lambda r: 0.0)
    assert looked(made, same)[1] == {} and made.asked == 0


def test_the_best_of_the_search_is_not_alike_to_the_value_that_was_chosen() -> None:
    """A ranking says 0 ± 0 of its best, which is another value than the usual one here."""
    ranking = ((2, 0.0, 0.0), (1, -0.0007, 0.004), (0, -0.01, 0.01))
    made = Made(lambda r: -0.02 * abs(r.tap_layer_ids[0] - 1))
    assert looked(made, verdict("tap_layer_ids.0", tap(0), tap(2), ranking=ranking))[1]["tap_layer_ids.0"].decided


def test_the_block_size_is_left_alone() -> None:
    sizes = verdict("block_size", replace(PLAIN, block_size=9))
    made = Made(lambda r: -0.5 * (r.block_size != 8))
    assert looked(made, sizes)[1] == {} and made.asked == 0


def test_looks_are_not_chances_to_be_fooled() -> None:
    """Equal rivals, in 400 runs of 6 looks: hardly any is struck out. At 1 of 100 a look, some 20 would be."""
    struck = 0
    for seed in range(400):
        found = looked(Made(lambda r: 0.0, noise=0.1, looks=6, seed=seed), verdict("tap_layer_ids.0", tap(2)))[1]
        struck += found["tap_layer_ids.0"].decided
    assert struck <= 3


def test_time_that_ends_in_a_look_leaves_the_other_fields_as_they_were() -> None:
    masks = verdict("mask_token_id", replace(PLAIN, mask_token_id=5))
    made = Made(lambda r: -0.05 * (r.mask_token_id != 0) - 0.05 * abs(r.tap_layer_ids[0] - 1), looks=1, fields=1)
    _, found, _ = looked(made, TAPS, masks)
    assert set(found) == {"mask_token_id"} and found["mask_token_id"].decided


def test_causality_is_compared_alone_and_as_the_search_found_it() -> None:
    """The rival came with another block size, which by itself is worse; the flag alone is not."""
    layers = (replace(PLAIN.layers[0], causal=False), PLAIN.layers[1])
    flipped = replace(PLAIN, layers=layers, block_size=5)
    made = Made(lambda r: -0.1 * (r.block_size != 8), noise=1e-4)
    reading, found, _ = looked(made, verdict("layers.0.causal", flipped))
    assert reading == PLAIN and found["layers.0.causal"].others == (False,)


def test_a_value_that_came_along_with_another_fields_move_is_not_decided_by_that() -> None:
    """Both flags flip together; the second by itself makes no difference."""
    both = replace(PLAIN, layers=tuple(replace(one, causal=not one.causal) for one in PLAIN.layers))
    made = Made(lambda r: -0.1 * r.layers[0].causal, noise=0.001)
    _, found, _ = looked(made, verdict("layers.0.causal", both), verdict("layers.1.causal", both))
    assert found["layers.0.causal"].decided and found["layers.0.causal"].value is False
    assert not found["layers.1.causal"].decided


def test_grafts_take_along_what_was_searched_together() -> None:
    other = Reading((4, 0), 3, (DraftLayer(8, False, ROPE), DraftLayer(8, True, ROPE)), 5, True)
    assert graft(PLAIN, "tap_layer_ids.0", other).tap_layer_ids == (4, 1)
    assert graft(PLAIN, "layers.0.window", other).layers == (other.layers[0], PLAIN.layers[1])
    causal = graft(PLAIN, "layers.0.causal", other)
    assert [(one.window, one.causal) for one in causal.layers] == [(16, False), (None, True)] and causal.block_size == 5
    assert graft(PLAIN, "sample_from_anchor", other).sample_from_anchor
    moved = replace(PLAIN, layers=tuple(replace(one, rope=Rope(5e5, 16)) for one in PLAIN.layers))
    assert graft(PLAIN, "rope_theta", moved) == moved and part_of("rope_theta")(moved) == 5e5


@pytest.mark.parametrize(
    "count, chance, t",
    [
        (6, 1e-3, 5.893), (11, 1e-3, 4.144), (31, 1e-3, 3.385), (1000, 1e-3, 3.098),
        (11, 5e-4, 4.587), (41, 5e-4, 3.551), (121, 5e-4, 3.373),
    ],
)  # fmt: skip
def test_the_bound_is_students(count: int, chance: float, t: float) -> None:
    """Upper points of Student's t with count - 1 degrees of freedom, from printed tables."""
    assert student(count, chance) == pytest.approx(t, rel=0.02)
