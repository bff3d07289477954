# SPDX-License-Identifier: Apache-2.0
"""The table in words: aligned text that is also Markdown."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import Any

from vllm_dflash.bench.rows import Row, Spread

SHOWN_DIFFERENCES = 6
FEW_RUNNING = 0.95
MUCH_OTHER_LOAD = 0.05
REASON_LENGTH = 240
HEADINGS = (
    "running",
    "method",
    "tokens/s (min..max)",
    "ms a step (min..max)",
    "acceptance length",
    "acceptance rate",
    "speed-up",
    "break-even length",
    "KV pool, tokens",
)


def table(rows: Sequence[Row]) -> str:
    return _align(HEADINGS, [_cells(row) for row in rows])


def by_position(rows: Sequence[Row]) -> str:
    """Share of verified blocks in which the draft token at each position was accepted; "" without drafts."""
    drafted = [row for row in rows if row.rate_by_position]
    if not drafted:
        return ""
    most = max(len(row.rate_by_position) for row in drafted)
    heads = ("running", "method", *(str(i + 1) for i in range(most)))
    return _align(heads, [[str(r.concurrency), r.label, *_filled(r.rate_by_position, most)] for r in drafted])


def by_category(rows: Sequence[Row]) -> str:
    """Acceptance length for each category of prompts; empty when there is only one."""
    drafted = [row for row in rows if row.length_by_category]
    names = sorted({name for row in drafted for name in row.length_by_category})
    if len(names) < 2:
        return ""
    body = [
        [str(r.concurrency), r.label, *(_number(r.length_by_category.get(name), 2) for name in names)] for r in drafted
    ]
    return _align(("running", "method", *names), body)


def notes(rows: Sequence[Row], results: Sequence[Mapping[str, Any]], token_text: Callable[[int], str]) -> list[str]:
    """What belongs beside the table: failures, full pools, differing outputs, the plugin's own words."""
    said = [f"{r['label']}: {r['plugin']}" for r in results if r.get("plugin")]
    for row in rows:
        if row.error is not None:
            said.append(f"{row.label} did not run: {shorten(row.error, REASON_LENGTH)}")
        if row.preemptions:
            said.append(f"{row.label}, {row.concurrency} running: {row.preemptions} preemptions")
        if row.concurrency and row.running is not None and row.running < FEW_RUNNING * row.concurrency:
            said.append(
                f"{row.label}: only {row.running:.1f} of {row.concurrency} requests ran at once, "
                "so its ms a step and break-even are not those of a full batch"
            )
    for result in results:
        for point in result.get("points", []):
            said += _output_notes(result["label"], point, token_text)
    return said


def _output_notes(label: str, point: Mapping[str, Any], token_text: Callable[[int], str]) -> list[str]:
    where = f"{label}, {point['concurrency']} running"
    total = len(point["outputs"])
    said = []
    if (point.get("other_load") or 0) > MUCH_OTHER_LOAD:
        said.append(
            f"{where}: other processes took {point['other_load']:.0%} of the machine's CPU time while this was "
            "measured; its times say little"
        )
    if point["unstable"]:
        said.append(f"{where}: {point['unstable']} of {total} outputs changed between its own repeats")
    found = sorted(point["differences"], key=lambda d: -abs(d["gap"] or 0.0))
    if point["compared"] and not found:
        said.append(f"{where}: all {total} greedy outputs equal those without speculation")
    if found:
        gaps = [abs(d["gap"]) for d in found if d["gap"] is not None]
        most = f"; largest logit gap {max(gaps):.4f}" if gaps else ""
        said.append(f"{where}: {len(found)} of {total} greedy outputs differ from those without speculation{most}")
    for d in found[:SHOWN_DIFFERENCES]:
        a, b = (_token(d[key], token_text) for key in ("expected", "found"))
        place = f"prompt {d['prompt']}, output token {d['position']}"
        said.append(f"  {place}: {a} without, {b} with; {_gap(d['gap'])}")
    if len(found) > SHOWN_DIFFERENCES:
        said.append(f"  and {len(found) - SHOWN_DIFFERENCES} more (results.json has all)")
    return said


def _gap(gap: float | None) -> str:
    return "logit gap not known" if gap is None else f"logit gap {gap:.4f}"


def _token(token: int | None, token_text: Callable[[int], str]) -> str:
    return "end" if token is None else f"{token} {token_text(token)!r}"


def _cells(row: Row) -> list[str]:
    if row.error is not None:
        return ["-", row.label, "did not run", *["-"] * (len(HEADINGS) - 3)]
    return [
        str(row.concurrency),
        row.label,
        _spread(row.tokens_per_s, 1),
        _spread(row.step_ms, 2),
        _number(row.acceptance_length, 2),
        "-" if row.acceptance_rate is None else f"{row.acceptance_rate:.1%}",
        _number(row.speed_up, 2),
        _number(row.break_even, 2),
        f"{row.kv_tokens:,}" if row.kv_tokens else "-",
    ]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _spread(value: Spread | None, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value.middle:.{digits}f} ({value.low:.{digits}f}..{value.high:.{digits}f})"


def _filled(rates: Sequence[float], length: int) -> list[str]:
    return [f"{rate:.2f}" for rate in rates] + ["-"] * (length - len(rates))


def _align(headings: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Numbers to the right, the method's name (second column) to the left."""
    widths = [max(len(row[i]) for row in [headings, *body]) for i in range(len(headings))]
    rule = ["-" * width if i == 1 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    padded = [[_pad(cell, widths[i], i) for i, cell in enumerate(line)] for line in (headings, rule, *body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def _pad(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 1 else cell.rjust(width)
