# SPDX-License-Identifier: Apache-2.0
"""Two CPU ranks: heads, sinks and the borrowed head are split, and nothing changes. One KV head is shared by both."""

from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from tests.engine.conftest import WINDOW, K, llm, prompt, reference

PROMPTS, TOKENS = [prompt(n, 200 + n) for n in (3, 40)], 24


@pytest.fixture(scope="module")
def with_sinks(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sinks")
    (root / "target").symlink_to(pair / "target")
    tiny.drafter(root / "SSF", "SSF", window=WINDOW, block=K + 1, sinks=True)
    return root


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_change_nothing(with_sinks: Path, engines: Any, ranks: int) -> None:
    arguments = llm(with_sinks / "target", with_sinks / "SSF", K, tensor_parallel_size=ranks)
    requests = [{"prompt": p, "max_tokens": TOKENS, "ignore_eos": True} for p in PROMPTS]
    bind = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"} if ranks == 2 else {}
    (result,) = engines([{"llm": arguments, "requests": requests}], **bind)
    expected = reference(with_sinks, "SSF", PROMPTS, TOKENS)
    assert result["tokens"] == [g.tokens for g in expected]
    counted = result["metrics"]["spec_decode_num_accepted_tokens_per_pos"]
    assert counted == [sum(a > i for g in expected for a in g.accepted) for i in range(K)]
    if ranks == 1:
        for steps, want in zip(result["drafts"], expected, strict=True):
            assert [step[0] for step in steps][: len(want.drafts)] == want.drafts


def test_sinks_matter(pair: Path, with_sinks: Path) -> None:
    plain, sunk = (reference(folder, "SSF", PROMPTS, TOKENS) for folder in (pair, with_sinks))
    assert [g.drafts for g in plain] != [g.drafts for g in sunk]
