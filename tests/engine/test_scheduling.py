# SPDX-License-Identifier: Apache-2.0
"""What the scheduler does to requests must change neither output nor drafts. Mixed drafter, fp32."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import llm, prompt, reference

MIXED = "SSF"
LONG = prompt(70, 70)
BRANCH = LONG[:64] + prompt(3, 3)  # shares two pages with LONG
MANY = [prompt(n, n) for n in (3, 40, 17, 1, 25, 9)]
ENDS = [20, 31, 5, 44, 12, 27]


def requests(prompts: list[list[int]], lengths: list[int]) -> list[dict[str, Any]]:
    return [{"prompt": p, "max_tokens": n, "ignore_eos": True} for p, n in zip(prompts, lengths, strict=True)]


def jobs_of(pair: Path, drafter: Path | None) -> dict[str, dict[str, Any]]:
    target = pair / "target"
    return {
        "together": {"llm": llm(target, drafter), "requests": requests(MANY, ENDS), "together": True},
        "preempted": {
            "llm": llm(target, drafter, num_gpu_blocks_override=13, enable_prefix_caching=False),
            "requests": requests([prompt(60, n) for n in range(4)], [70] * 4),
            "together": True,
        },
        "chunked": {
            "llm": llm(target, drafter, max_num_batched_tokens=48, max_model_len=128),
            "requests": requests([LONG, MANY[1]], [24, 24]),
        },
        "repeated": {"llm": llm(target, drafter), "requests": requests([LONG, LONG, BRANCH], [24] * 3)},
        "to the end": {"llm": llm(target, drafter, max_model_len=64), "requests": requests([MANY[1]], [64])},
    }


@pytest.fixture(scope="module")
def results(pair: Path, engines: Any) -> dict[str, dict[str, Any]]:
    jobs = jobs_of(pair, pair / MIXED)
    return dict(zip(jobs, engines(list(jobs.values())), strict=True))


@pytest.fixture(scope="module")
def plain(pair: Path, engines: Any) -> dict[str, dict[str, Any]]:
    jobs = jobs_of(pair, None)
    return dict(zip(jobs, engines(list(jobs.values())), strict=True))


@pytest.mark.parametrize("case", ["together", "preempted", "chunked", "repeated", "to the end"])
def test_output_is_the_targets(results: dict[str, Any], plain: dict[str, Any], case: str) -> None:
    assert results[case]["tokens"] == plain[case]["tokens"]


def accepted(pair: Path, prompts: list[list[int]], lengths: list[int]) -> list[int]:
    steps = [g.accepted for p, n in zip(prompts, lengths, strict=True) for g in reference(pair, MIXED, [p], n)]
    return [sum(a > i for request in steps for a in request) for i in range(4)]


def test_requests_that_end_at_different_times_accept_as_alone(pair: Path, results: dict[str, Any]) -> None:
    counted = results["together"]["metrics"]["spec_decode_num_accepted_tokens_per_pos"]
    assert counted == accepted(pair, MANY, ENDS)


def test_requests_were_preempted(results: dict[str, Any]) -> None:
    assert results["preempted"]["metrics"]["num_preemptions"] > 0


def test_chunked_prefill_stores_all_context(pair: Path, results: dict[str, Any]) -> None:
    counted = results["chunked"]["metrics"]["spec_decode_num_accepted_tokens_per_pos"]
    assert counted == accepted(pair, [LONG, MANY[1]], [24, 24])


def test_prefix_cache_hit_drafts_as_a_cold_run(pair: Path, results: dict[str, Any]) -> None:
    cold, warm, branched = results["repeated"]["drafts"]
    assert results["repeated"]["metrics"]["prefix_cache_hits"] > 0
    assert warm == cold
    (alone,) = reference(pair, MIXED, [BRANCH], 24)
    assert [step[0] for step in branched][: len(alone.drafts)] == alone.drafts


def test_last_tokens_before_max_model_len(results: dict[str, Any]) -> None:
    (tokens,) = results["to the end"]["tokens"]
    assert len(tokens) == 64 - len(MANY[1])
