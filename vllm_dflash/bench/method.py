# SPDX-License-Identifier: Apache-2.0
"""The methods that are compared."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

NONE = "none"
STOCK = {"VLLM_DFLASH": "0"}


@dataclass(frozen=True)
class Method:
    """A model, how it is sped up (None: not at all), and variables to set for its process."""

    label: str
    model: str
    speculative_config: dict[str, Any] | None = None
    variables: dict[str, str] = field(default_factory=dict)


def speculative(model: str, config: dict[str, Any]) -> Method:
    """A method from the JSON of vLLM's --speculative-config."""
    name = config.get("method") or config.get("model") or "speculative"
    k = config.get("num_speculative_tokens")
    return Method(f"{name} k={k}" if k else str(name), model, config)


def with_stock_twins(methods: Iterable[Method]) -> list[Method]:
    """After every DFlash method the same one with this plugin turned off."""
    out: list[Method] = []
    for method in methods:
        out.append(method)
        if (method.speculative_config or {}).get("method") == "dflash":
            label = method.label.replace("dflash", "dflash-stock", 1)
            out.append(replace(method, label=label, variables=method.variables | STOCK))
    return out


def distinct(methods: Iterable[Method]) -> list[Method]:
    """The same methods with labels that differ."""
    seen: dict[str, int] = {}
    out = []
    for method in methods:
        seen[method.label] = count = seen.get(method.label, 0) + 1
        out.append(method if count == 1 else replace(method, label=f"{method.label} #{count}"))
    return out
