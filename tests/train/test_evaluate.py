# SPDX-License-Identifier: Apache-2.0
"""The batched evaluation against real speculative decoding, one token and one request at a time."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.train.helpers import block_alone, draft_one_by_one, method
from vllm_dflash.train.answers import Answers
from vllm_dflash.train.evaluate import correct, evaluate, table, walk
from vllm_dflash.train.loop import train
from vllm_dflash.train.method import Method
from vllm_dflash.train.mtp import MtpMethod
from vllm_dflash.train.ngram import ngram_drafts
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.target_model import FrozenTarget

Make = Callable[..., TrainOptions]
Drafts = Callable[[list[int]], list[int]]


@torch.no_grad()
def decode(target: FrozenTarget, prompt: list[int], draft: Drafts, most: int) -> tuple[list[int], list[int]]:
    """Greedy speculative decoding: the target verifies every draft. Returns tokens and accepted counts."""
    tokens = list(prompt)
    tokens.append(int(target.model(torch.tensor([tokens])).logits[0, -1].argmax()))
    counts = []
    while len(tokens) - len(prompt) < most and tokens[-1] not in target.eos:
        drafts = draft(tokens)
        best = target.model(torch.tensor([tokens + drafts])).logits[0].argmax(-1).tolist()[len(tokens) - 1 :]
        accepted = next((i for i, one in enumerate(drafts) if one != best[i]), len(drafts))
        new = best[: accepted + 1][: most - (len(tokens) - len(prompt))]
        new = next((new[: i + 1] for i, one in enumerate(new) if one in target.eos), new)
        counts.append(min(accepted, len(new)))
        tokens += new
    return tokens, counts


def trained(name: str, options: Make, target: FrozenTarget, answers: Answers) -> Method:
    asked = options(method=name, steps=60, batch_size=16)
    asked.out.mkdir(exist_ok=True)
    made: Method = MtpMethod(target, asked) if name == "mtp" else method(asked, target)
    train(made, answers, asked, asked.identity())
    return made


@pytest.mark.parametrize("name", ["dflash", "mtp", "ngram"])
def test_equals_decoding(name: str, options: Make, target: FrozenTarget, answers: Answers) -> None:
    made = trained("mtp" if name == "mtp" else "dflash", options, target, answers)
    result = evaluate(made, answers, 6, 4, seed=0)
    k = made.draft_tokens
    held = np.random.default_rng(0).permutation(answers.held_out.nonzero()[0])[:6]

    def draft(tokens: list[int]) -> list[int]:
        anchor = len(tokens) - 1
        if name == "dflash":
            hidden = block_alone(made.module, made, torch.tensor(tokens), anchor)  # type: ignore[arg-type]
            return target.model.lm_head(hidden[1:]).argmax(-1).tolist()
        if name == "mtp":
            return draft_one_by_one(made, torch.tensor(tokens), anchor, k)  # type: ignore[arg-type]
        found = ngram_drafts(np.array(tokens), anchor, 7)[anchor].tolist()
        return [one for one in found if one >= 0]

    counts: list[int] = []
    for index in held:
        sequence, prompt = answers.sequence(index).tolist(), int(answers.prompt_lengths[index])
        tokens, steps = decode(target, sequence[:prompt], draft, len(sequence) - prompt)
        assert tokens == sequence
        counts += steps
    got = result["drafters"]["ngram k=7" if name == "ngram" else f"{name} k={k}"]
    assert got["steps"] == len(counts)
    assert got["acceptance_length"] == pytest.approx(1 + np.mean(counts), abs=1e-3)
    rates = [np.mean([c > i for c in counts]) for i in range(len(got["acceptance_by_position"]))]
    assert got["acceptance_by_position"] == pytest.approx(rates, abs=1e-3)


def test_walk_by_hand() -> None:
    right = np.zeros((10, 3), dtype=bool)
    right[2] = [True, True, False]
    right[5] = [False, True, True]
    right[6] = [True, True, True]
    assert walk(right, 2) == [2, 0, 3]
    assert walk(right, 9) == []


def test_drafts_past_the_end_are_wrong() -> None:
    assert correct(np.array([5, 6, 7]), np.array([[6, 7, 0], [7, 5, 5], [5, 5, 5]])).tolist() == [
        [True, True, False], [True, False, False], [False, False, False],
    ]  # fmt: skip


def test_ngram_equals_vllm() -> None:
    proposer = pytest.importorskip("vllm.v1.spec_decode.ngram_proposer")
    look_up = proposer._find_longest_matched_ngram_and_propose_tokens.py_func
    random = np.random.default_rng(0)
    for _ in range(20):
        tokens = random.integers(0, 4, 30)
        drafts = ngram_drafts(tokens, 0, 5)
        for p in range(len(tokens)):
            wanted = look_up(tokens[: p + 1], 1, 3, 10_000, 5).tolist()
            assert [one for one in drafts[p].tolist() if one >= 0] == wanted, p


def test_table_has_every_drafter_and_category(options: Make, target: FrozenTarget, answers: Answers) -> None:
    asked = options()
    asked.out.mkdir()
    lines = "\n".join(table(evaluate(method(asked, target), answers, 8, 4, seed=0)))
    for word in ("dflash k=4", "ngram k=7", "ngram k=3", "odd", "even"):
        assert word in lines
