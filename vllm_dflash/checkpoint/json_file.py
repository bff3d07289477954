# SPDX-License-Identifier: Apache-2.0
"""Read one JSON object from an untrusted file."""

import json
from pathlib import Path
from typing import Any, NoReturn

from vllm_dflash.errors import UserError

LARGEST_JSON_BYTES = 64 * 2**20


def read_bytes(path: Path, limit: int = LARGEST_JSON_BYTES) -> bytes:
    """Whole file, at most `limit` bytes. Raises UserError when it cannot be read or is longer."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path.name}: {_reason(error)}", file=path) from None
    if len(data) > limit:
        raise UserError(f"{path.name} is too long", needed=f"at most {limit} bytes", file=path)
    return data


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {repeated[:80]!r} occurs twice")
    return values


def parse_object(data: bytes, path: Path, what: str | None = None) -> dict[str, Any]:
    """A JSON object with unique keys and finite numbers. Raises UserError otherwise, naming `what`."""
    name = what or path.name
    try:
        value = json.loads(
            data.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates
        )
    except RecursionError:
        raise UserError(f"{name} is nested too deeply", file=path) from None
    except ValueError as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise UserError(f"{name} is not valid JSON: {reason}", file=path) from None
    if not isinstance(value, dict):
        raise UserError(f"{name} is not a JSON object", found=None, needed="{...}", file=path)
    return value


def read_json_object(path: Path) -> dict[str, Any]:
    return parse_object(read_bytes(path), path)
