# SPDX-License-Identifier: Apache-2.0
"""The refill driver on a scripted engine whose clock is under control."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_dflash.bench.driver import run_pass


@dataclass
class ScriptedEngine:
    """One token a request and step; request i ends after lengths[i] tokens.

    A step takes 1 s, or 10 s if it reads a prompt, which gives that request its first token.
    """

    lengths: list[int]
    now: float = 0.0
    flying: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    most: int = 0
    stutter: bool = False

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        assert prompt["prompt_token_ids"] == [int(request_id)]
        assert params == f"params {request_id}"
        self.flying[request_id] = 0
        self.order.append(request_id)
        self.most = max(self.most, len(self.flying))

    def step(self) -> list[Any]:
        self.stutter = not self.stutter
        if self.stutter:
            return []  # as an engine with asynchronous scheduling does
        self.now += 10.0 if 0 in self.flying.values() else 1.0
        outputs = []
        for request_id in list(self.flying):
            self.flying[request_id] += 1
            made = self.flying[request_id]
            finished = made == self.lengths[int(request_id)]
            completion = SimpleNamespace(token_ids=[100 * int(request_id) + made])
            if finished:
                del self.flying[request_id]
                completion.spec_decode_metrics = SimpleNamespace(histogram=[made])
            outputs.append(SimpleNamespace(request_id=request_id, outputs=[completion], finished=finished))
        return outputs


def drive(lengths: list[int], concurrency: int) -> tuple[Any, ScriptedEngine]:
    engine = ScriptedEngine(lengths)
    prompts = [[i] for i in range(len(lengths))]
    done = run_pass(engine, prompts, lambda i: f"params {i}", concurrency, clock=lambda: engine.now)
    return done, engine


@pytest.mark.parametrize("concurrency", [1, 2, 3, 7])
def test_every_prompt_runs_once_and_never_more_than_asked(concurrency: int) -> None:
    lengths = [3, 1, 4, 1, 5, 9, 2]
    done, engine = drive(lengths, concurrency)
    assert engine.order == [str(i) for i in range(len(lengths))]
    assert engine.most == concurrency
    assert done.outputs == [[100 * i + n for n in range(1, length + 1)] for i, length in enumerate(lengths)]
    assert done.tokens == sum(lengths)
    assert done.accepted == [[length] for length in lengths]
    assert done.wall_s == engine.now


def test_a_request_that_ends_is_replaced_at_once() -> None:
    done, _ = drive([2, 2, 2, 2], 2)
    # Two waves of a reading step and a decoding step: nobody waits.
    assert done.wall_s == 10 + 1 + 10 + 1


def test_only_steps_in_which_all_were_decoding_are_timed() -> None:
    done, _ = drive([4, 6, 3], 2)
    # Steps: read 0 and 1; three decode both (0 ends); read 2; one decodes both (1 ends); one of 2 alone.
    assert done.step_s == [1.0, 1.0, 1.0, 1.0]
    assert done.advanced == [2, 2, 2, 2]
    assert done.wall_s == 10 + 3 + 10 + 1 + 1


def test_fewer_prompts_than_slots_give_tokens_but_no_step_time() -> None:
    done, _ = drive([5], 4)
    assert done.tokens == 5
    assert done.step_s == []
