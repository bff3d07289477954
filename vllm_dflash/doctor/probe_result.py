# SPDX-License-Identifier: Apache-2.0
"""What `doctor --probe` measured, and how it is shown. Light: imports neither torch nor transformers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Measured = tuple[float, float]  # value, standard error


@dataclass(frozen=True)
class Rates:
    """Greedy acceptance: length is accepted drafts + 1 a step, by_position the share of steps that accept each."""

    steps: int
    length: Measured
    by_position: tuple[Measured, ...]


@dataclass(frozen=True)
class Alternative:
    """Another reading. better: nats a drafted row by which it beats the config's reading, and the standard error.

    change: what to write into config.json for it. rates: measured for those that are clearly better, else None.
    """

    field: str
    name: str
    change: str
    better: Measured
    rates: Rates | None = None

    @property
    def told_apart(self) -> bool:
        """By more than two standard errors."""
        value, error = self.better
        return abs(value) > 2 * error


@dataclass(frozen=True)
class Probe:
    """floor: share of steps whose first draft a blind guess (the answers' most frequent token) would get right.

    log_likelihood: of the target's tokens, nats a drafted row, as the config is read.
    """

    prompts: int
    longest_context: int
    draft_tokens: int
    log_likelihood: float
    rates: Rates
    floor: float
    alternatives: tuple[Alternative, ...]
    windows_judged: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values only."""
        return {
            "prompts": self.prompts,
            "longest_context": self.longest_context,
            "draft_tokens": self.draft_tokens,
            "log_likelihood": round(self.log_likelihood, 4),
            "acceptance": _rates(self.rates),
            "floor": round(self.floor, 4),
            "windows_judged": self.windows_judged,
            "alternatives": [
                {
                    "field": one.field,
                    "name": one.name,
                    "change": one.change,
                    "better": _measured(one.better),
                    "acceptance": None if one.rates is None else _rates(one.rates),
                }
                for one in self.alternatives
            ],
        }

    def lines(self) -> Iterator[str]:
        length, error = self.rates.length
        yield f"what the probe measured ({self.prompts} prompts, contexts up to {self.longest_context}, greedy)"
        yield "  (± is two standard errors; = marks what these prompts do not tell apart)"
        yield f"  acceptance length  {length:.2f} ± {2 * error:.2f} with {self.draft_tokens} draft tokens"
        yield "  by position        " + " ".join(f"{rate:.2f}±{2 * e:.2f}" for rate, e in self.rates.by_position)
        yield f"  log-likelihood     {self.log_likelihood:.3f} nats a drafted row; other readings against this one:"
        for one in self.alternatives:
            value, error = one.better
            rates = "" if one.rates is None else f", acceptance length {one.rates.length[0]:.2f}"
            yield f"  {' ' if one.told_apart else '='} {value:+.3f} ± {2 * error:.3f}  {one.name}{rates}"


def _rates(rates: Rates) -> dict[str, Any]:
    return {
        "steps": rates.steps,
        "length": _measured(rates.length),
        "by_position": [_measured(one) for one in rates.by_position],
    }


def _measured(value: Measured) -> dict[str, float | None]:
    mean, error = value
    return {"value": round(mean, 4), "standard_error": round(error, 4) if error < float("inf") else None}
