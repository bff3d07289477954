# SPDX-License-Identifier: Apache-2.0
"""Cases for drafter_attention, named and random, and what must hold of each against the float64 reference."""

import random
from dataclasses import dataclass, replace

import torch

from tests.kernels.device import DEVICE
from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.kernels import drafter_attention as kernels
from vllm_dflash.kernels.drafter_attention_plan import Plan, new_counters, plan
from vllm_dflash.reference.drafter_attention import drafter_attention as reference

TOLERANCE = {torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}
FP8 = torch.float8_e4m3fn
SAME = 13


@dataclass(frozen=True)
class Case:
    """rows: of each request. context: of each request, None for a request of length 0. layout: of the cache.

    meet: the parts may be merged in the same launch, which the interpreter, that runs one program at a time, cannot.
    """

    rows: tuple[int, ...]
    context: tuple[int | None, ...]
    kv_heads: int = 2
    group: int = 4
    head_dim: int = 64
    page: int = 16
    window: int | None = None
    causal: bool = False
    sinks: bool = False
    dtype: torch.dtype = torch.float32
    cache: torch.dtype | None = None
    layout: str = "heads first"
    splits: int = 3
    tile: int = 32
    apart: bool = False
    padding: int = 0
    meet: bool = False


def tensors(case: Case, seed: int) -> dict[str, torch.Tensor]:
    """Inputs in float64 on the CPU; whatever must not be read is NaN."""
    generator = torch.Generator().manual_seed(seed)
    total, heads = sum(case.rows) + case.padding, case.kv_heads * case.group
    lengths = [0 if c is None else c + r for c, r in zip(case.context, case.rows, strict=True)]
    pages = [-(-(c or 0) // case.page) for c in case.context]
    blocks = sum(pages) + 3
    cache = torch.full((blocks, case.page, case.kv_heads, 2 * case.head_dim), torch.nan, dtype=torch.float64)
    table = torch.zeros(len(lengths), max([*pages, 1]) + 1, dtype=torch.int32)
    free = torch.randperm(blocks - 1, generator=generator)[: sum(pages)] + 1
    at = 0
    for i, count in enumerate(pages):
        own = free[at : at + count]
        table[i, :count] = own.int()
        at += count
        c = torch.arange(case.context[i] or 0)
        cache[own[c // case.page], c % case.page] = torch.randn(
            len(c), case.kv_heads, 2 * case.head_dim, generator=generator, dtype=torch.float64
        )
    random_ = torch.randn(3, total, heads, case.head_dim, generator=generator, dtype=torch.float64)
    return {
        "query": random_[0],
        "key": random_[1, :, : case.kv_heads],
        "value": random_[2, :, : case.kv_heads],
        "cache": cache,
        "block_table": table,
        "seq_lens": torch.tensor(lengths, dtype=torch.int32),
        "query_start_loc": torch.tensor([0, *torch.tensor(case.rows).cumsum(0).tolist()], dtype=torch.int32),
        "sinks": torch.randn(heads, generator=generator, dtype=torch.float64),
    }


def placed(cache: torch.Tensor, layout: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """key_cache, value_cache [blocks, page, kv_heads, head_dim] as views of one tensor in a layout vLLM has had."""
    half = cache.shape[-1] // 2
    if layout == "heads first":  # [blocks, kv_heads, page, 2 head_dim]
        kept = cache.transpose(1, 2).contiguous().to(DEVICE, dtype).transpose(1, 2)
        return kept[..., :half], kept[..., half:]
    pair = torch.stack([cache[..., :half], cache[..., half:]], dim=0 if layout == "pair first" else 1)
    pair = pair.contiguous().to(DEVICE, dtype)
    return (pair[0], pair[1]) if layout == "pair first" else (pair[:, 0], pair[:, 1])


def cut(case: Case) -> Plan:
    """The plan of this shape with the case's splits and part for the block, and its tile where that is smaller."""
    usual = plan(
        len(case.rows), case.kv_heads, max(case.rows), case.group, case.head_dim, case.dtype.itemsize, case.window,
        torch.device(DEVICE),
    )  # fmt: skip
    return replace(usual, splits=case.splits, tile=min(case.tile, usual.tile), block_apart=case.apart)


def check(case: Case, seed: int = 0) -> None:
    given = tensors(case, seed)
    rule = DraftLayer(window=case.window, causal=case.causal, rope=Rope(theta=1e4, rotary_dim=case.head_dim))
    cache_dtype = case.cache or case.dtype
    key_scale, value_scale = (0.05, 0.07) if cache_dtype == FP8 else (1.0, 1.0)
    half = case.head_dim
    stored = given["cache"].clone()
    stored[..., :half] /= key_scale
    stored[..., half:] /= value_scale
    key_cache, value_cache = placed(stored, case.layout, cache_dtype)
    moved = {k: given[k].to(DEVICE, case.dtype) for k in ("query", "key", "value", "sinks")}
    exact_cache = torch.cat([key_cache.double().cpu() * key_scale, value_cache.double().cpu() * value_scale], dim=-1)
    index = {k: given[k].to(DEVICE) for k in ("block_table", "seq_lens", "query_start_loc")}
    expected = reference(
        *(moved[k].double().cpu() for k in ("query", "key", "value")),
        exact_cache[..., :half], exact_cache[..., half:],
        *(given[k] for k in index), rule, half**-0.5, moved["sinks"].double().cpu() if case.sinks else None,
    )  # fmt: skip
    out = torch.full_like(moved["query"], torch.nan)
    counters = new_counters(torch.device(DEVICE)) if case.meet else None
    scales = {}
    if cache_dtype == FP8:
        scales = {
            "key_scale": torch.tensor([key_scale], device=DEVICE),
            "value_scale": torch.tensor([value_scale], device=DEVICE),
        }
    kernels.drafter_attention(
        moved["query"], moved["key"], moved["value"], key_cache, value_cache, *index.values(), out,
        max_rows=max(case.rows), scale=half**-0.5, window=case.window, causal=case.causal,
        sinks=moved["sinks"] if case.sinks else None, **scales,
        how=cut(case) if case.splits else None, counters=counters,
    )  # fmt: skip
    if counters is not None:
        assert not (counters % 65536).any(), "each launch adds the same to a counter"
    real = sum(case.rows)
    torch.testing.assert_close(
        out[:real].double().cpu(), expected[:real], rtol=0, atol=TOLERANCE[case.dtype], msg=lambda m: f"{case}\n{m}"
    )
    assert out[real:].isnan().all(), "rows of no request must be left alone"


CASES = {
    "one request": Case(rows=(8,), context=(100,)),
    "first page only partly filled": Case(rows=(8,), context=(5,)),
    "no context": Case(rows=(3,), context=(0,)),
    "length 0 beside others": Case(rows=(4, 4, 4), context=(20, None, 33), padding=2),
    "rows differ, one has none": Case(rows=(8, 0, 1, 5), context=(64, 0, 31, 16)),
    "causal": Case(rows=(8, 8), context=(31, 70), causal=True),
    "window, causal": Case(rows=(8, 8), context=(31, 170), window=32, causal=True),
    "window, both ways": Case(rows=(8, 8), context=(31, 170), window=32),
    "window smaller than the block": Case(rows=(8, 8), context=(2, 90), window=3),
    "window of one, causal": Case(rows=(4,), context=(40,), window=1, causal=True),
    "window at W - 1, W, W + 1": Case(rows=(5, 5, 5), context=(31, 32, 33), window=32),
    "sinks": Case(rows=(8, 3), context=(40, 0), sinks=True),
    "sinks, one split": Case(rows=(8, 3), context=(40, 0), sinks=True, splits=1),
    "one split": Case(rows=(8, 8), context=(40, 7), splits=1),
    "more splits than tiles": Case(rows=(8,), context=(40,), splits=9),
    "the block apart": Case(rows=(8, 3), context=(170, 40), window=32, apart=True),
    "the block apart, causal, sinks": Case(rows=(8, 3, 2), context=(40, 0, None), causal=True, sinks=True, apart=True),
    "one split and the block apart": Case(rows=(8, 8), context=(40, 7), splits=1, apart=True),
    "as many parts as there can be": Case(rows=(8,), context=(1030,), splits=32, apart=True),
    "more parts than the merge reads at once": Case(
        rows=(2, 1), context=(1030, 40), kv_heads=1, group=2, head_dim=128, splits=32, apart=True
    ),
    "splits chosen by the plan": Case(rows=(8,), context=(300,), window=128, causal=True, splits=0),
    "group of three": Case(rows=(8,), context=(50,), kv_heads=3, group=3),
    "one query head": Case(rows=(5,), context=(50,), kv_heads=1, group=1),
    "head of 80": Case(rows=(4,), context=(50,), head_dim=80),
    "head of 96": Case(rows=(4,), context=(50,), head_dim=96, group=2),
    "head of 256": Case(rows=(2,), context=(50,), head_dim=256, group=2),
    "heads of a group in two pieces": Case(rows=(16, 5), context=(50, 0), group=16, head_dim=256, dtype=torch.float16),
    "a piece for each head, the block apart": Case(
        rows=(60,), context=(90,), group=5, head_dim=128, window=64, causal=True, sinks=True, apart=True
    ),
    "rows for more than one tile": Case(rows=(100, 70), context=(40, 90), kv_heads=1, group=3, window=80),
    "large odd pages": Case(rows=(8,), context=(1100,), page=1056, window=64, causal=True, group=2),
    "keys and values apart": Case(rows=(4,), context=(50,), layout="pair first"),
    "keys and values apart in each block": Case(rows=(4,), context=(50,), layout="pair second"),
    "bf16": Case(rows=(8, 8), context=(100, 3), dtype=torch.bfloat16, window=48),
    "fp16": Case(rows=(8, 8), context=(100, 3), dtype=torch.float16),
    "fp8 pages": Case(rows=(8, 8), context=(100, 3), dtype=torch.bfloat16, cache=FP8),
}


def random_case(seed: int) -> Case:
    """What a kernel is compiled for changes with every 13th seed, lengths with every one."""
    kind, draw = random.Random(seed // SAME), random.Random(seed)
    requests, rows = draw.randint(1, 6), kind.randint(1, 16)
    dtype = kind.choice([torch.float32, torch.bfloat16, torch.bfloat16, torch.float16])
    head_dim = kind.choice([64, 64, 80, 96, 128, 128, 256])
    return Case(
        rows=tuple(draw.choice([rows, rows, rows, draw.randint(0, rows)]) for _ in range(requests - 1)) + (rows,),
        context=tuple(draw.choice([None, 0, draw.randint(0, 40), draw.randint(0, 900)]) for _ in range(requests)),
        kv_heads=draw.choice([1, 2, 3, 8]),
        group=kind.choice([1, 2, 3, 4, 5, 8, 16]) if head_dim < 256 else kind.choice([1, 2, 4, 16]),
        head_dim=head_dim,
        page=kind.choice([16, 16, 32, 48, 128, 864, 1056]),
        window=kind.choice([1, 7, 64, 128, 500]) if kind.random() < 0.6 else None,
        causal=kind.random() < 0.5,
        sinks=kind.random() < 0.3,
        dtype=dtype,
        cache=FP8 if dtype is not torch.float32 and kind.random() < 0.2 else None,
        layout=kind.choice(["heads first", "pair first", "pair second"]),
        splits=kind.choice([0, 1, 2, 5, 16]),
        tile=kind.choice([32, 64, 64]),
        padding=draw.randint(0, 3),
        apart=draw.random() < 0.4,
        meet=kind.random() < 0.7,
    )
