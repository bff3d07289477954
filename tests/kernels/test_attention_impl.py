# SPDX-License-Identifier: Apache-2.0
"""What the engine hands to the draft attention kernel: vLLM's cache layout and metadata, against the reference."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.kernels.device import DEVICE, runs_triton
from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import selection
from vllm_dflash.reference.drafter_attention import drafter_attention as reference

pytest.importorskip("vllm", reason="needs vLLM")
pytestmark = runs_triton
HEADS, KV_HEADS, DIM, PAGE, ROWS = 6, 2, 64, 16, 4


def implementation(name: str, rule: DraftLayer, **fields: Any) -> Any:
    """An attention implementation as vLLM builds it, without its device set-up."""
    from vllm_dflash.engine import attention_triton

    impl = object.__new__(getattr(attention_triton, name))
    given = {
        "head_size": DIM, "num_heads": HEADS, "num_kv_heads": KV_HEADS, "scale": DIM**-0.5, "kv_cache_dtype": "auto",
        "sinks": None, "sliding_window": (-1, -1), "vllm_flash_attn_version": 3,
    }  # fmt: skip
    for field, value in (given | fields).items():
        setattr(impl, field, value)
    impl.follow(rule)
    impl.insist(always=True)
    return impl


@pytest.mark.parametrize("name", ["FlashImpl", "TritonImpl"])
@pytest.mark.parametrize("window", [None, 8])
def test_forward_is_the_reference(name: str, window: int | None) -> None:
    rule = DraftLayer(window=window, causal=window is not None, rope=Rope(theta=1e4, rotary_dim=DIM))
    generator = torch.Generator().manual_seed(0)
    cache = torch.randn(9, KV_HEADS, PAGE, 2 * DIM, generator=generator).to(DEVICE)
    qkv = torch.randn(2 * ROWS + 3, (HEADS + 2 * KV_HEADS) * DIM, generator=generator).to(DEVICE)
    query, key, value = qkv.split([HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], dim=-1)  # views, as in the model
    query, key, value = (t.unflatten(-1, (-1, DIM)) for t in (query, key, value))
    metadata = SimpleNamespace(
        num_actual_tokens=2 * ROWS,
        max_query_len=ROWS,
        query_start_loc=torch.tensor([0, ROWS, 2 * ROWS], dtype=torch.int32, device=DEVICE),
        seq_lens=torch.tensor([30 + ROWS, 9 + ROWS], dtype=torch.int32, device=DEVICE),
        block_table=torch.tensor([[3, 5, 0], [7, 0, 0]], dtype=torch.int32, device=DEVICE),
    )
    before = cache.clone()
    output = torch.full((2 * ROWS + 3, HEADS, DIM), torch.nan, device=DEVICE)
    found = implementation(name, rule).forward(None, query, key, value, cache, metadata, output)
    assert found is output
    paged = cache.double().cpu().transpose(1, 2)
    expected = reference(
        *(t[: 2 * ROWS].double().cpu() for t in (query, key, value)), paged[..., :DIM], paged[..., DIM:],
        metadata.block_table.cpu(), metadata.seq_lens.cpu(), metadata.query_start_loc.cpu(), rule, DIM**-0.5,
    )  # fmt: skip
    torch.testing.assert_close(output[: 2 * ROWS].double().cpu(), expected, rtol=0, atol=2e-6)
    assert torch.equal(cache, before), "the block's K/V are not stored"


def test_a_batch_it_cannot_take_goes_to_vllms_kernel_or_is_refused() -> None:
    rule = DraftLayer(window=None, causal=False, rope=Rope(theta=1e4, rotary_dim=DIM))
    wide, query = SimpleNamespace(max_query_len=300, seq_lens=torch.zeros(1)), torch.zeros(1, HEADS, DIM)
    assert not implementation("FlashImpl", rule).takes(wide, query)
    with pytest.raises(UserError, match="num_speculative_tokens"):
        implementation("TritonImpl", rule).takes(wide, query)


def test_by_shape_where_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a row in the table: none is in it at present."""
    monkeypatch.setattr(selection, "STOCK_IS_FASTER", (selection.Faster(windowed=False, least=65, most=256),))
    rule = DraftLayer(window=None, causal=False, rope=Rope(theta=1e4, rotary_dim=DIM))
    impl = implementation("FlashImpl", rule)
    impl.insist(always=False)
    few, many = (SimpleNamespace(max_query_len=8, seq_lens=torch.zeros(n)) for n in (1, 64))
    query = torch.zeros(1, HEADS, DIM)
    assert (impl.takes(few, query), impl.takes(many, query)) == (True, False)
    impl.vllm_flash_attn_version = 2
    assert impl.takes(many, query)


def test_other_caches_are_refused() -> None:
    rule = DraftLayer(window=None, causal=False, rope=Rope(theta=1e4, rotary_dim=DIM))
    with pytest.raises(UserError, match="kv_cache_dtype"):
        implementation("FlashImpl", rule, kv_cache_dtype="fp8_e5m2")


def test_vllms_kernel_finds_the_block_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where FlashAttention runs, the block's K/V are stored first: it reads them from the pages."""
    from vllm_dflash.engine import attention_flash

    rule = DraftLayer(window=None, causal=False, rope=Rope(theta=1e4, rotary_dim=DIM))
    impl, done = implementation("FlashImpl", rule), []
    monkeypatch.setattr(impl, "do_kv_cache_update", lambda *given: done.append(("store", given[1:])), raising=False)
    monkeypatch.setattr(attention_flash.Impl, "forward", lambda self, *given: done.append(("attend", given[1:4])))
    metadata, query = SimpleNamespace(max_query_len=300, slot_mapping="slots"), torch.zeros(1, HEADS, DIM)
    impl.forward("layer", query, "key", "value", "cache", metadata, "output")
    assert done == [("store", ("key", "value", "cache", "slots")), ("attend", (query, "key", "value"))]
