# SPDX-License-Identifier: Apache-2.0
"""Speed-up and break-even, from results as the worker writes them."""

from typing import Any

import pytest

from vllm_dflash.bench.rows import Spread, rows

NO_CATEGORIES: dict[str, Any] = {"acceptance_by_category": {}}


def point(concurrency: int, walls: list[float], steps: list[float | None], drafts: int = 0) -> dict[str, Any]:
    counters = {"drafts": drafts, "drafted": 3 * drafts, "accepted": drafts, "preemptions": 0,
                "by_position": [drafts // 2, drafts // 2, 0] if drafts else []}  # fmt: skip
    repeats = [
        {"wall_s": wall, "tokens": 100, "steps": 9, "step_ms": step, "running": concurrency}
        for wall, step in zip(walls, steps, strict=True)
    ]
    return {"concurrency": concurrency, "repeats": repeats, "counters": counters, **NO_CATEGORIES}


NONE = {"label": "none", "kv_tokens": 1000,
        "points": [point(1, [4.0, 2.0, 5.0], [20.0, 10.0, 30.0]),
                   point(4, [1.0] * 3, [40.0] * 3)]}  # fmt: skip
DRAFT = {"label": "dflash k=3", "kv_tokens": 800,
         "points": [point(1, [2.0] * 3, [25.0] * 3, 50), point(4, [2.0] * 3, [100.0] * 3, 50)]}  # fmt: skip


def test_spread_is_median_least_and_greatest() -> None:
    assert Spread.of([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0)
    made = rows([NONE], "none")
    assert made[0].tokens_per_s == Spread(25.0, 20.0, 50.0)
    assert made[0].step_ms == Spread(20.0, 10.0, 30.0)


def test_speed_up_and_break_even_compare_at_the_same_concurrency() -> None:
    by_place = {(row.label, row.concurrency): row for row in rows([NONE, DRAFT], "none")}
    one, four = by_place["dflash k=3", 1], by_place["dflash k=3", 4]
    assert (one.speed_up, one.break_even) == (pytest.approx(2.0), pytest.approx(1.25))
    assert (four.speed_up, four.break_even) == (pytest.approx(0.5), pytest.approx(2.5))
    assert one.acceptance_length == pytest.approx(2.0)
    assert one.acceptance_rate == pytest.approx(1 / 3)
    assert (by_place["none", 4].speed_up, by_place["none", 4].break_even) == (1.0, 1.0)
    assert (one.kv_tokens, by_place["none", 1].kv_tokens) == (800, 1000)


def test_rows_are_grouped_by_concurrency_and_failures_come_last() -> None:
    failed = {"label": "mtp k=2", "kv_tokens": None, "error": "ValueError: no"}
    made = rows([NONE, failed, DRAFT], "none")
    assert [(row.label, row.concurrency) for row in made] == [
        ("none", 1), ("dflash k=3", 1), ("none", 4), ("dflash k=3", 4), ("mtp k=2", None),
    ]  # fmt: skip
    assert made[-1].error == "ValueError: no"


def test_without_a_baseline_there_is_no_speed_up() -> None:
    failed = {"label": "none", "kv_tokens": None, "error": "no memory"}
    assert [(row.speed_up, row.break_even) for row in rows([failed, DRAFT], "none")[:2]] == [(None, None)] * 2


def test_a_run_without_full_steps_has_no_break_even() -> None:
    short = {**DRAFT, "points": [point(1, [2.0], [None], 50)]}
    row = rows([NONE, short], "none")[1]
    assert row.speed_up == pytest.approx(2.0)
    assert (row.step_ms, row.break_even) == (None, None)
