# SPDX-License-Identifier: Apache-2.0
"""The compiled context_kv and store, in every instruction set, with the cases that the Triton kernel is tested with."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.kernels.context_kv_cases import POSITIONS, Case, case, check_exact, check_like_reference
from tests.kernels.device import INTERPRETED
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import native, native_context_kv
from vllm_dflash.reference import context_kv as reference
from vllm_dflash.reference.context_kv import FP8

if native.problem() is not None or INTERPRETED or torch.cuda.is_available():
    reason = native.problem() or "these cases are on another device here"
    pytest.skip(reason, allow_module_level=True)

SETS = native.instruction_sets()


def run(c: Case) -> None:
    table = c.table()
    torch.set_num_threads(2)
    native_context_kv.context_kv(c.keys, c.values, c.positions, c.slots, table)
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def one_thread_for_the_reference() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run_reference(c: Case) -> None:
    reference.context_kv(c.keys, c.values, c.positions, c.slots, c.layers, **c.options)


@pytest.fixture(params=SETS)
def instruction_set(request: pytest.FixtureRequest) -> Any:
    native.use_instruction_set(request.param)
    yield request.param
    native.use_instruction_set(SETS[0])


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_random_cases(instruction_set: str, first: int) -> None:
    served = 0
    for seed in range(first, first + 40):
        print(f"seed {seed}, {instruction_set}")
        c, other = case(seed), case(seed)
        if c.layers[0].key_cache.dtype == FP8:
            assert not native_context_kv.takes(c.table())
            continue
        assert native_context_kv.takes(c.table())
        run(c)
        run_reference(other)
        check_exact(c)
        check_like_reference(c, other)
        served += 1
    assert served > 20


def test_int32_positions_and_slots_and_positions_outside_the_table() -> None:
    c, other = case(0, 17), case(0, 17)
    c.positions, c.slots = c.positions.int(), c.slots.int()
    c.positions[3], c.positions[4], other.positions[3], other.positions[4] = -5, 10**6, 0, POSITIONS - 1
    run(c)
    run_reference(other)
    check_like_reference(c, other)


def test_a_wider_cache_holds_what_was_rounded_to_the_activations_dtype(instruction_set: str) -> None:
    c, other = case(2, 64), case(2, 64)
    for each in (c, other):
        each.options["factor"] = 0.7
        each.buffers = [buffer.float() for buffer in each.buffers]
        size = each.buffers[0].numel()
        wide = [torch.full((2, size // 128 + 80, 2, 1, 128), float("nan")) for _ in each.layers]
        each.layers = [replace(a, key_cache=w[0], value_cache=w[1]) for a, w in zip(each.layers, wide, strict=True)]
        each.buffers = wide
    run(c)
    run_reference(other)
    check_like_reference(c, other)


def test_rounding_of_every_float16_and_bfloat16(instruction_set: str) -> None:
    """All bit patterns go through float32 and back, and float32 rounds as torch rounds."""
    for dtype in (torch.float16, torch.bfloat16):
        every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype).view(1024, 1, 64)
        wide = torch.cat([every.float(), every.float() * (1 + 2.0**-12), every.float() * (1 + 2.0**-9)])
        wide = torch.cat([wide, torch.randn(1024, 1, 64) * 1e-6, torch.full((1, 1, 64), 65520.0)])
        for source, target in ((every, torch.float32), (wide, dtype)):
            cache = torch.zeros(len(source), 1, 1, 128, dtype=target)
            native_context_kv.store(source, source, cache, torch.arange(len(source)))
            want = source.to(target)[:, :, None]
            for stored in (cache[..., :64], cache[..., 64:]):
                torch.testing.assert_close(stored, want, rtol=0, atol=0, equal_nan=True)


def test_store_skips_rows_without_a_slot(instruction_set: str) -> None:
    torch.manual_seed(0)
    key, value = torch.randn(2, 40, 3, 20)
    cache = torch.full((7, 3, 9, 40), float("nan"))
    slots = torch.randperm(60)[:37]
    slots[::4] = -1
    native_context_kv.store(key, value, cache, slots)
    flat = cache.transpose(1, 2).flatten(0, 1)
    written = slots[slots >= 0]
    assert torch.equal(flat[written], torch.cat([key, value], -1)[:37][slots >= 0])
    assert flat.isnan().all(-1).all(-1).sum() == 63 - len(written)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": torch.tensor([0, 64])}, "slot of row 1: found 64, needed a slot below 64"),
        ({"slots": torch.tensor([0, 1, 2])}, "len(slots): found 2; needed 3"),
        ({"slots": torch.tensor([0.0, 1.0])}, "slots.dtype: found torch.float32; needed torch.int32 or torch.int64"),
        ({"value": torch.zeros(2, 2, 16, dtype=torch.float16)}, "value.dtype: found torch.float16"),
        ({"kv_cache": torch.zeros(4, 2, 16, 16)}, "kv_cache.shape[3]: found 16; needed 32"),
        ({"key": torch.zeros(2, 16, 2).transpose(1, 2)}, "key.stride(-1): found 2; needed 1"),
        ({"kv_cache": torch.zeros(4, 2, 16, 32, dtype=torch.int8)}, "kv_cache.dtype: found torch.int8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_store_refuses_and_writes_nothing(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "key": torch.ones(2, 2, 16),
        "value": torch.ones(2, 2, 16),
        "kv_cache": torch.zeros(4, 2, 16, 32),
        "slots": torch.tensor([0, 63]),
    } | change
    with pytest.raises(UserError) as refused:
        native_context_kv.store(**given)
    assert message in str(refused.value)
    assert not given["kv_cache"].any()
