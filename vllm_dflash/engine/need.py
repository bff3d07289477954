# SPDX-License-Identifier: Apache-2.0
"""One thing that this plugin needs of vLLM, and how it is looked for."""

import importlib
import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple


class Found(NamedTuple):
    """What stands behind a name. parameters: of a callable, in order; fields: of a dataclass; mentioned: attributes
    that a function's code reads or sets.
    """

    parameters: tuple[str, ...]
    fields: tuple[str, ...]
    mentioned: tuple[str, ...]


@dataclass(frozen=True)
class Need:
    """A name that must exist.

    parameters: that it must take first, in this order (None: any).
    accepts: parameters that it must take by name, wherever they stand.
    fields: that it must have as a dataclass.
    mentions: attributes that its code must use, as an `__init__` sets them on the instance.
    """

    module: str
    name: str
    parameters: tuple[str, ...] | None = None
    accepts: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """None when the installed vLLM satisfies it, else what is wrong."""
        try:
            found: Any = importlib.import_module(self.module)
            for part in self.name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            return self.problem(None)
        return self.problem(self._look_at(found))

    def problem(self, found: Found | None) -> str | None:
        """What is wrong with what was found under this name (None: nothing was), or None."""
        place = f"{self.module}:{self.name}"
        if found is None:
            return f"{place} is missing"
        leading = self.parameters or ()
        if found.parameters[: len(leading)] != leading or not set(self.accepts) <= set(found.parameters):
            needed = ", ".join([*leading, *self.accepts])
            return f"{place} takes ({', '.join(found.parameters)}), needed ({needed})"
        for kind, needed_names, names in (
            ("field", self.fields, found.fields),
            ("use of", self.mentions, found.mentioned),
        ):
            if lacking := [name for name in needed_names if name not in names]:
                return f"{place} has no {kind} {', '.join(lacking)}"
        return None

    def _look_at(self, found: Any) -> Found:
        asks_for_parameters = self.parameters is not None or bool(self.accepts)
        code = getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None
        return Found(
            tuple(inspect.signature(found).parameters) if asks_for_parameters else (),
            tuple(getattr(found, "__dataclass_fields__", ())),
            () if code is None else code.co_names,
        )


def first_problem(needs: tuple[Need, ...]) -> str | None:
    """The first thing of vLLM that is not as this plugin needs it, or None."""
    return next((problem for need in needs if (problem := need.missing()) is not None), None)
