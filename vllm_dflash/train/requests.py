# SPDX-License-Identifier: Apache-2.0
"""Prompts as the trainer takes them, from a JSONL file or the generator, and which of them are held out."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vllm_dflash.errors import UserError
from vllm_dflash.train.prompts import Prompt, generate, read_jsonl

HELD_OUT_TEMPLATES = 6


@dataclass(frozen=True)
class Request:
    """One conversation to answer. where: file and line, for messages; split: "train", "held-out" or ""."""

    messages: tuple[dict[str, Any], ...]
    category: str = "all"
    template: str = ""
    split: str = ""
    where: str = ""


def read_requests(source: str, seed: int) -> list[Request]:
    """Requests from "FILE.jsonl" or "builtin:COUNT", each with its split decided.

    Raises:
        UserError: as `prompts.read_jsonl` and `prompts.generate`.
    """
    if source.startswith("builtin:"):
        return hold_out(_builtin(source, seed), seed)
    path = Path(source)
    made = read_jsonl(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    return hold_out([_request(one, f"{path}:{n}") for one, n in zip(made, numbers, strict=True)], seed)


def _builtin(source: str, seed: int) -> list[Request]:
    count = source.removeprefix("builtin:")
    if not count.isdigit() or not int(count):
        raise UserError("bad built-in prompts", field="prompts", found=source, needed="builtin:COUNT")
    return [_request(one, f"builtin:{i}") for i, one in enumerate(generate(int(count), seed))]


def _request(one: Prompt, where: str) -> Request:
    messages = one.messages or ({"role": "user", "content": one.prompt},)
    for message in messages:
        if not isinstance(message.get("role"), str):
            raise UserError("a message has no role", field="role", found=message.get("role"), file=where)
    return Request(tuple(messages), one.category, one.template, one.split, where)


def hold_out(requests: Sequence[Request], seed: int) -> list[Request]:
    """Decide the split of requests that have none.

    A given split counts as training only if it is "train". Otherwise one template in HELD_OUT_TEMPLATES of
    each category, chosen by the seed, is held out whole; a category with fewer than two templates holds out
    requests instead of templates.
    """
    templates: dict[str, set[str]] = defaultdict(set)
    for one in requests:
        templates[one.category].add(one.template)
    chooser = random.Random(seed)
    held: set[tuple[str, str]] = set()
    for category in sorted(templates):
        names = sorted(templates[category])
        if len(names) > 1:
            held |= {
                (category, name)
                for name in chooser.sample(names, max(1, round(len(names) / HELD_OUT_TEMPLATES)))
            }
    decided = []
    for one in requests:
        if one.split:
            out = one.split != "train"
        elif len(templates[one.category]) > 1:
            out = (one.category, one.template) in held
        else:
            out = chooser.random() < 1 / HELD_OUT_TEMPLATES
        decided.append(replace(one, split="held-out" if out else "train"))
    return decided


def limit_held_out(requests: Sequence[Request], count: int, seed: int) -> list[Request]:
    """At most `count` held-out requests, drawn evenly over the categories, then all training ones."""
    pools: dict[str, list[Request]] = defaultdict(list)
    for one in requests:
        if one.split != "train":
            pools[one.category].append(one)
    chooser = random.Random(seed)
    for pool in pools.values():
        chooser.shuffle(pool)
    kept: list[Request] = []
    while len(kept) < count and any(pools.values()):
        for category in sorted(pools):
            if pools[category] and len(kept) < count:
                kept.append(pools[category].pop())
    return kept + [one for one in requests if one.split == "train"]
