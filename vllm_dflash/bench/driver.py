# SPDX-License-Identifier: Apache-2.0
"""Keeps exactly c requests in flight on an engine and times its steps."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Engine(Protocol):
    """What is used of vLLM's LLMEngine. Requests must ask for outputs as deltas."""

    def add_request(self, request_id: str, prompt: Any, params: Any) -> Any: ...

    def step(self) -> Sequence[Any]: ...


@dataclass
class Pass:
    """All prompts once.

    outputs: token ids for each prompt, in the order of the prompts.
    accepted: for each prompt vLLM's own histogram of accepted draft tokens a step, empty where it keeps none.
    step_s: times between the arrivals of consecutive steps' outputs, only of the steps where all c requests
        were decoding: no prompt was being read and none had run out.
    advanced: for the same steps, the number of requests that got a token.
    """

    outputs: list[list[int]]
    accepted: list[list[int]]
    wall_s: float = 0.0
    step_s: list[float] = field(default_factory=list)
    advanced: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(len(ids) for ids in self.outputs)


def run_pass(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    params: Callable[[int], Any],
    concurrency: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Pass:
    """Run every prompt, `concurrency` at a time; one that ends is replaced by the next at once.

    Args:
        params: sampling parameters of the prompt with this index.
    """
    done = Pass([[] for _ in prompts], [[] for _ in prompts])
    waiting = deque(range(len(prompts)))
    flying: dict[str, int] = {}

    def refill() -> None:
        while waiting and len(flying) < concurrency:
            index = waiting.popleft()
            flying[str(index)] = index
            engine.add_request(str(index), {"prompt_token_ids": list(prompts[index])}, params(index))

    start = last = clock()
    refill()
    while flying:
        arrived = engine.step()
        if not arrived:
            continue
        now = clock()
        if len(flying) == concurrency and all(done.outputs[index] for index in flying.values()):
            done.step_s.append(now - last)
            done.advanced.append(len(arrived))
        last = now
        for output in arrived:
            index = flying[output.request_id]
            completion = output.outputs[0]
            done.outputs[index].extend(completion.token_ids)
            if output.finished:
                del flying[output.request_id]
                own = getattr(completion, "spec_decode_metrics", None)
                done.accepted[index] = list(getattr(own, "histogram", ()))
        refill()
    done.wall_s = clock() - start
    return done
