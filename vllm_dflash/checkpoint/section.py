# SPDX-License-Identifier: Apache-2.0
"""One JSON object of a checkpoint, read field by field: types checked, place of each value kept."""

import math
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.errors import UserError

T = TypeVar("T")
LARGEST_INTEGER = 2**53  # JSON numbers beyond it do not survive other readers

_repr = reprlib.Repr()
_repr.maxstring, _repr.maxother, _repr.maxlist, _repr.maxdict, _repr.maxlong = 120, 120, 8, 8, 40


class Brief:
    """Shows a value in an error, cut to a readable length."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return _repr.repr(self.value)


class Answer(NamedTuple, Generic[T]):
    """A value and where it came from."""

    value: T
    source: Source


class Section:
    """A JSON object with its file and the dotted prefix of its keys. A null value counts as absent.

    Readers return None for an absent key and raise UserError for a value of the wrong kind.
    """

    def __init__(self, values: Mapping[str, Any], path: Path, prefix: str = "") -> None:
        self.values, self.path, self.prefix = values, path, prefix
        self.read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def dotted(self, key: str) -> str:
        return f"{self.prefix}{key}"

    def source(self, key: str, rule: str = "") -> Source:
        return Source(file=self.path.name, key=self.dotted(key), rule=rule)

    def refuse(self, message: str, key: str, needed: str) -> NoReturn:
        raise UserError(
            message, field=self.dotted(key), found=Brief(self.values.get(key)), needed=needed, file=self.path
        )

    def missing(self, key: str, needed: str) -> NoReturn:
        raise UserError(f"{self.dotted(key)} is missing", needed=needed, file=self.path)

    def raw(self, key: str) -> Any:
        self.read.add(key)
        return self.values.get(key)

    def _answer(self, key: str, value: T) -> Answer[T]:
        return Answer(value, self.source(key))

    def integer(self, key: str, minimum: int = 0, needed: str | None = None) -> Answer[int] | None:
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= LARGEST_INTEGER:
            self.refuse(f"{key} is not usable", key, needed or f"an integer >= {minimum}")
        return self._answer(key, value)

    def number(self, key: str, positive: bool = True) -> Answer[float] | None:
        value = self.raw(key)
        if value is None:
            return None
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
        if not fits or not math.isfinite(value) or (positive and value <= 0):
            self.refuse(f"{key} is not usable", key, "a positive number" if positive else "a number")
        return self._answer(key, float(value))

    def boolean(self, key: str) -> Answer[bool] | None:
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, bool):
            self.refuse(f"{key} is not usable", key, "true or false")
        return self._answer(key, value)

    def text(self, key: str) -> Answer[str] | None:
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.isprintable():
            self.refuse(f"{key} is not usable", key, "a string")
        return self._answer(key, value)

    def items(self, key: str, kind: type[T], needed: str) -> Answer[tuple[T, ...]] | None:
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(v) is kind for v in value):
            self.refuse(f"{key} is not usable", key, needed)
        return self._answer(key, tuple(value))

    def strings(self, key: str) -> Answer[tuple[str, ...]] | None:
        return self.items(key, str, "a list of strings")

    def integers(self, key: str) -> Answer[tuple[int, ...]] | None:
        return self.items(key, int, "a list of integers")

    def section(self, key: str) -> "Section | None":
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse(f"{key} is not usable", key, "a JSON object")
        return Section(value, self.path, f"{self.dotted(key)}.")

    def unread(self) -> Iterator[str]:
        """Keys that no rule has looked at, dotted."""
        return (self.dotted(key) for key in self.values if key not in self.read)


def agree(field: str, path: Path, *answers: Answer[T] | None) -> Answer[T] | None:
    """The one value that several places give; the first place is kept as its source.

    Raises UserError when two places contradict each other: no rule says which one the trainer meant.
    """
    given = [answer for answer in answers if answer is not None]
    for other in given[1:]:
        if other.value != given[0].value:
            raise UserError(
                f"{field} is written twice and differs: {given[0].source.key} = {Brief(given[0].value)!r}, "
                f"{other.source.key} = {Brief(other.value)!r}",
                needed="one value: delete the wrong one",
                file=path,
            )
    return given[0] if given else None


def default(value: T, rule: str) -> Answer[T]:
    return Answer(value, Source(rule=rule))
