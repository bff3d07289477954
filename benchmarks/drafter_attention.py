# SPDX-License-Identifier: Apache-2.0
"""Draft attention on a CUDA device: ours, FlashAttention 3 and vLLM's Triton kernel, in one run.

One draft layer of Qwen3.6-27B's drafter unless said otherwise: 32 query heads, 8 KV heads of 128, bf16, 16 rows a
request, pages of 16. K/V rotate through several caches, so that they come from memory and not from the L2 cache; 20
launches in one CUDA graph, median of 15 replays, the methods' replays in turn. The share is of this card's own copy
rate, measured in the same run.

    python benchmarks/drafter_attention.py --save results.json
    python benchmarks/drafter_attention.py --sweep      # our kernel with other splits and tiles
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from vllm_dflash.bench.conditions import describe_run
from vllm_dflash.bench.gpu_timing import capture, copy_rate, time_in_turn
from vllm_dflash.kernels.drafter_attention import drafter_attention
from vllm_dflash.kernels.drafter_attention_plan import Plan, new_counters, plan

L2_BYTES = 160e6
CONTEXTS = {1: (2048, 8192, 32768, 131072), 4: (2048, 8192, 32768), 16: (2048, 8192, 32768), 64: (2048, 8192)}


@dataclass(frozen=True)
class Shape:
    batch: int
    context: int
    window: int | None
    causal: bool
    rows: int = 16
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    page: int = 16

    @property
    def visible(self) -> int:
        """Context keys that some row sees."""
        return self.context if self.window is None else min(self.context, self.window - 1)

    @property
    def bytes_(self) -> int:
        """K/V read, own block included."""
        return self.batch * (self.visible + self.rows) * self.kv_heads * self.head_dim * 4

    def __str__(self) -> str:
        kind = "full" if self.window is None else f"window {self.window}"
        return f"{self.batch:3d} {self.context:7d} {kind:12s} {'causal' if self.causal else 'both ways'}"


class Inputs:
    """One batch with a cache of its own, pages in random order; the block's own K/V are also in the pages."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        device = torch.device("cuda")
        generator = torch.Generator(device).manual_seed(seed)
        length = shape.context + shape.rows
        pages = -(-length // shape.page)
        blocks = shape.batch * pages + 1
        self.cache = torch.randn(
            blocks, shape.kv_heads, shape.page, 2 * shape.head_dim,
            device=device, dtype=torch.bfloat16, generator=generator,
        )  # fmt: skip
        order = torch.randperm(blocks - 1, device=device, generator=generator) + 1
        self.block_table = order.view(shape.batch, pages).int()
        self.seq_lens = torch.full((shape.batch,), length, dtype=torch.int32, device=device)
        self.query_start_loc = torch.arange(shape.batch + 1, dtype=torch.int32, device=device) * shape.rows
        rows = shape.batch * shape.rows
        self.query = torch.randn(rows, shape.heads, shape.head_dim, device=device, dtype=torch.bfloat16)
        self.key, self.value = torch.randn(2, rows, shape.kv_heads, shape.head_dim, device=device, dtype=torch.bfloat16)
        self.out = torch.empty_like(self.query)
        self.counters = new_counters(device)
        paged = self.cache.transpose(1, 2)
        self.key_cache, self.value_cache = paged[..., : shape.head_dim], paged[..., shape.head_dim :]
        positions = torch.arange(shape.context, length, device=device)
        for i in range(shape.batch):
            block, within = self.block_table[i, positions // shape.page].long(), positions % shape.page
            own = slice(i * shape.rows, (i + 1) * shape.rows)
            self.key_cache[block, within], self.value_cache[block, within] = self.key[own], self.value[own]

    def ours(self, how: Plan | None = None) -> torch.Tensor:
        shape = self.shape
        return drafter_attention(
            self.query, self.key, self.value, self.key_cache, self.value_cache, self.block_table, self.seq_lens,
            self.query_start_loc, self.out, max_rows=shape.rows, scale=shape.head_dim**-0.5, window=shape.window,
            causal=shape.causal, how=how, counters=self.counters,
        )  # fmt: skip

    def flash_attention(self) -> torch.Tensor:
        from vllm.vllm_flash_attn import flash_attn_varlen_func

        shape = self.shape
        reach = -1 if shape.window is None else shape.window - 1
        return flash_attn_varlen_func(
            q=self.query, k=self.key_cache, v=self.value_cache, out=self.out, cu_seqlens_q=self.query_start_loc,
            max_seqlen_q=shape.rows, seqused_k=self.seq_lens, max_seqlen_k=shape.context + shape.rows,
            softmax_scale=shape.head_dim**-0.5, causal=shape.causal, block_table=self.block_table,
            window_size=[reach, 0 if shape.causal else reach], fa_version=3,
        )  # fmt: skip

    def vllm_triton(self) -> torch.Tensor:
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention

        shape = self.shape
        reach = -1 if shape.window is None else shape.window - 1
        one = torch.ones(1, device="cuda")
        unified_attention(
            q=self.query, k=self.key_cache, v=self.value_cache, out=self.out, cu_seqlens_q=self.query_start_loc,
            max_seqlen_q=shape.rows, seqused_k=self.seq_lens, max_seqlen_k=shape.context + shape.rows,
            softmax_scale=shape.head_dim**-0.5, causal=shape.causal,
            window_size=(reach, 0 if shape.causal else reach), block_table=self.block_table, softcap=0,
            q_descale=None, k_descale=one, v_descale=one,
        )  # fmt: skip
        return self.out


def shapes() -> Iterator[Shape]:
    for batch, contexts in CONTEXTS.items():
        for context in contexts:
            yield Shape(batch, context, None, False)
            yield Shape(batch, context, 2048, True)
            if context <= 8192:
                yield Shape(batch, context, 2048, False)


def measure(shape: Shape, methods: Mapping[str, Callable[[Inputs], torch.Tensor]], rate: float) -> dict[str, Any]:
    count = max(2, min(20, int(L2_BYTES / shape.bytes_) + 1))
    inputs = [Inputs(shape, seed) for seed in range(count)]
    row: dict[str, Any] = asdict(shape) | {"visible_bytes": shape.bytes_, "copy_TB_s": rate}
    expected = inputs[0].ours().float().clone()
    graphs, aparts = {}, {}
    for name, method in methods.items():
        try:
            aparts[name] = (method(inputs[0]).float() - expected).abs().max().item()
            graphs[name] = capture([partial(method, one) for one in inputs])
        except Exception as error:
            row[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    for name, timing in zip(graphs, time_in_turn(list(graphs.values())), strict=True):
        row[name] = asdict(timing) | {
            "TB_s": timing.rate(shape.bytes_), "of_copy": timing.rate(shape.bytes_) / rate, "apart": aparts[name],
        }  # fmt: skip
    return row


def line(shape: Shape, row: dict[str, Any], names: list[str]) -> str:
    cells = []
    for name in names:
        found = row[name]
        cells.append(
            f"{found['median']:8.1f} us {found['TB_s']:5.2f} TB/s {found['of_copy']:4.0%}" if "median" in found
            else f"{found['error'][:26]:>26s}"
        )  # fmt: skip
    return f"{shape} {shape.bytes_ / 1e6:8.1f} MB " + " | ".join(cells)


def with_plan(one: Inputs, how: Plan) -> torch.Tensor:
    return one.ours(how)


def candidates(shape: Shape) -> Iterator[Plan]:
    """The plan of `auto` first, then others near it."""
    own = plan(
        shape.batch,
        shape.kv_heads,
        shape.rows,
        shape.heads // shape.kv_heads,
        shape.head_dim,
        2,
        shape.window,
        torch.device("cuda"),
    )
    yield own
    programs = shape.batch * shape.kv_heads
    splits = {max(1, n // programs) for n in (132, 264)} | {own.splits}
    if shape.window is not None:
        tiles = -(-shape.window // 64)
        splits |= {-(-tiles // n) for n in (1, 2, 4, 8, 16, 32)}
    for count in sorted(n for n in splits if (n * programs >= 64 or n == 1) and n * programs <= 528):
        for tile, stages in ((64, 1), (64, 3), (64, 6), (32, 6)):
            for apart in (False, True) if count > 1 else (False,):
                if (other := Plan(count, tile, 4, stages, apart, own.at_once)) != own:
                    yield other


def sweep(rate: float) -> list[dict[str, Any]]:
    rows = []
    windowed = [Shape(batch, 8192, 2048, True) for batch in (1, 4, 16, 64)]
    full = [(1, 8192), (1, 32768), (1, 131072), (4, 32768), (16, 32768), (64, 2048)]
    windowed += [Shape(1, 8192, window, True) for window in (128, 512, 1024)] + [Shape(2, 8192, 2048, True)]
    picked = [*windowed, *(Shape(batch, context, None, False) for batch, context in full)]
    for shape in picked:
        plans = list(candidates(shape))
        found = measure(
            shape,
            {"FA3": Inputs.flash_attention} | {str(i): partial(with_plan, how=p) for i, p in enumerate(plans)},
            rate,
        )
        order = sorted(range(len(plans)), key=lambda i: found[str(i)].get("median", 1e9))
        print(f"{shape}  plan {plans[0]}")
        print(f"    {found['FA3'].get('median', float('nan')):8.2f} us FA3", found["FA3"].get("error", ""))
        for i in order[:6]:
            print(f"    {found[str(i)]['median']:8.2f} us {found[str(i)]['of_copy']:4.0%} {plans[i]}", flush=True)
        rows.append({"shape": str(shape), "found": [(str(plans[i]), found[str(i)]) for i in order]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, help="JSON file to write")
    parser.add_argument("--sweep", action="store_true", help="our kernel only, with other splits and tiles")
    options = parser.parse_args()
    rate = copy_rate()
    print(f"{torch.cuda.get_device_name()}: copy {rate:.2f} TB/s")
    if options.sweep:
        rows = sweep(rate)
    else:
        methods = {"ours": Inputs.ours, "FA3": Inputs.flash_attention, "vLLM Triton": Inputs.vllm_triton}
        rows = []
        print("batch context kind                        K/V " + "".join(f"{name:>30s}" for name in methods))
        for shape in shapes():
            rows.append(measure(shape, methods, rate))
            print(line(shape, rows[-1], list(methods)), flush=True)
    if options.save:
        options.save.write_text(json.dumps({"conditions": describe_run(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
