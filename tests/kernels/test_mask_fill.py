# SPDX-License-Identifier: Apache-2.0
"""mask_fill: worked examples for the reference; the kernel equal to it bit for bit."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from tests.kernels.device import DEVICE, INTERPRETED, runs_triton
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import mask_fill as kernel
from vllm_dflash.kernels import mask_fill_triton
from vllm_dflash.kernels.mask_fill import PAD, BlockInputs, KVGroup, KVGroups, TargetStep
from vllm_dflash.reference import mask_fill as reference

EACH = 24
CASES = 2 * EACH if INTERPRETED else 16 * EACH
POISON, MASK, STATES = -77, 123, 24


@dataclass
class Case:
    step: TargetStep
    groups: list[KVGroup]
    out: BlockInputs
    numbers: dict[str, int]
    longest: int

    def outputs(self) -> list[torch.Tensor]:
        own = [getattr(self.out, field.name) for field in dataclasses.fields(self.out)]
        return [t for t in own if t is not None] + [s for g in self.groups for s in (g.query_slots, g.context_slots)]


def case(seed: int) -> Case:
    g = torch.Generator().manual_seed(seed)

    def some(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high + 1, shape, generator=g)

    def one(low: int, high: int) -> int:
        return int(some(low, high, 1))

    def chance() -> bool:
        return one(0, 1) == 1

    def poisoned(n: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.full((n,), POISON, dtype=dtype, device=DEVICE)

    index = [torch.int32, torch.int64][one(0, 1)]
    requests, drafts, model_len = one(1, 6), [1, 4, 7, 15][seed % 4], 96
    lengths = some(0, 40 if seed % 5 == 0 else 12, requests)
    if seed % 7 == 0:
        lengths[one(0, requests - 1)] = 300
        model_len = 512
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    context = int(starts[-1])
    firsts = [one(0, max(0, model_len - int(n))) for n in lengths]
    positions = torch.cat([torch.arange(f, f + int(n)) for f, n in zip(firsts, lengths, strict=True)])
    with_state, spare = chance(), one(0, 5)
    rows = requests * (1 + drafts)
    padded = rows + [0, 3, 700][one(0, 2)]
    states = torch.randperm(STATES, generator=g)[:requests]
    step = TargetStep(
        torch.cat([positions, some(0, 9, 3)]),
        starts.int(),
        some(0, 999, STATES if with_state else requests, 1).to(index),
        torch.minimum(some(0, drafts, requests), lengths).int() if chance() else None,
        states.to(index) if with_state else None,
    )
    if chance():
        size = STATES if with_state else requests
        step = replace(step, num_sampled=some(0, 2, requests).int(), prefill_tokens=some(0, 999, size).to(index))
    if chance():
        step = replace(step, temperature=torch.rand(STATES, generator=g), seeds=some(0, 9**9, STATES))
    sizes = [[16], [5, 64], [16, 33, 7]][one(0, 2)]
    groups = [
        KVGroup(
            some(0, 30, requests + 1, -(-model_len // size) + one(-1, 2)).int().to(DEVICE),
            size,
            poisoned(padded + 2, torch.int64),
            poisoned(context + 3, torch.int64),
        )
        for size in sizes
    ]
    full, many = chance(), requests * drafts + spare
    out = BlockInputs(
        poisoned(padded + 1, torch.int32),
        poisoned(padded + 1, torch.int64),
        poisoned(context + 3, torch.int64),
        poisoned(many, index),
        poisoned(requests + 1 + spare, torch.int32) if full or chance() else None,
        poisoned(requests + spare, torch.int32) if full or chance() else None,
        poisoned(many, torch.int64) if full or chance() else None,
        poisoned(many, torch.int64) if full or chance() else None,
        torch.zeros(padded + 1, dtype=torch.bool, device=DEVICE) if full or chance() else None,
        poisoned(STATES, torch.float32),
        poisoned(STATES, torch.int64),
    )
    moved = {f.name: getattr(step, f.name) for f in dataclasses.fields(step)}
    step = TargetStep(**{k: None if t is None else t.to(DEVICE) for k, t in moved.items()})
    numbers = {
        "num_reqs": requests,
        "mask_token_id": MASK,
        "num_drafts": drafts,
        "max_model_len": model_len - one(0, 10),
        "padded_tokens": padded,
    }
    return Case(step, groups, out, numbers, int(lengths.max()))


def run_reference(c: Case) -> None:
    reference.mask_fill(c.step, c.groups, c.out, **c.numbers)


def run_kernel(c: Case) -> None:
    mask_fill_triton.launch(c.step, KVGroups(c.groups), c.out, longest_context=c.longest, **c.numbers)


def assert_equal(c: Case, want: Case) -> None:
    for i, (mine, theirs) in enumerate(zip(c.outputs(), want.outputs(), strict=True)):
        assert torch.equal(mine, theirs), (i, mine, theirs)


@runs_triton
@pytest.mark.parametrize("first", range(0, CASES, EACH))
def test_equals_reference(first: int) -> None:
    for seed in range(first, first + EACH):
        print(f"seed {seed}")
        c, want = case(seed), case(seed)
        run_kernel(c)
        run_reference(want)
        assert_equal(c, want)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_graph_replays_with_new_contents(seed: int) -> None:
    print(f"seed {seed}")
    c, want = case(seed), case(seed)
    groups = KVGroups(c.groups)
    call = {"longest_context": c.longest, **c.numbers}
    kernel.mask_fill(c.step, groups, c.out, **call)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.mask_fill(c.step, groups, c.out, **call)
    for each in (c, want):
        each.step.positions.add_(3)
        each.step.anchor_tokens.add_(1)
        if each.step.num_rejected is not None:
            each.step.num_rejected.zero_()
        for group in each.groups:
            group.block_table.copy_(group.block_table.flip(0))
        for output in each.outputs():
            output.fill_(POISON if output.dtype != torch.bool else 0)
    graph.replay()
    run_reference(want)
    assert_equal(c, want)


def example(**changes: Any) -> Case:
    """Two requests: rows at positions 3, 4, 5 (the last rejected) and at 9; k = 2; pages of 4 in a table of 3."""
    step = {
        "positions": torch.tensor([3, 4, 5, 9], device=DEVICE),
        "query_start_loc": torch.tensor([0, 3, 4], dtype=torch.int32, device=DEVICE),
        "anchor_tokens": torch.tensor([50, 60], device=DEVICE),
        "num_rejected": torch.tensor([1, 0], dtype=torch.int32, device=DEVICE),
    }
    table = torch.tensor([[7, 5, 2], [9, 0, 4]], dtype=torch.int32, device=DEVICE)
    size = {"tokens": 8, "requests": 3, **changes}
    long = {"dtype": torch.int64, "device": DEVICE}
    groups = [KVGroup(table, 4, torch.full((8,), POISON, **long), torch.full((4,), POISON, **long))]
    out = BlockInputs(
        *(torch.full((n,), POISON, **long) for n in (8, 8, 4, 6)),
        query_start_loc=torch.full((size["requests"] + 1,), POISON, **long),
        seq_lens=torch.full((size["requests"],), POISON, **long),
        sample_positions=torch.full((6,), POISON, **long),
        sample_requests=torch.full((6,), POISON, **long),
        is_padding=torch.zeros(8, dtype=torch.bool, device=DEVICE),
    )
    numbers = {"num_reqs": 2, "mask_token_id": MASK, "num_drafts": 2, "max_model_len": 12, "padded_tokens": 8}
    return Case(TargetStep(**{**step, **changes.get("step", {})}), groups, out, numbers, 3)


def test_worked_example() -> None:
    c = example()
    kernel.mask_fill(c.step, KVGroups(c.groups), c.out, longest_context=3, **c.numbers)
    out, group = c.out, c.groups[0]
    assert out.input_ids.tolist() == [50, MASK, MASK, 60, MASK, MASK, 0, 0]
    assert out.positions.tolist() == [5, 6, 7, 10, 11, 11, 0, 0]  # 12 is past the served length
    assert group.query_slots.tolist() == [21, 22, 23, 18, 19, PAD, PAD, PAD]
    assert out.context_positions.tolist() == [3, 4, 0, 9]
    assert group.context_slots.tolist() == [31, 20, PAD, 17]
    assert out.seq_lens is not None and out.seq_lens.tolist() == [8, 12, 0]
    assert out.query_start_loc is not None and out.query_start_loc.tolist() == [0, 3, 6, 6]
    assert out.sample_rows.tolist() == [1, 2, 4, 5, 0, 0]
    assert out.sample_positions is not None and out.sample_positions.tolist() == [6, 7, 11, 12, 0, 0]
    assert out.sample_requests is not None and out.sample_requests.tolist() == [0, 0, 1, 1, -1, -1]
    assert out.is_padding is not None and out.is_padding.tolist() == [False] * 6 + [True] * 2


def test_the_null_page_is_never_written() -> None:
    c = example()
    c.step.positions[3] = 5  # page 1 of the second request is vLLM's null page
    kernel.mask_fill(c.step, KVGroups(c.groups), c.out, longest_context=3, **c.numbers)
    assert c.groups[0].context_slots.tolist()[3] == PAD
    assert c.groups[0].query_slots.tolist()[3:6] == [PAD, PAD, 16]


def test_a_request_without_rows_is_padding() -> None:
    c = example(step={"num_rejected": torch.tensor([3, 0], dtype=torch.int32, device=DEVICE)})
    kernel.mask_fill(c.step, KVGroups(c.groups), c.out, longest_context=3, **c.numbers)
    assert c.out.input_ids.tolist()[:4] == [0, 0, 0, 60]
    assert c.groups[0].query_slots.tolist()[:4] == [PAD, PAD, PAD, 18]
    assert c.out.seq_lens is not None and c.out.seq_lens.tolist() == [0, 12, 0]
    assert c.out.sample_requests is not None and c.out.sample_requests.tolist()[:3] == [-1, -1, 1]
    assert c.out.is_padding is not None and c.out.is_padding.tolist()[:4] == [True, True, True, False]


def change(c: Case, part: str, **fields: Any) -> None:
    setattr(c, part, replace(getattr(c, part), **fields))


REFUSED: list[tuple[Callable[[Case], object], str]] = [
    (lambda c: c.numbers.update(num_reqs=0), "num_reqs: found 0"),
    (lambda c: c.numbers.update(num_reqs=3), "num_reqs: found 3"),
    (lambda c: c.numbers.update(padded_tokens=5), "padded_tokens: found 5"),
    (lambda c: c.numbers.update(padded_tokens=9), "padded_tokens: found 9"),
    (lambda c: c.numbers.update(num_drafts=0), "num_drafts: found 0"),
    (lambda c: setattr(c, "longest", 5), "longest_context: found 5"),
    (lambda c: c.groups.clear(), "groups: found []"),
    (lambda c: change(c, "step", positions=c.step.positions.float()), "step.positions.dtype: found torch.float32"),
    (lambda c: change(c, "step", positions=c.step.positions.expand(2, 4).t()), "step.positions.stride()"),
    (lambda c: change(c, "step", num_sampled=c.step.num_rejected), "num_sampled: found"),
    (lambda c: change(c, "step", num_rejected=c.step.positions[:1]), "step.num_rejected: found (1,)"),
    (lambda c: change(c, "out", input_ids=c.out.input_ids[:7]), "out.input_ids: found (7,)"),
    (lambda c: change(c, "out", sample_rows=c.out.sample_rows[:3]), "out.sample_rows: found (3,)"),
    (lambda c: change(c, "out", is_padding=c.out.positions), "out.is_padding: found (torch.int64"),
    (lambda c: change(c, "out", seq_lens=c.out.positions[:2]), "out.seq_lens: found (2, 3)"),
    (lambda c: c.groups.append(replace(c.groups[0], block_size=0)), "groups[1].block_size: found 0"),
    (lambda c: c.groups.append(replace(c.groups[0], block_table=c.out.positions)), "groups[1].block_table: found"),
    (
        lambda c: c.groups.append(replace(c.groups[0], query_slots=c.out.positions.int())),
        "groups[1].query_slots: found",
    ),
]


@pytest.mark.parametrize(("make_bad", "words"), REFUSED)
def test_refuses(make_bad: Callable[[Case], object], words: str) -> None:
    c = example()
    make_bad(c)
    with pytest.raises(UserError) as error:
        kernel.mask_fill(c.step, KVGroups(c.groups), c.out, longest_context=c.longest, **c.numbers)
    assert str(error.value).startswith("mask_fill: ")
    assert words in str(error.value)


def test_groups_know_when_a_tensor_moved() -> None:
    c = example()
    groups = KVGroups(c.groups)
    assert groups.same(c.groups)
    assert not groups.same([replace(c.groups[0], query_slots=c.groups[0].query_slots.clone())])
