# SPDX-License-Identifier: Apache-2.0
"""The prompts of a run, as token ids: the same for every method."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_dflash.errors import UserError
from vllm_dflash.train.prompts import Prompt, heldout, read_jsonl


@dataclass(frozen=True)
class BenchPrompt:
    ids: tuple[int, ...]
    category: str


def load_tokenizer(model: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as problem:
        raise UserError(f"no tokenizer could be loaded: {_first_line(problem)}", file=model) from problem


def random_prompts(tokenizer: Any, count: int, length: int, seed: int) -> list[BenchPrompt]:
    """Prompts of exactly `length` ordinary token ids each; every one of them differs."""
    chooser = random.Random(seed)
    special = set(tokenizer.all_special_ids)
    ordinary = [i for i in range(len(tokenizer)) if i not in special]
    return [BenchPrompt(tuple(chooser.choices(ordinary, k=length)), "random") for _ in range(count)]


def text_prompts(tokenizer: Any, dataset: Path | None, count: int, seed: int, raw: bool = False) -> list[BenchPrompt]:
    """The first `count` prompts of a JSONL file, or of the built-in held-out ones.

    raw: the text as it is. Otherwise in the model's chat template, where it has one.
    """
    entries = heldout(count, seed) if dataset is None else read_jsonl(dataset)
    if len(entries) < count:
        raise UserError(
            "too few prompts", field="prompts", found=len(entries), needed=f"at least {count}", file=dataset
        )
    chat = not raw and getattr(tokenizer, "chat_template", None)
    return [_tokenise(tokenizer, entry, bool(chat)) for entry in entries[:count]]


def check_lengths(prompts: Sequence[BenchPrompt], output_len: int, max_model_len: int | None) -> None:
    longest = max(len(prompt.ids) for prompt in prompts)
    if max_model_len is not None and longest + output_len > max_model_len:
        raise UserError(
            "the longest prompt and its output do not fit",
            field="max_model_len",
            found=max_model_len,
            needed=f"at least {longest} + {output_len}",
        )


def _tokenise(tokenizer: Any, entry: Prompt, chat: bool) -> BenchPrompt:
    if chat:
        messages = list(entry.messages) or [{"role": "user", "content": entry.prompt}]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    else:
        ids = tokenizer.encode(entry.prompt)
    if not ids:
        raise UserError("a prompt has no tokens", field="prompt", found=entry.prompt[:60])
    return BenchPrompt(tuple(ids), entry.category)


def _first_line(problem: Exception) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)
