# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import pytest

from vllm_dflash.bench.acceptance import Counters, length_by_category, read

METRICS = [
    SimpleNamespace(name="vllm:spec_decode_num_drafts", value=10),
    SimpleNamespace(name="vllm:spec_decode_num_draft_tokens", value=30),
    SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens", value=12),
    SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens_per_pos", values=[7, 4, 1]),
    SimpleNamespace(name="vllm:num_preemptions", value=2),
    SimpleNamespace(name="vllm:generation_tokens", value=999),
]


def test_reads_vllms_counters_and_sums_engines() -> None:
    once = read(METRICS)
    assert once == Counters(10, 30, 12, (7, 4, 1), 2)
    assert read(METRICS * 2) == Counters(20, 60, 24, (14, 8, 2), 4)


def test_length_rate_and_positions() -> None:
    counted = read(METRICS)
    assert counted.length == pytest.approx(2.2)
    assert counted.rate == pytest.approx(0.4)
    assert counted.rate_by_position == pytest.approx([0.7, 0.4, 0.1])
    assert sum(counted.rate_by_position) + 1 == pytest.approx(counted.length)


def test_only_what_came_after_counts() -> None:
    assert read(METRICS * 3).since(read(METRICS)) == read(METRICS * 2)
    assert read(METRICS).since(Counters()) == read(METRICS)


def test_nothing_drafted_has_no_length() -> None:
    empty = read([])
    assert (empty.length, empty.rate, empty.rate_by_position) == (None, None, [])


def test_categories_are_weighted_by_steps_not_by_prompts() -> None:
    # "a": 1 step of 4 tokens and 3 steps of 1; "b" never took a step; "c" all rejected.
    lengths = length_by_category([[0, 0, 0, 1], [3, 0, 0, 0], [], [5]], ["a", "a", "b", "c"])
    assert lengths == {"a": pytest.approx(7 / 4), "c": 1.0}
