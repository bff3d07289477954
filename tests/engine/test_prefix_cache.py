# SPDX-License-Identifier: Apache-2.0
"""On a hybrid target the prefix cache hits as often with our drafter as without one, and what it finds is right."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.hybrid_prefix_cache import PAGE, REQUESTS, counters, requests, run
from tests.engine.hybrid import disagreements, gaps, reference_logits
from tests.engine.test_hybrid import NEAR_TIE
from vllm_dflash.engine import probe


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prefix")


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, Any]:
    return run(folder)


def test_hits_are_those_without_a_drafter(results: dict[str, Any]) -> None:
    none, stock, ours = (counters(results[name]) for name in ("none", "stock", "ours"))
    print(f"no speculation {none}, stock {stock}, ours {ours}")
    assert none["queries"] == stock["queries"] == ours["queries"] > 0
    assert none["hits"] == 3 * PAGE * (REQUESTS - 1)
    assert ours["hits"] == none["hits"]
    if (probe.vllm_release() or "").startswith("0.32."):
        assert stock["hits"] <= ours["hits"] - PAGE * (REQUESTS - 1)


def test_context_found_in_the_cache_is_right(folder: Path, results: dict[str, Any]) -> None:
    """Requests that hit draft what the reference drafts from the whole prompt, and their tokens are the target's."""
    ours = results["ours"]
    assert ours["tokens"] == results["none"]["tokens"]
    for i, request in enumerate(requests()):
        tokens, verified = ours["tokens"][i], ours["verified"][i]
        # The cold prompt comes in two chunks, cut where its recurrent state is cached; the first has no anchor yet.
        # Behind the last verified draft 0.33 drafts no more: what it returns then is the step before's.
        drafts = [step[0] for step in ours["drafts"][i][0 if i else 1 :]][: len(verified)]
        logits = reference_logits(folder / "target", folder / "drafter", request["prompt"], tokens, drafts)
        assert len(logits) == len(drafts) > 1
        assert disagreements(logits, drafts, NEAR_TIE) == 0, (i, drafts, gaps(logits, drafts))
