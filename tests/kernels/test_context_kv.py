# SPDX-License-Identifier: Apache-2.0
"""context_kv against exact arithmetic and against the reference, over odd shapes, strides, dtypes and slots."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.kernels.context_kv_cases import POSITIONS, Case, case, check_exact, check_like_reference
from tests.kernels.device import DEVICE, INTERPRETED, runs_triton
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import context_kv as kernel
from vllm_dflash.kernels.context_kv_arguments import cache_addresses
from vllm_dflash.reference import context_kv as reference

EACH = 24
CASES = EACH if INTERPRETED else 16 * EACH


def run_reference(c: Case) -> None:
    reference.context_kv(c.keys, c.values, c.positions, c.slots, c.layers, **c.options)


def run_kernel(c: Case) -> None:
    kernel.launch(c.keys, c.values, c.positions, c.slots, c.table())


@runs_triton
@pytest.mark.parametrize("first", range(0, CASES, EACH))
def test_random_cases(first: int) -> None:
    for seed in range(first, first + EACH):
        print(f"seed {seed}")
        c, other = case(seed), case(seed)
        run_kernel(c)
        run_reference(other)
        check_exact(c)
        check_like_reference(c, other)


@pytest.mark.skipif(INTERPRETED, reason="does not depend on it")
def test_reference_is_exact() -> None:
    for seed in range(48):
        print(f"seed {seed}")
        c = case(seed)
        run_reference(c)
        check_exact(c)


def test_public_function_takes_what_the_device_has() -> None:
    for seed in range(12):
        print(f"seed {seed}")
        c, other = case(seed), case(seed)
        kernel.context_kv(c.keys, c.values, c.positions, c.slots, c.table())
        run_reference(other)
        check_like_reference(c, other)


@runs_triton
def test_padding_rows_may_hold_anything() -> None:
    """A captured graph reads rows of an earlier batch: NaN, positions far outside the table."""
    c, other = case(3, rows=16), case(3, rows=16)
    padding = torch.arange(16, device=DEVICE) % 3 == 1
    for each in (c, other):
        each.slots[:, padding] = -1
    c.keys[:, padding], c.values[:, padding] = float("nan"), float("inf")
    c.positions[padding] = torch.tensor([2**40, -5, 10**6, -(2**50), POSITIONS], device=DEVICE)
    run_kernel(c)
    run_reference(other)
    check_exact(other)
    check_like_reference(c, other)


@runs_triton
@pytest.mark.parametrize("rows", [0, 1])
def test_no_row_and_one_row(rows: int) -> None:
    c, other = case(5, rows), case(5, rows)
    kernel.context_kv(c.keys, c.values, c.positions, c.slots, c.table())
    run_reference(other)
    check_like_reference(c, other)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_graph_replays_with_new_contents(seed: int) -> None:
    print(f"seed {seed}")
    c, other = case(seed, 64), case(seed, 64)
    table = c.table()
    kernel.context_kv(c.keys, c.values, c.positions, c.slots, table)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.context_kv(c.keys, c.values, c.positions, c.slots, table)
    for each in (c, other):
        generator = torch.Generator().manual_seed(seed + 1)
        each.keys.copy_(torch.randn(each.keys.shape, generator=generator))
        each.values.copy_(torch.randn(each.values.shape, generator=generator))
        each.positions.copy_(torch.randint(0, POSITIONS, (64,), generator=generator))
        each.slots.copy_(torch.stack([torch.randperm(73, generator=generator)[:64] for _ in each.slots]))
        each.slots[:, ::5] = -1
    for buffer in c.buffers:
        buffer.copy_(torch.full(buffer.shape, float("nan")).to(buffer.dtype))
    graph.replay()
    run_reference(other)
    check_exact(c)
    check_like_reference(c, other)


def layer(c: Case, **fields: Any) -> None:
    c.layers[0] = replace(c.layers[0], **fields)


REFUSED: list[tuple[Callable[[Case], object], str]] = [
    (lambda c: setattr(c, "keys", c.keys[:, :, :, ::2]), "keys.shape: found"),
    (lambda c: setattr(c, "values", c.values.float()), "values.dtype: found torch.float32"),
    (lambda c: setattr(c, "keys", c.keys.transpose(2, 3).contiguous().transpose(2, 3)), "keys.stride()"),
    (lambda c: setattr(c, "values", c.values[:, :2]), "values.shape: found"),
    (lambda c: setattr(c, "positions", c.positions[:3]), "positions: found ((3,)"),
    (lambda c: setattr(c, "positions", c.positions.float()), "torch.float32"),
    (lambda c: setattr(c, "slots", c.slots[0]), "slots.shape: found (4,)"),
    (lambda c: setattr(c, "slots", c.slots.to(torch.int16)), "torch.int16"),
    (lambda c: c.layers.clear(), "layers: found []"),
    (lambda c: layer(c, norm_weight=c.layers[0].norm_weight[:7]), "layers[0].norm_weight.shape: found (7,)"),
    (lambda c: layer(c, rope_table=c.layers[0].rope_table[:, :5]), "layers[0].rope_table.shape: found (97, 5)"),
    (lambda c: layer(c, key_cache=c.layers[0].key_cache[0]), "layers[0].key_cache.shape"),
    (lambda c: layer(c, value_cache=c.layers[0].value_cache[1:]), "key and value cache differ"),
    (lambda c: layer(c, key_cache=c.layers[0].key_cache.int()), "layers[0].key_cache.dtype: found torch.int32"),
    (lambda c: layer(c, group=-1), "layers[0].group: found -1"),
    (lambda c: layer(c, group=9), "10 groups or more"),
    (lambda c: layer(c, key_scale=torch.ones(2)), "layers[0].key_scale: found (torch.float32, (2,))"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_refuses(change: Callable[[Case], object], words: str) -> None:
    c = case(0, rows=4)
    change(c)
    with pytest.raises(UserError) as error:
        kernel.context_kv(c.keys, c.values, c.positions, c.slots, c.table())
    assert str(error.value).startswith("context_kv: ")
    assert words in str(error.value)


def test_table_knows_when_a_cache_moved() -> None:
    c = case(1)
    table = c.table()
    assert table.addresses == cache_addresses([(x.key_cache, x.value_cache) for x in c.layers])
    layer(c, value_cache=c.layers[0].value_cache.clone())
    assert table.addresses != cache_addresses([(x.key_cache, x.value_cache) for x in c.layers])
