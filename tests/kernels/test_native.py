# SPDX-License-Identifier: Apache-2.0
"""The compiled attention against float64: random odd shapes, in every instruction set that this processor has.

Whatever must not be read (other pages, slots behind the sequence) and the output are NaN before the call.
"""

import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import native
from vllm_dflash.kernels.native_attention import DrafterAttention
from vllm_dflash.reference.attention import attention, visible_block, visible_context

if native.problem() is not None:
    pytest.skip(f"no compiled kernels: {native.problem()}", allow_module_level=True)

SETS = native.instruction_sets()
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Arithmetic is float32 and the result is rounded once: half a unit of the dtype's last place, and float32's own error.
ROUNDING = {torch.float32: 1e-6, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@dataclass
class Case:
    query: torch.Tensor
    kv_cache: torch.Tensor
    block_table: torch.Tensor
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    rule: DraftLayer
    scale: float
    sinks: torch.Tensor | None
    out: torch.Tensor

    def run(self) -> torch.Tensor:
        attend = DrafterAttention(window=self.rule.window, causal=self.rule.causal, scale=self.scale)
        return attend(
            self.query, self.kv_cache, self.block_table, self.query_start_loc, self.seq_lens, self.sinks, self.out
        )

    def expected(self) -> torch.Tensor:
        """[N, heads, head_dim] float64."""
        result = torch.zeros(self.query.shape, dtype=torch.float64)
        head_dim = self.query.shape[2]
        for i, length in enumerate(self.seq_lens.tolist()):
            start, stop = self.query_start_loc[i : i + 2].tolist()
            if length == 0 or start == stop:
                continue
            positions = torch.arange(length)
            pages, slots = positions // self.kv_cache.shape[2], positions % self.kv_cache.shape[2]
            stored = self.kv_cache[self.block_table[i, pages].long(), :, slots].double()
            rows = positions[start - stop :]
            anchors = torch.full_like(rows, int(rows[0]))
            visible = visible_context(rows, anchors, positions, self.rule)
            visible[:, start - stop :] = visible_block(rows, anchors, self.rule)
            # What no row sees is left out, so that a NaN there does not reach the sum as 0 * NaN.
            seen = visible.any(0)
            sinks = None if self.sinks is None else self.sinks.double()
            key, value = stored[seen][None, ..., :head_dim], stored[seen][None, ..., head_dim:]
            result[start:stop] = exact(self.query[start:stop].double()[None], key, value, visible[:, seen], self, sinks)
        return result


def exact(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: torch.Tensor, case: Case, sinks: Any
) -> torch.Tensor:
    if sinks is None:
        return attention(query, key, value, visible[None], case.scale)[0]
    # The reference computes sinks in float32; with a key of zeros of its own for the sink it stays in float64.
    groups = query.shape[2] // key.shape[2]
    scores = torch.einsum("rhd,shd->hrs", query[0], key[0].repeat_interleave(groups, 1)) * case.scale
    scores = scores.masked_fill(~visible[None], float("-inf"))
    sink = sinks[:, None, None].expand(-1, scores.shape[1], 1)
    weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    return torch.einsum("hrs,shd->rhd", weights, value[0].repeat_interleave(groups, 1))


def random_case(seed: int, **fixed: Any) -> Case:
    """Shapes, dtypes, rule and lengths drawn from `seed`; `fixed` overrides what is drawn."""
    pick = random.Random(seed)
    torch.manual_seed(seed)
    drawn: dict[str, Any] = {
        "kv_heads": pick.choice([1, 2, 3, 5]),
        "group": pick.choice([1, 2, 3, 4, 7, 8]),
        "head_dim": pick.choice([1, 3, 16, 20, 64, 72, 80, 96, 128, 192, 256]),
        "block_size": pick.choice([1, 5, 16, 32, 128, 1056]),
        "window": pick.choice([None, None, 1, 2, 7, 33, 128, 500]),
        "causal": pick.random() < 0.5,
        "sinks": pick.random() < 0.3,
        "dtype": pick.choice(DTYPES),
        "requests": pick.choice([1, 1, 2, 3, 6]),
        "longest": pick.choice([0, 5, 70, 300, 900]),
        "rows": pick.choice([1, 2, 5, 8, 16, 17]),
    }
    drawn["kv_dtype"] = pick.choice([drawn["dtype"], drawn["dtype"], *DTYPES])
    drawn |= fixed
    heads, block_size, head_dim = drawn["kv_heads"] * drawn["group"], drawn["block_size"], drawn["head_dim"]
    rows = [pick.choice([drawn["rows"], pick.randint(0, drawn["rows"])]) for _ in range(drawn["requests"])]
    lengths = [pick.choice([0, r + pick.randint(0, drawn["longest"])]) if pick.random() < 0.2 else
               r + pick.randint(0, drawn["longest"]) for r in rows]  # fmt: skip
    pages = [-(-length // block_size) for length in lengths]
    table = torch.full((len(rows) + 1, max(pages) + 2), -7, dtype=torch.int32)
    order = torch.randperm(sum(pages) + 3)[: sum(pages)].int()
    cache = torch.full((sum(pages) + 3, drawn["kv_heads"], block_size + 1, 2 * head_dim), float("nan"))
    cache = cache.to(drawn["kv_dtype"])[:, :, :block_size]  # a gap between heads: strides are not those of the shape
    for i, count in enumerate(pages):
        table[i, :count] = order[sum(pages[:i]) : sum(pages[: i + 1])]
        for at in range(0, lengths[i], block_size):
            used = min(block_size, lengths[i] - at)
            cache[table[i, at // block_size], :, :used] = torch.randn(drawn["kv_heads"], used, 2 * head_dim).to(cache)
    padding = pick.choice([0, 3])
    total = sum(rows) + padding
    query = torch.randn(total, heads, 3 * head_dim).to(drawn["dtype"])[..., head_dim : 2 * head_dim]
    return Case(
        query=query,
        kv_cache=cache,
        block_table=table,
        query_start_loc=torch.tensor([0, *torch.tensor(rows).cumsum(0).tolist()], dtype=torch.int32),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        rule=DraftLayer(drawn["window"], drawn["causal"], Rope(1e4, head_dim)),
        scale=head_dim**-0.5 * pick.choice([1.0, 4.0]),
        sinks=torch.randn(heads) * 2 if drawn["sinks"] else None,
        out=torch.full((total, heads, head_dim), float("nan"), dtype=drawn["dtype"]),
    )


def assert_close(case: Case, seed: object) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the reference's small steps gain nothing from more
    want = case.expected()
    try:
        torch.set_num_threads(2)
        for name in SETS:
            native.use_instruction_set(name)
            case.out.fill_(float("nan"))
            assert_near(case, want, f"seed {seed}, {name}")
    finally:
        torch.set_num_threads(threads)
        native.use_instruction_set(SETS[0])


def assert_near(case: Case, want: torch.Tensor, name: str) -> None:
    out = case.run()
    relative, sharpness = ROUNDING[case.out.dtype], case.scale * case.query.shape[2] ** 0.5
    bad = (out.double() - want).abs() > 3e-6 * sharpness + relative * want.abs()
    where = f"{name}: {case.rule}, query {tuple(case.query.shape)} {case.query.dtype}, cache "
    assert not out.isnan().any() and not bad.any(), (
        f"{where}{tuple(case.kv_cache.shape)} {case.kv_cache.dtype}, lengths {case.seq_lens.tolist()}: "
        f"off by {(out.double() - want).abs().max():.3g}"
    )


@pytest.mark.parametrize("block", range(10))
def test_random_shapes(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        assert_close(random_case(seed), seed)


@pytest.mark.parametrize("context", [0, 63, 64, 65, 127, 128, 129, 1024])
@pytest.mark.parametrize("window", [None, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_demo_shape(context: int, window: int | None, dtype: torch.dtype) -> None:
    case = random_case(
        context, kv_heads=3, group=3, head_dim=64, block_size=128, window=window, causal=window is not None, rows=8,
        sinks=False, dtype=dtype, kv_dtype=dtype, requests=1, longest=context,
    )  # fmt: skip
    assert_close(case, context)


def test_a_result_depends_on_nothing_but_its_request() -> None:
    fixed = {"dtype": torch.float32, "kv_dtype": torch.float32, "head_dim": 64, "block_size": 16, "longest": 900}
    case = random_case(3, requests=6, rows=8, **fixed)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = case.run().clone()
        torch.set_num_threads(4)
        assert torch.equal(case.run(), one)
    finally:
        torch.set_num_threads(threads)
    attend = DrafterAttention(window=case.rule.window, causal=case.rule.causal, scale=case.scale)
    for i in range(6):
        start, stop = case.query_start_loc[i : i + 2].tolist()
        alone = attend(
            case.query[start:stop], case.kv_cache, case.block_table[i : i + 1],
            torch.tensor([0, stop - start], dtype=torch.int32), case.seq_lens[i : i + 1], case.sinks,
        )  # fmt: skip
        assert torch.equal(alone, one[start:stop])


def test_another_cache_is_noticed() -> None:
    """A layer's attention remembers its cache; a new one, of another shape, takes its place."""
    cases = [random_case(seed, window=7, causal=True, head_dim=16, sinks=False, dtype=torch.float32) for seed in (1, 2)]
    attend = DrafterAttention(window=7, causal=True, scale=0.25)
    for case in (*cases, cases[0]):
        case.rule, case.scale, case.sinks = DraftLayer(7, True, Rope(1e4, 16)), 0.25, None
        out = attend(case.query, case.kv_cache, case.block_table, case.query_start_loc, case.seq_lens)
        torch.testing.assert_close(out.double(), case.expected(), atol=1e-5, rtol=1e-5)


def test_a_large_call_uses_the_threads_that_torch_has() -> None:
    loaded = native.library()
    assert loaded.dflash_thread_library(), "torch brings an OpenMP runtime; its threads are to be used"
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert loaded.dflash_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_extreme_values() -> None:
    """Scores far apart, stored subnormals and infinities: as float64 has them."""
    case = random_case(
        4, dtype=torch.float16, kv_dtype=torch.float16, requests=1, longest=70, rows=5, window=None, block_size=16,
        causal=False, head_dim=16, sinks=False,
    )  # fmt: skip
    first = case.kv_cache[int(case.block_table[0, 0])]
    first[:, 0, :16] = 50.0
    first[:, 0, 16:] = 3e-5  # float16's subnormals
    first[:, 1, 16:] = 6e-8
    case.query[:, :, 0] = 60.0
    assert_close(case, "extreme")
    first[:, 0, 16] = float("inf")
    assert torch.isinf(case.run()[:5, :, 0]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": torch.zeros(8, 4, 16, dtype=torch.float64)}, "query.dtype: found torch.float64"),
        ({"kv_cache": torch.zeros(4, 2, 16, 32, dtype=torch.int8)}, "kv_cache.dtype: found torch.int8"),
        ({"kv_cache": torch.zeros(4, 2, 16, 34)}, "query.shape[2]: found 16; needed 17"),
        ({"kv_cache": torch.zeros(4, 2, 16, 33)}, "kv_cache.shape[3] % 2: found 1; needed 0"),
        ({"kv_cache": torch.zeros(4, 2, 32, 16).transpose(2, 3)}, "kv_cache.stride(-1): found 16; needed 1"),
        ({"query": torch.zeros(8, 16, 4).transpose(1, 2)}, "query.stride(-1): found 4"),
        ({"query": torch.zeros(8, 64)}, "query.dim(): found 2; needed 3"),
        ({"out": torch.zeros(8, 4, 16, dtype=torch.bfloat16)}, "out.dtype: found torch.bfloat16; needed torch.float32"),
        ({"out": torch.zeros(7, 4, 16)}, "out.shape: found torch.Size([7, 4, 16])"),
        ({"block_table": torch.zeros(1, 4, dtype=torch.int64)}, "block_table.dtype: found torch.int64"),
        ({"block_table": torch.zeros(1, 1, dtype=torch.int32)}, "block_table: found 1 pages, needed 2"),
        ({"block_table": torch.full((1, 4), 4, dtype=torch.int32)}, "page 0: found 4, needed a block below 4"),
        ({"block_table": torch.full((1, 4), -1, dtype=torch.int32)}, "page 0: found -1"),
        ({"seq_lens": torch.tensor([5], dtype=torch.int32)}, "seq_lens of request 0: found 5, needed its 8 rows"),
        ({"query_start_loc": torch.tensor([0, 9], dtype=torch.int32)}, "query_start of request 0: found 0 to 9"),
        ({"query_start_loc": torch.tensor([0], dtype=torch.int32)}, "query_start_loc.shape: found torch.Size([1])"),
        ({"kv_cache": torch.zeros(4, 3, 16, 32)}, "heads: found 4, needed a multiple of kv_heads 3"),
        ({"window": 0}, "window: found 0"),
        ({"sinks": torch.zeros(5)}, "sinks.shape: found torch.Size([5])"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_name_what_was_found(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "query": torch.zeros(8, 4, 16),
        "kv_cache": torch.zeros(4, 2, 16, 32),
        "block_table": torch.zeros(1, 4, dtype=torch.int32),
        "query_start_loc": torch.tensor([0, 8], dtype=torch.int32),
        "seq_lens": torch.tensor([30], dtype=torch.int32),
        "window": None,
        "causal": True,
        "scale": 1.0,
        "out": torch.full((8, 4, 16), 7.0),
    }
    run(**given)
    given["out"].fill_(7.0)
    with pytest.raises(UserError) as refused:
        run(**given | change)
    assert message in str(refused.value)
    assert (given["out"] == 7.0).all(), "something was written before the refusal"


def run(window: int | None, causal: bool, scale: float, **tensors: torch.Tensor) -> None:
    DrafterAttention(window=window, causal=causal, scale=scale)(**tensors)
