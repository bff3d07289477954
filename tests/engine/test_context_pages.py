# SPDX-License-Identifier: Apache-2.0
"""Context K/V is in every page that a draft reads: each page is NaN when a request gets it (tests/engine/jobs.py).

Cold, hit, chunked, preempted and resumed requests, and those at the end of a page, accept at every step what the
reference accepts there. One context row left unwritten or stale would show: NaN reaches the whole block.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests import tiny
from tests.engine.conftest import WINDOW, K, llm, prompt
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.reference.decode import Context, draft, generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target

PAGE = 32
KINDS = "SSF"
TURN = 24  # tokens of an answer
LONG = prompt(70, 70)
Accepted = Callable[[list[int], int], int]


class Pair:
    """What the reference says about one sequence: its answer, and how many drafts each anchor gets accepted."""

    def __init__(self, root: Path) -> None:
        config = load_draft_config(root / KINDS)
        model = AutoModelForCausalLM.from_pretrained(root / "target", dtype=torch.float32)
        self.target, self.drafter = Target(model, config.tap_layer_ids), Drafter.load(config)

    def answer(self, tokens: list[int], count: int) -> list[int]:
        return generate(self.target, self.drafter, tokens, k=K, max_tokens=count).tokens

    def accepted(self, sequence: list[int], anchors: list[int]) -> list[int]:
        """Of the block behind each anchor position, in a sequence that the target wrote greedily past that block."""
        with torch.inference_mode():
            _, taps, _ = self.target(torch.tensor([sequence]))
            counts = []
            for anchor in anchors:
                context = Context(self.drafter)
                context.extend(taps[:, :anchor])
                drafts = draft(self.drafter, self.target, context, sequence[anchor], K).argmax(-1).tolist()
                following = sequence[anchor + 1 : anchor + 1 + K]
                assert len(following) == K
                right = [a == b for a, b in zip(drafts, following, strict=True)]
                counts.append((right + [False]).index(False))
        return counts


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pages")
    tiny.target(root / "target", seed=2)
    tiny.drafter(root / KINDS, KINDS, window=WINDOW, block=K + 1, seed=3)
    return root


@pytest.fixture(scope="module")
def pair(root: Path) -> Pair:
    return Pair(root)


def job(root: Path, prompts: list[list[int]], count: int = TURN, **more: Any) -> dict[str, Any]:
    together = more.pop("together", False)
    requests = [{"prompt": p, "max_tokens": count, "ignore_eos": True} for p in prompts]
    engine = llm(root / "target", root / KINDS, K, block_size=PAGE, **more)
    return {"llm": engine, "requests": requests, "together": together, "poison": True}


def cases(pair: Pair) -> dict[str, dict[str, Any]]:
    """name -> prompts and engine arguments."""
    turn = LONG + pair.answer(LONG, TURN) + prompt(9, 9)  # the hit covers pages with generated tokens
    full = [prompt(2 * PAGE, 1), prompt(3 * PAGE, 2)]
    return {
        "hit": {"prompts": [LONG, LONG, LONG[:64] + prompt(3, 3), turn]},
        "full last page, hit": {"prompts": [full[0], full[0], full[1], full[1], full[1] + [5]]},
        "chunks": {"prompts": [LONG, *full], "max_num_batched_tokens": 48, "max_model_len": 128},
        "chunks of a page": {"prompts": [LONG, *full], "max_num_batched_tokens": PAGE + 4 * K, "max_model_len": 128},
        "hit together": {"prompts": [LONG, LONG, full[0], LONG + [7]], "together": True},
        "preempted": {
            "prompts": [prompt(60, n) for n in range(4)],
            "count": 70,
            "num_gpu_blocks_override": 13,
            "enable_prefix_caching": False,
            "together": True,
        },
        "preempted, cached": {
            "prompts": [prompt(60, n) for n in range(4)],
            "count": 70,
            "num_gpu_blocks_override": 13,
            "together": True,
        },
    }


@pytest.fixture(scope="module")
def v1(root: Path, pair: Pair, engines: Any) -> dict[str, Any]:
    jobs = {name: job(root, **case) for name, case in cases(pair).items()}
    return dict(zip(jobs, engines(list(jobs.values())), strict=True))


def assert_accepts_as_the_reference(pair: Pair, result: dict[str, Any], prompts: list[list[int]], count: int) -> None:
    assert result["poisoned"] > 0
    total = 0
    for tokens, steps, given in zip(result["tokens"], result["verified"], prompts, strict=True):
        sequence = given + pair.answer(given, count + 2 * K)
        assert given + tokens == sequence[: len(given) + count]
        anchors = [anchor for _, _, anchor in steps]
        assert [accepted for _, accepted, _ in steps] == pair.accepted(sequence, anchors)
        total += sum(accepted for _, accepted, _ in steps)
        # Every token but those that a prefill gave comes from a step with drafts.
        assert len(given) in anchors or result["metrics"]["num_preemptions"] > 0
    assert total > 5


NAMES = ["hit", "full last page, hit", "chunks", "chunks of a page", "hit together", "preempted", "preempted, cached"]


@pytest.mark.parametrize("name", NAMES)
def test_v1_accepts_as_the_reference(pair: Pair, v1: dict[str, Any], name: str) -> None:
    case = cases(pair)[name]
    assert_accepts_as_the_reference(pair, v1[name], case["prompts"], case.get("count", TURN))


def test_the_cases_are_what_they_say(v1: dict[str, Any]) -> None:
    metrics = {name: result["metrics"] for name, result in v1.items()}
    assert metrics["hit"]["prefix_cache_hits"] >= 3 * PAGE
    assert metrics["full last page, hit"]["prefix_cache_hits"] >= 3 * PAGE
    assert metrics["hit together"]["prefix_cache_hits"] > 0
    assert metrics["preempted"]["num_preemptions"] > 0
    assert metrics["preempted, cached"]["num_preemptions"] > 0


def test_a_hit_accepts_as_a_cold_run(v1: dict[str, Any]) -> None:
    for name, first, second in [("hit", 0, 1), ("full last page, hit", 0, 1), ("full last page, hit", 2, 3)]:
        verified = v1[name]["verified"]
        assert verified[first] == verified[second] != []


def test_v2_accepts_as_the_reference(root: Path, pair: Pair, engines: Any) -> None:
    prompts = [LONG, LONG]
    (result,) = engines([job(root, prompts, 12)], runner="V2")
    assert result["metrics"]["prefix_cache_hits"] > 0
    assert result["verified"][0] == result["verified"][1] != []
    assert_accepts_as_the_reference(pair, result, prompts, 12)
