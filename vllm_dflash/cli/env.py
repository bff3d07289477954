# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash env`: versions, device, compilers, compiled kernels, and whether the plugin will be active."""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from vllm_dflash.environment import collect


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for a bug report or a script")


def run(args: argparse.Namespace) -> int:
    found = collect() | {"plugin": plugin_state()}
    print(json.dumps(found, indent=2, default=str) if args.json else as_text(found))
    return 0


def plugin_state() -> dict[str, Any]:
    """How vLLM would find the plugin, and what the plugin says of each of vLLM's runners."""
    points = metadata.entry_points(group="vllm.general_plugins", name="dflash")
    chosen = os.environ.get("VLLM_PLUGINS")
    state: dict[str, Any] = {"entry point": next((point.value for point in points), None)}
    if state["entry point"] is None:
        state["state"] = "INACTIVE: vllm-dflash is not installed here as a package, so vLLM does not see it"
    elif chosen is not None and "dflash" not in chosen.split(","):
        state["state"] = f"INACTIVE: VLLM_PLUGINS={chosen} does not list dflash"
    else:
        state["state"] = _own_words()
    return state


def _own_words() -> Any:
    from vllm_dflash import plugin

    explain = getattr(plugin, "explain", None)
    try:
        if explain is not None:
            return explain()
        reason = plugin.inactive_reason()
    except Exception as problem:  # this command must work where everything else is broken
        return f"INACTIVE: {type(problem).__name__}: {problem}"
    return f"INACTIVE: {reason}" if reason else "ready"


def as_text(found: Mapping[str, Any]) -> str:
    return "\n".join(_lines(found, ""))


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            yield f"{indent}{name}:"
            yield from _lines(entry, indent + "  ")
        elif isinstance(entry, list) and entry:
            for i, item in enumerate(entry):
                yield from _lines({f"{name} {i}": item}, indent)
        else:
            yield f"{indent}{name}: {entry if entry or entry == 0 else '-'}"
