# SPDX-License-Identifier: Apache-2.0
"""The figures of the table, from the workers' results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from vllm_dflash.bench.acceptance import Counters


@dataclass(frozen=True)
class Spread:
    """Median of the repeats, and their least and greatest."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True)
class Row:
    """One method at one concurrency; with `error`, a method that could not run.

    speed_up: tokens/s over none's. break_even: step time over none's step time at the same concurrency, the
    acceptance length below which the method loses. running: requests that advanced in a step, on average.
    """

    label: str
    concurrency: int | None = None
    error: str | None = None
    tokens_per_s: Spread | None = None
    step_ms: Spread | None = None
    acceptance_length: float | None = None
    acceptance_rate: float | None = None
    rate_by_position: list[float] = field(default_factory=list)
    length_by_category: dict[str, float] = field(default_factory=dict)
    speed_up: float | None = None
    break_even: float | None = None
    kv_tokens: int | None = None
    running: float | None = None
    preemptions: int = 0


def rows(results: Sequence[Mapping[str, Any]], baseline: str) -> list[Row]:
    """A row for each method and concurrency, grouped by concurrency. Each result has a "label"."""
    made = [_row(result, point) for result in results for point in result.get("points", [])]
    base = {row.concurrency: row for row in made if row.label == baseline}
    compared = [_compare(row, base.get(row.concurrency)) for row in made]
    order = {c: i for i, c in enumerate(dict.fromkeys(row.concurrency for row in compared))}
    failed = [Row(result["label"], error=result["error"]) for result in results if "error" in result]
    return sorted(compared, key=lambda row: order[row.concurrency]) + failed


def _row(result: Mapping[str, Any], point: Mapping[str, Any]) -> Row:
    repeats = point["repeats"]
    steps = [r["step_ms"] for r in repeats if r["step_ms"] is not None]
    running = [r["running"] for r in repeats if r["running"] is not None]
    counters = Counters(**{**point["counters"], "by_position": tuple(point["counters"]["by_position"])})
    return Row(
        label=result["label"],
        concurrency=point["concurrency"],
        tokens_per_s=Spread.of([r["tokens"] / r["wall_s"] for r in repeats]),
        step_ms=Spread.of(steps) if steps else None,
        acceptance_length=counters.length,
        acceptance_rate=counters.rate,
        rate_by_position=counters.rate_by_position,
        length_by_category=dict(point["acceptance_by_category"]),
        kv_tokens=result["kv_tokens"],
        running=median(running) if running else None,
        preemptions=counters.preemptions,
    )


def _compare(row: Row, base: Row | None) -> Row:
    if base is None or base.tokens_per_s is None or row.tokens_per_s is None:
        return row
    steps = row.step_ms.middle / base.step_ms.middle if row.step_ms and base.step_ms else None
    return replace(row, speed_up=row.tokens_per_s.middle / base.tokens_per_s.middle, break_even=steps)
