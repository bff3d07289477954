# SPDX-License-Identifier: Apache-2.0
"""The compiled CPU backend does what the torch backend does, layer by layer, on vLLM's metadata."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("vllm", reason="needs vLLM")
from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.kernels import native

if native.problem() is not None:
    pytest.skip(f"no compiled kernels: {native.problem()}", allow_module_level=True)
from vllm_dflash.engine import attention_cpu, attention_torch

HEADS, KV_HEADS, DIM, PAGE = 6, 2, 32, 32


def layer(module: Any, rule: DraftLayer, sinks: torch.Tensor | None) -> Any:
    """An implementation without vLLM's constructor, which wants a whole engine configuration."""
    impl = object.__new__(module.Impl)
    impl.scale, impl.sinks, impl.is_fp8_kv_cache = DIM**-0.5, sinks, False
    impl.follow(rule)
    return impl


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("window", [None, 40])
def test_store_and_forward_are_those_of_the_torch_path(dtype: torch.dtype, sinks: bool, window: int | None) -> None:
    torch.manual_seed(0)
    rule = DraftLayer(window, window is not None, Rope(1e4, DIM))
    lengths, rows = [5, 0, 100, 64], [5, 0, 5, 3]
    starts = torch.tensor([0, 5, 5, 10, 13], dtype=torch.int32)
    table = torch.randperm(16)[:16].int().view(4, 4)
    metadata = SimpleNamespace(
        block_table=table, query_start_loc=starts, seq_lens=torch.tensor(lengths, dtype=torch.int32)
    )
    padded = sum(rows) + 2
    query, key, value = (torch.randn(padded, n, DIM).to(dtype) for n in (HEADS, KV_HEADS, KV_HEADS))
    slots = torch.full((padded,), -1)
    for i, (length, count) in enumerate(zip(lengths, rows, strict=True)):
        positions = torch.arange(length - count, length)
        slots[starts[i] : starts[i + 1]] = table[i, positions // PAGE].long() * PAGE + positions % PAGE
    cache = torch.randn(16, KV_HEADS, PAGE, 2 * DIM).to(dtype)
    sink_logits = torch.randn(HEADS) if sinks else None
    results = []
    for module in (attention_torch, attention_cpu):
        impl, own = layer(module, rule, sink_logits), cache.clone()
        impl.do_kv_cache_update(None, key, value, own, slots)
        output = torch.full((padded, HEADS * DIM), float("nan"), dtype=dtype)
        assert impl.forward(None, query, key, value, own, metadata, output) is output
        results.append((own, output))
    (torch_cache, torch_output), (cpu_cache, cpu_output) = results
    assert torch.equal(torch_cache, cpu_cache)
    assert not torch.equal(torch_cache, cache)
    tolerance = 2e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(cpu_output, torch_output, atol=tolerance, rtol=tolerance)


def test_without_metadata_the_output_is_zero() -> None:
    impl = layer(attention_cpu, DraftLayer(None, False, Rope(1e4, DIM)), None)
    query, output = torch.randn(4, HEADS, DIM), torch.full((4, HEADS * DIM), float("nan"))
    impl.forward(None, query, query[:, :KV_HEADS], query[:, :KV_HEADS], torch.empty(0), None, output)
    assert not output.any()


def test_the_backend_is_named_as_vllms_own() -> None:
    """vLLM looks metadata builders up by the backend; only the implementation is ours."""
    assert attention_cpu.Backend.get_impl_cls() is attention_cpu.Impl
    assert attention_cpu.Backend.get_name() == "CPU_ATTN"
