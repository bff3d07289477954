# SPDX-License-Identifier: Apache-2.0
"""Held-out acceptance: greedy speculative decoding, replayed along the answers that the target gave.

With greedy verification the output is the target's answer whatever the drafter says, so the drafts of every
possible anchor can be made in one batch and the decoding walked through afterwards, with the same result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

from vllm_dflash.train.answers import Answers
from vllm_dflash.train.batches import collate
from vllm_dflash.train.method import Method
from vllm_dflash.train.ngram import ngram_drafts


@dataclass
class Tally:
    """steps: speculative steps; accepted[i]: steps in which draft position i + 1 was accepted."""

    k: int
    steps: int = 0
    accepted: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, counts: Sequence[int]) -> None:
        reached = np.asarray(counts)[:, None] > np.arange(self.k)
        self.accepted = (self.accepted if len(self.accepted) else np.zeros(self.k)) + reached.sum(0)
        self.steps += len(counts)

    def report(self) -> dict[str, Any]:
        rates = self.accepted / max(self.steps, 1) if len(self.accepted) else np.zeros(self.k)
        return {
            "acceptance_length": round(1 + float(rates.sum()), 4),
            "acceptance_by_position": [round(float(rate), 4) for rate in rates],
            "steps": self.steps,
        }


def walk(right: np.ndarray, start: int) -> list[int]:
    """Accepted drafts of each step of one request.

    The target gives the first answer token itself, so the first anchor is `start`. A step accepts the leading
    right drafts; the next anchor is accepted + 1 further on. Drafts past the end of the answer count as
    wrong. The walk ends when the anchor is the last token.

    Args:
        right: bool [S, k]; [p, i - 1]: the draft of anchor p for position p + i is the target's token.
    """
    counts = []
    p = start
    while p < len(right) - 1:
        accepted = int(right[p].cumprod().sum())
        counts.append(accepted)
        p += accepted + 1
    return counts


def correct(tokens: np.ndarray, drafts: np.ndarray) -> np.ndarray:
    """tokens [S], drafts [S, k] -> bool [S, k] as `walk` wants it."""
    ahead = np.arange(len(tokens))[:, None] + np.arange(1, drafts.shape[1] + 1)
    inside = ahead < len(tokens)
    return inside & (tokens[np.where(inside, ahead, 0)] == drafts)


def evaluate(method: Method, answers: Answers, limit: int, batch_size: int, seed: int) -> dict[str, Any]:
    """Acceptance on held-out answers, beside the n-gram control.

    Args:
        limit: most sequences; drawn by seed.

    Returns:
        JSON object: for each drafter ("dflash k=7", "ngram k=7", ...) acceptance_length (accepted drafts + 1,
        mean over steps), acceptance_by_position (share of steps that accept position i), steps, and the same
        under by_category.
    """
    held = answers.held_out.nonzero()[0]
    chosen = np.sort(np.random.default_rng(seed).permutation(held)[:limit])
    chosen = chosen[np.argsort(answers.lengths()[chosen], kind="stable")]
    tallies: dict[str, dict[str, Tally]] = {}

    def count(name: str, k: int, index: int, right: np.ndarray, start: int) -> None:
        steps = walk(right[:, :k], start)
        if steps:
            for category in ("", answers.categories[answers.category[index]]):
                tallies.setdefault(name, {}).setdefault(category, Tally(k)).add(steps)

    depths = (method.draft_tokens,) if method.name == "dflash" else tuple(range(1, method.draft_tokens + 1))
    controls = sorted({3, 7, max(depths)}, reverse=True)
    bar = tqdm(total=len(chosen), desc="evaluation", unit="answer")
    for start in range(0, len(chosen), batch_size):
        indices = chosen[start : start + batch_size]
        drafts = method.drafts(collate(answers, indices)).numpy()
        for row, index in enumerate(indices):
            tokens, first = answers.sequence(index).astype(np.int64), int(answers.prompt_lengths[index])
            right = correct(tokens, drafts[row, : len(tokens)])
            for k in depths:
                count(f"{method.name} k={k}", k, index, right, first)
            copied = correct(tokens, ngram_drafts(tokens, first, controls[0]))
            for k in controls:
                count(f"ngram k={k}", k, index, copied, first)
        bar.update(len(indices))
    bar.close()
    return {
        "sequences": len(chosen),
        "drafters": {
            name: parts[""].report() | {"by_category": {c: t.report() for c, t in sorted(parts.items()) if c}}
            for name, parts in tallies.items()
        },
    }


def table(result: dict[str, Any]) -> Iterator[str]:
    """The evaluation as lines of text: acceptance length, then the rate of each position, then categories."""
    drafters = result["drafters"]
    categories = sorted({c for one in drafters.values() for c in one["by_category"]})
    width = max([len(name) for name in drafters] + [len(c) for c in categories] + [12])
    yield f"{'drafter':{width}}  length  acceptance rate by position"
    for name, one in drafters.items():
        rates = " ".join(f"{rate:5.3f}" for rate in one["acceptance_by_position"])
        yield f"{name:{width}}  {one['acceptance_length']:6.3f}  {rates}"
    yield ""
    yield f"{'category':{width}}  " + "  ".join(f"{name:>11}" for name in drafters)
    for category in categories:
        lengths = [one["by_category"].get(category, {}).get("acceptance_length") for one in drafters.values()]
        yield f"{category:{width}}  " + "  ".join(
            "          -" if x is None else f"{x:11.3f}" for x in lengths
        )
