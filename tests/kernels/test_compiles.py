# SPDX-License-Identifier: Apache-2.0
"""Every Triton kernel makes code for each kind of card, GPU or not: within its shared memory, and not a bare trap.

That is what Triton makes, without an error, of a kernel that asks for more tensor memory than a Blackwell card has.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.kernels.device import INTERPRETED
from vllm_dflash.errors import UserError

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled in Triton's interpreter")
absent_card = pytest.importorskip("tests.kernels.absent_card", reason="needs Triton")
BF16, FP32, FP8 = torch.bfloat16, torch.float32, torch.float8_e4m3fn
if not absent_card.TOOLS.joinpath("ptxas").exists():
    pytest.skip(f"this Triton has no assembler: {absent_card.TOOLS}/ptxas", allow_module_level=True)


@pytest.fixture(params=absent_card.cards())
def card(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = absent_card.cards()[request.param]
    found.use(monkeypatch)
    return found


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = absent_card.cards()["H200"]
    found.use(monkeypatch)
    return found


def attention(
    batch: int,
    window: int | None,
    rows: int = 16,
    heads: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    dtype: torch.dtype = BF16,
    cache: torch.dtype | None = None,
) -> None:
    """Draft attention on tensors without data; a drafter of Qwen3.6-27B unless said otherwise."""
    from vllm_dflash.kernels.drafter_attention import drafter_attention
    from vllm_dflash.kernels.drafter_attention_plan import new_counters

    with FakeTensorMode():
        cuda = torch.device("cuda")
        query = torch.empty(batch * rows, heads, head_dim, device=cuda, dtype=dtype)
        key = torch.empty(batch * rows, kv_heads, head_dim, device=cuda, dtype=dtype)
        pages = torch.empty(1000, kv_heads, 16, 2 * head_dim, device=cuda, dtype=cache or dtype).transpose(1, 2)
        index = [
            torch.empty(*shape, device=cuda, dtype=torch.int32) for shape in ((batch, 512), (batch,), (batch + 1,))
        ]
        scales = {f"{name}_scale": torch.empty(1, device=cuda) for name in ("key", "value") if cache}
        drafter_attention(
            query, key, key, pages.narrow(-1, 0, head_dim), pages.narrow(-1, head_dim, head_dim), *index,
            torch.empty_like(query), max_rows=rows, scale=0.1, window=window, causal=window is not None,
            counters=new_counters(cuda), **scales,
        )  # fmt: skip


def check(card: Any, launches: int) -> None:
    assert len(card.compiled) == launches
    for kernel in card.compiled:
        assert kernel.metadata.shared <= card.shared, kernel.name
        assert "trap;" not in kernel.asm["ptx"], kernel.name


SHAPES: dict[str, dict[str, Any]] = {
    "a window": {"batch": 1, "window": 2048},
    "full": {"batch": 4, "window": None},
    "groups of 16, heads of 256": {"batch": 2, "window": None, "heads": 32, "kv_heads": 2, "head_dim": 256},
    "fp32, groups of 16, heads of 256": {
        "batch": 2, "window": 64, "heads": 16, "kv_heads": 1, "head_dim": 256, "rows": 8, "dtype": FP32,
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_draft_attention(card: Any, shape: str) -> None:
    attention(**SHAPES[shape])
    waits = card.capability == (9, 0) and shape in ("full", "groups of 16, heads of 256")
    check(card, launches=1 if waits else 2)


def test_draft_attention_reads_fp8_where_the_card_can(card: Any) -> None:
    if card.capability >= (8, 9):
        attention(8, 2048, cache=FP8)
        check(card, launches=1 if card.capability == (9, 0) else 2)
    else:
        with pytest.raises(UserError, match=r"float8_e4m3fn on compute capability 8.0'; needed .* 8.9"):
            attention(8, 2048, cache=FP8)


def test_more_rows_than_fit_are_refused(h200: Any) -> None:
    attention(1, None, rows=128, heads=2, kv_heads=1, head_dim=256)
    check(h200, launches=1)
    with pytest.raises(UserError, match="max_rows: found 129; needed at most 128"):
        attention(1, None, rows=129, heads=2, kv_heads=1, head_dim=256)


@pytest.mark.parametrize("batch, window", [(1, 2048), (4, 2048), (16, 2048), (64, 2048), (1, None), (16, None)])
def test_two_programs_fit_a_multiprocessor(h200: Any, batch: int, window: int | None, tmp_path: Path) -> None:
    """What the plan counts on, at the measured shape: half of 228 KiB each, half of 64 Ki registers, none spilled."""
    attention(batch, window)
    kernel = h200.compiled[0]
    used = absent_card.resources(kernel, tmp_path)
    assert kernel.metadata.shared + 1024 <= 114 * 1024
    assert used["REG"] * 32 * kernel.metadata.num_warps <= 32 * 1024
    assert used["STACK"] == 0


@pytest.mark.parametrize("seed", [0, 1, 11])
def test_context_kv_is_one_launch(card: Any, seed: int) -> None:
    from tests.kernels.context_kv_cases import SHAPES as KINDS
    from tests.kernels.context_kv_cases import case
    from vllm_dflash.kernels import context_kv

    if KINDS[seed][5] == FP8 and card.capability < (8, 9):
        pytest.skip("refused there: tests/kernels/test_context_kv.py")
    c = case(seed, rows=16)
    context_kv.launch(c.keys, c.values, c.positions, c.slots, c.table())
    check(card, launches=1)


@pytest.mark.parametrize("seed", [0, 8])
def test_mask_fill_is_one_launch(card: Any, seed: int) -> None:
    from tests.kernels.test_mask_fill import case, run_kernel

    c = case(seed)
    assert seed or len(c.groups) > 1
    run_kernel(c)
    check(card, launches=1)
