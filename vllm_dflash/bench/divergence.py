# SPDX-License-Identifier: Apache-2.0
"""Where two greedy outputs part, and how close the two tokens were."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PROBED = 16  # at most so many differences are looked into for each concurrency


@dataclass
class Difference:
    """prompt: index. position: of the first differing output token. A token is None where an output ended.

    gap: the target's logit of `expected` minus that of `found` after the prompt and the common output, read
    in one prefill without any draft; None when it was not looked into.
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
    """Fills in `gap` for the first PROBED of `wanted`: log probabilities of one place differ as logits do."""
    for difference in wanted[:PROBED]:
        if difference.expected is None or difference.found is None:
            continue
        before = [*prompts[difference.prompt], *expected[difference.prompt][: difference.position]]
        likely = [log_probability(llm, before, token) for token in (difference.expected, difference.found)]
        difference.gap = likely[0] - likely[1]


def log_probability(llm: Any, before: Sequence[int], token: int) -> float:
    """Of `token` after `before`: it is made the end of a prompt, whose log probabilities vLLM reports."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
    answer = llm.generate([{"prompt_token_ids": [*before, token]}], params, use_tqdm=False)[0]
    return float(answer.prompt_logprobs[-1][token].logprob)
