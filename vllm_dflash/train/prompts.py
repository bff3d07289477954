# SPDX-License-Identifier: Apache-2.0
"""Prompts to train and measure a drafter on: generated from templates, or read from a file."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, Literal

from vllm_dflash.errors import UserError
from vllm_dflash.train import (
    prompt_templates_arithmetic,
    prompt_templates_arithmetic_extra,
    prompt_templates_arithmetic_more,
    prompt_templates_lists,
    prompt_templates_lists_more,
    prompt_templates_python,
    prompt_templates_python_code,
    prompt_templates_python_more,
    prompt_templates_questions,
    prompt_templates_questions_extra,
    prompt_templates_questions_more,
    prompt_templates_rewriting,
    prompt_templates_rewriting_more,
)
from vllm_dflash.train.prompt_templates import Template

Split = Literal["train", "heldout", ""]
CATEGORIES: dict[str, list[Template]] = {
    "arithmetic": [
        *prompt_templates_arithmetic.TEMPLATES,
        *prompt_templates_arithmetic_more.TEMPLATES,
        *prompt_templates_arithmetic_extra.TEMPLATES,
    ],
    "python": [
        *prompt_templates_python.TEMPLATES,
        *prompt_templates_python_more.TEMPLATES,
        *prompt_templates_python_code.TEMPLATES,
    ],
    "lists": [
        *prompt_templates_lists.TEMPLATES,
        *prompt_templates_lists_more.TEMPLATES,
    ],
    "rewriting": [
        *prompt_templates_rewriting.TEMPLATES,
        *prompt_templates_rewriting_more.TEMPLATES,
    ],
    "questions": [
        *prompt_templates_questions.TEMPLATES,
        *prompt_templates_questions_more.TEMPLATES,
        *prompt_templates_questions_extra.TEMPLATES,
    ],
}
_MOST_REPEATS = 200


@dataclass(frozen=True)
class Prompt:
    """One prompt. A generated one's `split` follows from its `template`: no template is in both splits.

    `split` is "" when a file does not say. `messages` is the chat of a file's line that has no "prompt"; then
    `prompt` is its last message.
    """

    prompt: str
    category: str
    template: str
    split: Split
    messages: tuple[dict[str, Any], ...] = ()


def generate(count: int, seed: int) -> list[Prompt]:
    """`count` distinct prompts of both splits, the categories in turn, and in each its templates in turn.

    The same seed gives the same list everywhere, and a shorter list is the beginning of a longer one.

    Raises:
        UserError: `count` is not positive, or more than the templates can make.
    """
    return _generate(count, seed, CATEGORIES)


def train(count: int, seed: int) -> list[Prompt]:
    """Like `generate`, of training templates only."""
    return _generate(count, seed, _of_split("train"))


def heldout(count: int, seed: int) -> list[Prompt]:
    """Like `generate`, of held-out templates only: the same tasks in other words, never seen in training."""
    return _generate(count, seed, _of_split("heldout"))


def write_jsonl(path: Path, prompts: Iterable[Prompt]) -> None:
    """Writes one JSON object a line: prompt or messages, category, template, split (left out when "")."""
    with path.open("w", encoding="utf-8") as stream:
        for one in prompts:
            text = {"messages": one.messages} if one.messages else {"prompt": one.prompt}
            split = {"split": one.split} if one.split else {}
            entry = text | {"category": one.category, "template": one.template} | split
            stream.write(json.dumps(entry, ensure_ascii=False) + "\n")


def read_jsonl(path: Path) -> list[Prompt]:
    """Prompts from a file of JSON objects, one a line, each with "prompt" (text) or "messages" (a chat).

    "category" is "all" when missing, "template" the prompt itself. Unknown keys and blank lines are skipped.

    Raises:
        UserError: the file is unreadable or empty, or a line is not such an object (gives its number).
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the prompts: {error}", file=path) from error
    prompts = [_read_line(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise UserError("no prompts", file=path)
    return prompts


def _read_line(line: str, where: str) -> Prompt:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise UserError(f"not JSON ({error})", file=where) from error
    if not isinstance(entry, dict):
        raise UserError("not a JSON object", file=where)
    messages = entry.get("messages")
    prompt = entry.get("prompt")
    if prompt is None and isinstance(messages, list) and messages:
        if not all(isinstance(turn, dict) and isinstance(turn.get("content"), str) for turn in messages):
            raise UserError("a message has no text", field="messages", found=messages, file=where)
        prompt = messages[-1]["content"]
    else:
        messages = []
    if not isinstance(prompt, str):
        raise UserError('needs "prompt" (text) or "messages" (a list of messages)', file=where)
    if not prompt.strip():
        raise UserError("the prompt is empty", file=where)
    category, template, split = (
        entry.get("category", "all"), entry.get("template", prompt), entry.get("split", "")
    )  # fmt: skip
    for field, value in (("category", category), ("template", template)):
        if not isinstance(value, str):
            raise UserError("not a text", field=field, found=value, file=where)
    if split not in ("train", "heldout", ""):
        raise UserError("unknown split", field="split", found=split, needed="train or heldout", file=where)
    return Prompt(prompt, category, template, split, tuple(messages))


def _of_split(split: Split) -> dict[str, list[Template]]:
    return {
        category: [template for template in templates if _split_of(template) == split]
        for category, templates in CATEGORIES.items()
    }


def _split_of(template: Template) -> Split:
    return "heldout" if template.held_out else "train"


def _generate(count: int, seed: int, categories: dict[str, list[Template]]) -> list[Prompt]:
    if count < 1:
        raise UserError("nothing to generate", field="count", found=count, needed="at least 1")
    seen: set[str] = set()
    streams = [_of_category(templates, seed, seen) for templates in categories.values()]
    prompts: list[Prompt] = []
    for stream in cycle(streams):
        prompt = next(stream, None)
        if prompt is None:
            raise UserError("the templates cannot make so many distinct prompts", field="count", found=count)
        prompts.append(prompt)
        if len(prompts) == count:
            break
    return prompts


def _of_category(templates: list[Template], seed: int, seen: set[str]) -> Iterator[Prompt]:
    sources = [(template, Random(f"{seed}/{template.name}")) for template in templates]
    while sources:
        for source in list(sources):
            template, rng = source
            text = _unseen(template, rng, seen)
            if text is None:
                sources.remove(source)
            else:
                yield Prompt(text, template.category, template.name, _split_of(template))


def _unseen(template: Template, rng: Random, seen: set[str]) -> str | None:
    for _ in range(_MOST_REPEATS):
        text = template.fill(rng)
        if text not in seen:
            seen.add(text)
            return text
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m vllm_dflash.train.prompts OUT.jsonl --count 40000 --seed 0`."""
    parser = argparse.ArgumentParser(prog="python -m vllm_dflash.train.prompts", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=("all", "train", "heldout"), default="all")
    options = parser.parse_args(argv)
    makers = {"all": generate, "train": train, "heldout": heldout}
    try:
        prompts = makers[options.split](options.count, options.seed)
        write_jsonl(options.out, prompts)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    held_out = sum(prompt.split == "heldout" for prompt in prompts)
    print(f"{len(prompts) - held_out} training and {held_out} held-out prompts in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
