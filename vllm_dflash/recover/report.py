# SPDX-License-Identifier: Apache-2.0
"""The ranking as text."""

from collections.abc import Iterator, Sequence
from typing import Any

from vllm_dflash.recover.verdict import Verdict

SHOWN = 4


def lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One block of lines a field: value, margin, the candidates that came closest."""
    width = max(len(one.name) for one in verdicts)
    for one in verdicts:
        state = {"habit": "UNDECIDED", "search": "found"}.get(one.origin, f"from {one.origin}")
        margin = "" if one.margin is None else f"{one.margin:+.4f} ± {one.error:.4f} over {_text(one.runner_up)}"
        yield f"{one.name:<{width}}  {_text(one.value):<10}  {state:<12}  {margin}".rstrip()
        if one.ranking:
            shown = "  ".join(f"{_text(v)} {behind:+.4f}±{error:.4f}" for v, behind, error in one.ranking[:SHOWN])
            yield f"{'':<{width}}  {shown}"
        if one.others:
            more = f", ... ({len(one.others)})" if len(one.others) > 12 else ""
            yield f"{'':<{width}}  not excluded: {', '.join(_text(v) for v in one.others[:12])}{more}"
        if one.note:
            yield f"{'':<{width}}  {one.note}"
    undecided = [one.name for one in verdicts if not one.decided]
    yield ""
    yield "undecided, the usual value was written: " + ", ".join(undecided) if undecided else "every field is decided"


def _text(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
