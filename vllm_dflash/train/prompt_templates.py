# SPDX-License-Identifier: Apache-2.0
"""Text patterns with named slots, and how they are filled.

`<name>` is a slot: a choice from the rule `name`, itself a pattern. The same slot twice in one pattern gives
the same text; `<name1>` and `<name2>` give different ones. Only `Random.randrange` is drawn from, so a seed
gives the same text in every process and Python version.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

Rule = Sequence[str] | range | Callable[[Random], str]
Rules = Mapping[str, Rule]

_SLOT = re.compile(r"<([a-z_]+)(\d*)>")
_A_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou])(?!uni|use|usu|one|eu)")
_MOST_DRAWS = 100


@dataclass(frozen=True)
class Template:
    """A pattern of one category; a held-out one never makes a training prompt."""

    name: str
    category: str
    pattern: str
    rules: Rules
    held_out: bool

    def fill(self, rng: Random) -> str:
        return _A_BEFORE_VOWEL.sub(r"\1n ", expand(self.pattern, self.rules, rng))


def templates(
    category: str, train: Mapping[str, str], held_out: Mapping[str, str], rules: Rules
) -> list[Template]:
    """Templates of one category, named `category/name`, from `{name: pattern}`."""
    return [
        Template(f"{category}/{name}", category, pattern, rules, kept)
        for patterns, kept in ((train, False), (held_out, True))
        for name, pattern in patterns.items()
    ]


def choices(text: str) -> list[str]:
    """The comma-separated choices in `text`."""
    return text.split(",")


def pick(rng: Random, options: Sequence[str]) -> str:
    return options[rng.randrange(len(options))]


def between(rng: Random, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return low + rng.randrange(high - low + 1)


def expand(pattern: str, rules: Rules, rng: Random) -> str:
    """`pattern` with every slot filled, in order of first appearance."""
    values: dict[str, str] = {}
    for match in _SLOT.finditer(pattern):
        slot, kind = match.group(), match.group(1)
        if slot in values:
            continue
        taken = {value for other, value in values.items() if other.strip("<>0123456789") == kind}
        for _ in range(_MOST_DRAWS):
            values[slot] = expand(_draw(rules[kind], rng), rules, rng)
            if values[slot] not in taken:
                break
    return _SLOT.sub(lambda match: values[match.group()], pattern)


def _draw(rule: Rule, rng: Random) -> str:
    if callable(rule):
        return rule(rng)
    return str(rule[rng.randrange(len(rule))])
