# SPDX-License-Identifier: Apache-2.0
"""A gated-delta-net hybrid target and a drafter whose layers lie in several KV cache groups, on both runners."""

from pathlib import Path
from typing import Any

import pytest

from tests import tiny_hybrid
from tests.engine.conftest import K, llm, prompt
from tests.engine.hybrid import accepted, disagreements, engine_path, reference_logits, target_gap

KINDS = ["SSSSF", "sFC"]
# Below the window, past it, past several windows and pages.
LENGTHS = [5, 40, 600]
MAX_LEN = 1024
# Logits. The noise of bf16 in this pair; the gap between first and second choice is 0.7 on average.
NEAR_TIE = 0.1
Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hybrid")
    tiny_hybrid.target(root / "target")
    for kinds in KINDS:
        tiny_hybrid.drafter(root / kinds, kinds, K)
    return root


def run(engines: Any, hybrid: Path, runner: str, kinds: list[str], lengths: list[int], max_tokens: int) -> Results:
    requests = [{"prompt": prompt(n, 300 + n), "max_tokens": max_tokens, "ignore_eos": True} for n in lengths]
    settings = {"dtype": "bfloat16", "enable_prefix_caching": False, "max_model_len": MAX_LEN}
    jobs = [{"llm": llm(hybrid / "target", **settings), "requests": requests}]
    jobs += [{"llm": llm(hybrid / "target", hybrid / k, K, **settings), "requests": requests} for k in kinds]
    return dict(zip(["none", *kinds], engines(jobs, runner, **engine_path(runner)), strict=True))


@pytest.fixture(scope="module")
def v1(hybrid: Path, engines: Any) -> Results:
    return run(engines, hybrid, "V1", KINDS, LENGTHS, 40)


def check(hybrid: Path, results: Results, kinds: str, lengths: list[int]) -> None:
    """Tokens as without speculation, drafts as the reference's, and counts that follow from both."""
    counted = 0
    result = results[kinds]
    for length, tokens, plain, steps in zip(
        lengths, result["tokens"], results["none"]["tokens"], result["drafts"], strict=True
    ):
        given = prompt(length, 300 + length)
        assert target_gap(hybrid / "target", given, tokens, plain) < NEAR_TIE
        drafts = [step[0] for step in steps]
        logits = reference_logits(hybrid / "target", hybrid / kinds, given, tokens, drafts)
        assert len(logits) >= len(drafts) - 1
        assert disagreements(logits, drafts, NEAR_TIE) == 0
        done = 0
        for proposed in drafts:
            right = accepted(proposed, tokens[done + 1 :])
            counted += right
            done += 1 + right
    assert counted == result["metrics"]["spec_decode_num_accepted_tokens"]


@pytest.mark.parametrize("kinds", KINDS)
def test_v1_drafts_as_the_reference(hybrid: Path, v1: Results, kinds: str) -> None:
    check(hybrid, v1, kinds, LENGTHS)


def test_v2_drafts_as_the_reference(hybrid: Path, engines: Any) -> None:
    check(hybrid, run(engines, hybrid, "V2", ["SSSSF"], [40], 10), "SSSSF", [40])


def test_other_layers_would_be_seen(hybrid: Path, v1: Results) -> None:
    """The comparison can fail: the drafts of one drafter are not those of the other's rules."""
    given = prompt(600, 900)
    drafts = [step[0] for step in v1["SSSSF"]["drafts"][2]]
    logits = reference_logits(hybrid / "target", hybrid / "sFC", given, v1["SSSSF"]["tokens"][2], drafts)
    assert disagreements(logits, drafts, NEAR_TIE) > len(drafts) * K // 8
