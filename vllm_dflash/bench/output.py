# SPDX-License-Identifier: Apache-2.0
"""The result as one text, and as files."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vllm_dflash.bench import report
from vllm_dflash.bench.conditions import without_folders
from vllm_dflash.bench.plot import plot
from vllm_dflash.bench.rows import Row


def as_text(
    rows: Sequence[Row],
    results: Sequence[Mapping[str, Any]],
    conditions: Mapping[str, Any],
    token_text: Callable[[int], str],
) -> str:
    """Table, acceptance by position and kind of prompt, notes, conditions, as Markdown."""
    parts = [report.table(rows)]
    if positions := report.by_position(rows):
        parts.append(f"Accepted share by position in the draft:\n\n{positions}")
    if categories := report.by_category(rows):
        parts.append(f"Acceptance length by kind of prompt:\n\n{categories}")
    lines = [*report.notes(rows, results, token_text), *_conditions(results, conditions)]
    parts.append("\n".join(f"  - {line.strip()}" if line.startswith(" ") else f"- {line}" for line in lines))
    return without_folders("\n\n".join(parts))


def _conditions(results: Sequence[Mapping[str, Any]], conditions: Mapping[str, Any]) -> list[str]:
    versions, options = conditions["versions"], conditions["options"]
    dtypes = ", ".join(dict.fromkeys(result["dtype"] for result in results if result.get("dtype")))
    return [
        f"vLLM {versions['vllm']}, torch {versions['torch']}, vllm-dflash {versions['vllm-dflash']} "
        f"({conditions['commit'] or 'no checkout'}); {conditions['device']}; {dtypes or 'no dtype'}",
        f"at most {options['output_len']} tokens a prompt, temperature {options['temperature']:g}, "
        f"{options['repeats']} runs, seed {options['seed']}; {conditions['date']}, "
        f"{conditions['seconds']} s in all",
    ]


def save(
    folder: Path,
    rows: Sequence[Row],
    results: Sequence[Mapping[str, Any]],
    conditions: Mapping[str, Any],
    text: str,
) -> list[Path]:
    """Writes results.json, table.md and, where matplotlib is installed, plot.png; returns their paths."""
    content = {
        "conditions": conditions,
        "rows": [asdict(row) for row in rows],
        "methods": [_without_outputs(result) for result in results],
    }
    files = [folder / name for name in ("results.json", "table.md", "plot.png")]
    files[0].write_text(without_folders(json.dumps(content, indent=1, default=str)) + "\n")
    files[1].write_text(f"`{conditions['command']}`\n\n{text}\n")
    try:
        plot(rows, f"{conditions['device']}, vLLM {conditions['versions']['vllm']}", files[2])
    except ImportError:
        files.pop()
    return files


def _without_outputs(result: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs are long: a hash says whether two runs made the same."""
    points = [
        {**{k: v for k, v in point.items() if k != "outputs"}, "outputs_sha256": _digest(point["outputs"])}
        for point in result.get("points", [])
    ]
    return {**result, "points": points}


def _digest(outputs: Sequence[Sequence[int]]) -> str:
    return hashlib.sha256(json.dumps(outputs).encode()).hexdigest()
