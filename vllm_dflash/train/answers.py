# SPDX-License-Identifier: Apache-2.0
"""The training data: prompts in the target's chat template followed by the target's own greedy answers."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from vllm_dflash.errors import UserError
from vllm_dflash.train.generate import greedy_answers
from vllm_dflash.train.requests import Request
from vllm_dflash.train.target_model import FrozenTarget


@dataclass
class Answers:
    """Sequences, concatenated.

    Sequence i is tokens[starts[i] : starts[i + 1]]; its first prompt_lengths[i] tokens are the prompt.
    tokens int32 [sum of lengths]; starts int64 [n + 1]; prompt_lengths int32 [n]; held_out bool [n];
    category and template int32 [n], indices into the name lists. fingerprint: the target that answered.
    """

    tokens: np.ndarray
    starts: np.ndarray
    prompt_lengths: np.ndarray
    held_out: np.ndarray
    category: np.ndarray
    template: np.ndarray
    categories: list[str]
    templates: list[str]
    fingerprint: str
    answer_tokens: int

    def __len__(self) -> int:
        return len(self.prompt_lengths)

    def sequence(self, index: int) -> np.ndarray:
        return self.tokens[self.starts[index] : self.starts[index + 1]]

    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def digest(self) -> str:
        """Short hash of the sequences and their split."""
        parts = (self.tokens, self.starts, self.prompt_lengths, self.held_out.astype(np.uint8))
        return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[
            :16
        ]

    def describe(self) -> str:
        answered = int(self.lengths().sum() - self.prompt_lengths.sum())
        return (
            f"{len(self):,} sequences ({int(self.held_out.sum()):,} held out), {answered:,} answer tokens, "
            f"{answered / len(self):.0f} an answer"
        )

    def save(self, path: Path) -> None:
        arrays = {
            "tokens": self.tokens.astype(np.int32),
            "starts": self.starts.astype(np.int64),
            "prompt_lengths": self.prompt_lengths.astype(np.int32),
            "held_out": self.held_out.astype(np.uint8),
            "category": self.category.astype(np.int32),
            "template": self.template.astype(np.int32),
        }
        about = {
            "categories": self.categories,
            "templates": self.templates,
            "fingerprint": self.fingerprint,
            "answer_tokens": self.answer_tokens,
        }
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        partial = path.with_suffix(".partial")
        save_file(tensors, partial, metadata={"answers": json.dumps(about)})
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Answers":
        """Raises UserError when the file is not one that `save` wrote."""
        try:
            with safe_open(path, "np") as file:
                about = json.loads(file.metadata()["answers"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            arrays["held_out"] = arrays["held_out"].astype(bool)
            return cls(**arrays, **about)
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise UserError(f"not a file of answers ({error})", field="answers", found=str(path)) from None


def encode(requests: Sequence[Request], target: FrozenTarget, longest: int) -> list[list[int]]:
    """Prompt ids of each request in the target's chat template, generation prompt included.

    Raises:
        UserError: a prompt that the template refuses, that has no tokens, or that has more than `longest`;
            the message names its line.
    """
    texts = []
    for one in requests:
        try:
            texts.append(
                target.tokenizer.apply_chat_template(
                    list(one.messages), add_generation_prompt=True, tokenize=False
                )
            )
        except Exception as error:  # a template is a program: it may raise anything
            raise UserError(f"a prompt does not fit the chat template ({error})", file=one.where) from None
    encoded: list[list[int]] = target.tokenizer(texts, add_special_tokens=False)["input_ids"]
    for one, ids in zip(requests, encoded, strict=True):
        if not 1 <= len(ids) <= longest:
            raise UserError(
                "a prompt has the wrong length", field="tokens", found=len(ids), needed=f"1 to {longest}",
                file=one.where,
            )  # fmt: skip
        if max(ids) >= target.shape.vocabulary:
            raise UserError(
                "a prompt has a token that the target lacks", field="token", found=max(ids),
                needed=f"below {target.shape.vocabulary}", file=one.where,
            )  # fmt: skip
    return encoded


def answer(
    requests: Sequence[Request],
    prompts: Sequence[list[int]],
    target: FrozenTarget,
    max_new: int,
    slots: int,
    minutes: float | None = None,
) -> Answers:
    """Let the target answer each prompt greedily. The end-of-answer token, if reached, is part of the answer.

    minutes: stop after this long; prompts without an answer by then are dropped.
    """
    until = None if minutes is None else time.monotonic() + minutes * 60
    found = dict(greedy_answers(target.model, prompts, max_new, target.eos, slots, until))
    if not found:
        raise UserError("no answer was ready in time", field="answer_minutes", found=minutes)
    if len(found) < len(prompts):
        print(
            f"out of time: {len(prompts) - len(found):,} of {len(prompts):,} prompts stay unanswered",
            flush=True,
        )
    order = sorted(found)
    replies = [found[i] for i in order]
    requests, prompts = [requests[i] for i in order], [prompts[i] for i in order]
    whole = [prompt + reply for prompt, reply in zip(prompts, replies, strict=True)]
    categories = sorted({one.category for one in requests})
    templates = sorted({one.template for one in requests})
    return Answers(
        tokens=np.concatenate([np.asarray(ids, dtype=np.int32) for ids in whole]),
        starts=np.concatenate([[0], np.cumsum([len(ids) for ids in whole])]).astype(np.int64),
        prompt_lengths=np.array([len(prompt) for prompt in prompts], dtype=np.int32),
        held_out=np.array([one.split != "train" for one in requests]),
        category=np.array([categories.index(one.category) for one in requests], dtype=np.int32),
        template=np.array([templates.index(one.template) for one in requests], dtype=np.int32),
        categories=categories,
        templates=templates,
        fingerprint=target.fingerprint,
        answer_tokens=max_new,
    )


def check_answers(answers: Answers, target: FrozenTarget, path: Path, longest: int) -> None:
    """UserError for answers of other weights, ids outside the vocabulary, more than `longest` tokens."""
    if answers.fingerprint != target.fingerprint:
        raise UserError(
            "these answers came from another target", field="fingerprint", found=answers.fingerprint,
            needed=target.fingerprint, file=path,
        )  # fmt: skip
    if len(answers.tokens) == 0 or int(answers.tokens.max()) >= target.shape.vocabulary:
        raise UserError("the answers do not fit the target's vocabulary", file=path)
    if int(answers.lengths().max()) > longest:
        raise UserError(
            "the answers have longer sequences than this run allows",
            field="max_length",
            found=longest,
            needed=f"at least {int(answers.lengths().max())}",
            file=path,
        )
