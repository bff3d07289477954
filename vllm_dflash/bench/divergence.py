# SPDX-License-Identifier: Apache-2.0
"""Where two greedy outputs part, and how close the two tokens were."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PROBED = 16  # at most so many differences are looked into for each concurrency
TOP = 20  # vLLM's default limit on logprobs


@dataclass
class Difference:
    """prompt: index. position: of the first differing output token. A token is None where an output ended.

    gap: the target's logit of `expected` minus that of `found`, from one prefill of the prompt and the common
    output; None when it was not looked into, infinite when `found` was not among the TOP likeliest tokens.
    """

    prompt: int
    position: int
    expected: int | None
    found: int | None
    gap: float | None = None


def first_difference(prompt: int, expected: Sequence[int], found: Sequence[int]) -> Difference | None:
    for position, (a, b) in enumerate(zip(expected, found, strict=False)):
        if a != b:
            return Difference(prompt, position, a, b)
    if len(expected) == len(found):
        return None
    position = min(len(expected), len(found))
    return Difference(
        prompt,
        position,
        expected[position] if position < len(expected) else None,
        found[position] if position < len(found) else None,
    )


def differences(expected: Sequence[Sequence[int]], found: Sequence[Sequence[int]]) -> list[Difference]:
    pairs = enumerate(zip(expected, found, strict=True))
    return [d for index, (a, b) in pairs if (d := first_difference(index, a, b))]


def add_gaps(
    llm: Any,
    wanted: Sequence[Difference],
    prompts: Sequence[Sequence[int]],
    expected: Sequence[Sequence[int]],
) -> None:
    """Fills in `gap` for the first PROBED of `wanted`: asks `llm` for the likeliest tokens at that place."""
    from vllm import SamplingParams

    for difference in wanted[:PROBED]:
        if difference.expected is None or difference.found is None:
            continue
        common = expected[difference.prompt][: difference.position]
        prompt = {"prompt_token_ids": [*prompts[difference.prompt], *common]}
        params = SamplingParams(temperature=0.0, max_tokens=1, logprobs=TOP, detokenize=False)
        answer = llm.generate([prompt], params, use_tqdm=False)[0].outputs[0]
        likely = {token: entry.logprob for token, entry in (answer.logprobs or [{}])[0].items()}
        difference.gap = gap(likely, difference.expected, difference.found)


def gap(likely: dict[int, float], expected: int, found: int) -> float | None:
    """Difference of two log probabilities of one distribution, which is the difference of the two logits."""
    if expected not in likely:
        return None
    return likely[expected] - likely[found] if found in likely else float("inf")
