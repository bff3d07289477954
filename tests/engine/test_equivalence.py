# SPDX-License-Identifier: Apache-2.0
"""The engine against the reference, fp32: the same drafts, accepted counts and tokens at every step."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import KINDS, WINDOW, K, llm, prompt, reference
from vllm_dflash.reference.decode import Generation

# One token; around the window; over a page boundary.
PROMPTS = [prompt(n, n) for n in (1, WINDOW - 1, WINDOW, WINDOW + 1, 70)]


def job(pair: Path, kinds: str | None, prompts: list[list[int]], max_tokens: int) -> dict[str, Any]:
    requests = [{"prompt": p, "max_tokens": max_tokens, "ignore_eos": True} for p in prompts]
    return {"llm": llm(pair / "target", pair / kinds if kinds else None, K), "requests": requests}


def assert_same(result: dict[str, Any], expected: list[Generation]) -> None:
    for tokens, steps, want in zip(result["tokens"], result["drafts"], expected, strict=True):
        assert tokens == want.tokens
        assert [step[0] for step in steps][: len(want.drafts)] == want.drafts
    by_position = [sum(a > i for g in expected for a in g.accepted) for i in range(K)]
    assert result["metrics"]["spec_decode_num_accepted_tokens_per_pos"] == by_position
    assert result["metrics"]["spec_decode_num_drafts"] == sum(len(g.accepted) for g in expected)


@pytest.fixture(scope="module")
def v1_results(pair: Path, engines: Any) -> dict[str | None, Any]:
    kinds = [None, *KINDS]
    return dict(zip(kinds, engines([job(pair, k, PROMPTS, 32) for k in kinds]), strict=True))


@pytest.mark.parametrize("kinds", KINDS)
def test_v1_equals_reference(pair: Path, v1_results: dict[str | None, Any], kinds: str) -> None:
    expected = reference(pair, kinds, PROMPTS, 32)
    assert sum(map(sum, (g.accepted for g in expected))) > 10, "the pair accepts too little to prove anything"
    assert_same(v1_results[kinds], expected)


@pytest.mark.parametrize("kinds", KINDS)
def test_v1_greedy_output_is_the_targets(v1_results: dict[str | None, Any], kinds: str) -> None:
    assert v1_results[kinds]["tokens"] == v1_results[None]["tokens"]


def test_the_kinds_differ(pair: Path) -> None:
    """Same weights, another rule, other drafts: so the tests above would see a rule that got lost."""
    drafts = {kinds: [g.drafts for g in reference(pair, kinds, PROMPTS[2:], 32)] for kinds in KINDS}
    assert len({str(d) for d in drafts.values()}) == len(KINDS)


def test_active_line(v1_results: dict[str | None, Any]) -> None:
    (line,) = v1_results["SSF"]["log"]
    assert "(V1): taps 0,1,3, layers SSF window 16, causal TTF, mask 127, block 5, k 4, kernels" in line
    assert v1_results[None]["log"] == []


@pytest.mark.parametrize("kinds", ["SSF"])
def test_v2_equals_reference(pair: Path, engines: Any, kinds: str) -> None:
    prompts = [PROMPTS[0], PROMPTS[3]]
    (result,) = engines([job(pair, kinds, prompts, 14)], runner="V2")
    assert "(V2)" in result["log"][0]
    assert_same(result, reference(pair, kinds, prompts, 14))
