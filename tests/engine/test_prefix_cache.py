# SPDX-License-Identifier: Apache-2.0
"""On a hybrid target the prefix cache hits as often with our drafter as without one."""

from pathlib import Path

from benchmarks.hybrid_prefix_cache import PAGE, REQUESTS, measure
from vllm_dflash.engine import probe


def test_hits_are_those_without_a_drafter(tmp_path: Path) -> None:
    found = measure(tmp_path)
    print(found)
    assert found["none"]["queries"] == found["stock"]["queries"] == found["ours"]["queries"] > 0
    assert found["none"]["hits"] == 3 * PAGE * (REQUESTS - 1)
    assert found["ours"]["hits"] >= found["none"]["hits"] - PAGE * (REQUESTS - 1) // 2
    if (probe.vllm_release() or "").startswith("0.32."):
        assert found["stock"]["hits"] <= found["ours"]["hits"] - PAGE * (REQUESTS - 1)
