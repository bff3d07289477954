# SPDX-License-Identifier: Apache-2.0
"""The Triton kernel against the float64 reference, on odd shapes. Without a GPU it runs in Triton's interpreter."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.kernels.device import DEVICE, runs_triton
from tests.kernels.drafter_attention_cases import CASES, Case, check, placed, random_case, tensors
from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import drafter_attention as kernels
from vllm_dflash.kernels import drafter_attention_plan
from vllm_dflash.kernels.drafter_attention_plan import SHARED, Plan, _processors, _shared, new_counters, plan
from vllm_dflash.reference.drafter_attention import drafter_attention as reference

pytestmark = runs_triton


@pytest.mark.parametrize("name", CASES)
def test_equals_the_reference(name: str) -> None:
    if DEVICE == "cpu" and torch.bfloat16 in (CASES[name].dtype, CASES[name].cache):
        pytest.skip("Triton's interpreter multiplies no bf16 matrices; runs on a GPU")
    check(CASES[name])


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_equals_the_reference_in_one_launch(name: str) -> None:
    check(replace(CASES[name], meet=True))


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(8))
def test_random_shapes_on_the_gpu(part: int) -> None:
    """520 cases in all; a failure names the seed, which makes the case again."""
    print(f"seeds {part * 65} to {part * 65 + 64}")
    for seed in range(part * 65, part * 65 + 65):
        case = random_case(seed)
        try:
            check(case, seed)
        except Exception as error:
            pytest.fail(f"seed {seed}: {case}\n{type(error).__name__}: {error}")


@pytest.mark.gpu
@pytest.mark.parametrize("at_once", [0, 264], ids=["two launches", "one launch"])
def test_a_captured_graph_follows_new_lengths(at_once: int) -> None:
    """Captured with one set of lengths and pages, replayed with others."""
    case = Case(rows=(8, 8, 8), context=(700, 300, 5), head_dim=128, dtype=torch.bfloat16, window=256, splits=8)
    rule = DraftLayer(window=256, causal=False, rope=Rope(theta=1e4, rotary_dim=128))
    given = tensors(case, 1)
    key_cache, value_cache = placed(given["cache"], "heads first", torch.bfloat16)
    moved = {k: given[k].to(DEVICE, case.dtype) for k in ("query", "key", "value")}
    index = {k: given[k].to(DEVICE) for k in ("block_table", "seq_lens", "query_start_loc")}
    out = torch.empty_like(moved["query"])
    counters = new_counters(torch.device(DEVICE))

    def launch() -> None:
        kernels.drafter_attention(
            *moved.values(), key_cache, value_cache, *index.values(), out,
            max_rows=8, scale=0.1, window=256, causal=False, how=Plan(splits=8, at_once=at_once),
            counters=counters,
        )  # fmt: skip

    launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    for lengths in ([708, 308, 13], [100, 308, 8], [0, 9, 13], [708, 0, 0]):
        index["seq_lens"].copy_(torch.tensor(lengths, dtype=torch.int32))
        out.fill_(torch.nan)
        graph.replay()
        expected = reference(
            *(t.double().cpu() for t in moved.values()), key_cache.double().cpu(), value_cache.double().cpu(),
            given["block_table"], torch.tensor(lengths), given["query_start_loc"], rule, 0.1,
        )  # fmt: skip
        torch.testing.assert_close(out.double().cpu(), expected, rtol=0, atol=3e-2)


@pytest.mark.parametrize("capability, waits", [((8, 0), False), ((9, 0), True), ((10, 0), False), ((12, 0), False)])
def test_programs_wait_for_one_another_on_hopper_only(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], waits: bool
) -> None:
    """Nowhere else was it tried."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    card = SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=SHARED)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    for cached in (_processors, _shared):
        monkeypatch.setattr(drafter_attention_plan, cached.__name__, cached.__wrapped__)
    chosen = plan(1, 8, 16, 4, 128, 2, 2048, torch.device("cuda"))
    assert chosen.at_once == (264 if waits else 0)


def test_bad_input_is_named() -> None:
    case = Case(rows=(4,), context=(10,))
    given = tensors(case, 0)
    key_cache, value_cache = placed(given["cache"], "heads first", torch.float32)
    moved = {k: given[k].to(DEVICE, torch.float32) for k in ("query", "key", "value")}
    index = {k: given[k].to(DEVICE) for k in ("block_table", "seq_lens", "query_start_loc")}
    out = torch.empty_like(moved["query"])
    arguments: dict[str, Any] = {
        **moved, "key_cache": key_cache, "value_cache": value_cache, **index, "out": out,
        "max_rows": 4, "scale": 1.0, "window": None, "causal": False,
    }  # fmt: skip
    kernels.drafter_attention(**arguments)
    for field, bad in {
        "window": 0,
        "scale": -1.0,
        "max_rows": 257,
        "key": moved["key"][:, :, :32],
        "value": moved["value"].bfloat16(),
        "seq_lens": index["seq_lens"].long(),
        "query_start_loc": index["query_start_loc"][:1],
        "key_cache": key_cache.transpose(-1, -2).contiguous().transpose(-1, -2),
        "out": out[:2],
    }.items():
        with pytest.raises(UserError, match=field):
            kernels.drafter_attention(**(arguments | {field: bad}))
