# SPDX-License-Identifier: Apache-2.0
"""The compiled CPU kernels beside torch and vLLM's own CPU kernels, at the demo drafter's shapes.

SmolLM2's drafter: 9 query heads over 3 KV heads of 64; three layers, two with a window of 128 and one full; 8 block
rows; pages of 128. A step is all three layers. Times are of whole calls from Python, checks included; the paths take
turns, so that other load on the machine meets all of them; median over the rounds. Bytes: K and V that are visible,
query and output; for context_kv, K and V read once and written once.

vLLM's attention kernel keeps the cache in a layout of its own and knows no window in a bidirectional layer; it is
timed for its speed, with its plan made beforehand.

    python benchmarks/cpu_kernels.py --save results.json
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vllm_dflash.environment import engine_variables

if engine_variables():  # Intel's OpenMP must be there before Python starts
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | engine_variables())

import torch

from vllm_dflash.bench.conditions import describe_run
from vllm_dflash.bench.machine import OtherLoad
from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.kernels import native, native_context_kv, native_mask_fill
from vllm_dflash.kernels.context_kv_arguments import ContextLayers
from vllm_dflash.kernels.native_attention import DrafterAttention
from vllm_dflash.reference import context_kv as context_kv_reference
from vllm_dflash.reference import mask_fill as mask_fill_reference

HEADS, KV_HEADS, DIM, PAGE, ROWS, WINDOW = 9, 3, 64, 128, 8, 128
ROPE = Rope(10000.0, DIM)
RULES = (DraftLayer(WINDOW, True, ROPE), DraftLayer(WINDOW, True, ROPE), DraftLayer(None, False, ROPE))
Paths = dict[str, Callable[[], object]]


def measure(paths: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Microseconds of a call of each path, one figure a round; they take turns."""
    counts, times = {}, {name: [] for name in paths}  # type: tuple[dict[str, int], dict[str, list[float]]]
    for name, call in paths.items():
        call()
        began = time.perf_counter()
        for _ in range(5):
            call()
        counts[name] = max(1, round(1e-3 / ((time.perf_counter() - began) / 5)))
    for _ in range(rounds):
        for name, call in paths.items():
            began = time.perf_counter()
            for _ in range(counts[name]):
                call()
            times[name].append((time.perf_counter() - began) / counts[name] * 1e6)
    return times


def each_set(call: Callable[[], object]) -> Paths:
    """The same call in every instruction set that this processor has."""

    def run(name: str) -> object:
        native.use_instruction_set(name)
        return call()

    return {f"ours {name}": partial(run, name) for name in native.instruction_sets()}


class Step:
    """One step of the drafter: `batch` requests with `context` positions each, on caches of three layers."""

    def __init__(self, batch: int, context: int, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        self.batch, self.length, self.dtype = batch, context + ROWS, dtype
        pages = -(-self.length // PAGE)
        self.caches = [torch.randn(batch * pages + 1, KV_HEADS, PAGE, 2 * DIM).to(dtype) for _ in RULES]
        self.table = (torch.randperm(batch * pages) + 1).int().view(batch, pages)
        self.query = torch.randn(batch * ROWS, HEADS, DIM).to(dtype)
        self.out = torch.empty_like(self.query)
        self.attention = [DrafterAttention(window=r.window, causal=r.causal, scale=DIM**-0.5) for r in RULES]
        self.starts = torch.arange(batch + 1, dtype=torch.int32) * ROWS
        self.lengths = torch.full((batch,), self.length, dtype=torch.int32)

    def paths(self) -> Paths:
        return {"torch": self.torch, "vLLM": self.vllm(), **each_set(self.ours)}

    def ours(self) -> None:
        for attend, cache in zip(self.attention, self.caches, strict=True):
            attend(self.query, cache, self.table, self.starts, self.lengths, None, self.out)

    def torch(self) -> None:
        from vllm_dflash.engine.attention_torch import block_attention

        for rule, cache in zip(RULES, self.caches, strict=True):
            for i in range(self.batch):
                own = slice(i * ROWS, (i + 1) * ROWS)
                self.out[own] = block_attention(
                    self.query[own], cache, self.table[i], self.length, rule, DIM**-0.5, None
                )

    def vllm(self) -> Callable[[], object]:
        from vllm import _custom_ops as ops
        from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

        plans = [
            ops.cpu_attn_get_scheduler_metadata(
                self.batch, HEADS, KV_HEADS, DIM, self.lengths, self.dtype, self.starts, rule.causal,
                rule.window or -1, _get_attn_isa(self.dtype, PAGE, DIM), True,
            )
            for rule in RULES
        ]  # fmt: skip
        halves = [cache.view(len(cache), KV_HEADS, PAGE * 2, DIM).chunk(2, dim=2) for cache in self.caches]

        def run() -> None:
            for rule, (key, value), plan in zip(RULES, halves, plans, strict=True):
                ops.cpu_attention_with_kv_cache(
                    self.query, key, value, self.out, self.starts, self.lengths, DIM**-0.5, rule.causal, None,
                    rule.window or -1, self.table, 0.0, plan, None,
                )  # fmt: skip

        return run

    def bytes(self) -> int:
        keys = sum(self.length if r.window is None else min(self.length, r.window - 1 + ROWS) for r in RULES)
        return self.batch * self.dtype.itemsize * (keys * KV_HEADS * 2 * DIM + 2 * len(RULES) * ROWS * HEADS * DIM)


class ContextStep:
    """K/V of `rows` new context positions for the three layers."""

    def __init__(self, rows: int, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        self.rows, self.dtype = rows, dtype
        pages = rows // PAGE + 2
        self.caches = [torch.zeros(pages, KV_HEADS, PAGE, 2 * DIM, dtype=dtype) for _ in RULES]
        self.keys, self.values = torch.randn(rows, len(RULES), 2, KV_HEADS, DIM).to(dtype).permute(2, 1, 0, 3, 4)
        self.positions = torch.arange(rows)
        self.slots = torch.randperm(pages * PAGE)[:rows][None]
        angles = torch.rand(8192, DIM // 2) * 6.3
        table = torch.cat([angles.cos(), angles.sin()], 1).to(dtype)
        layers = [
            context_kv_reference.ContextLayer(c[..., :DIM], c[..., DIM:], torch.rand(DIM).to(dtype), table)
            for c in self.caches
        ]
        self.layers = ContextLayers(layers, dtype, eps=1e-6)
        self.table = table

    def paths(self) -> Paths:
        return {"torch": self.torch, "vLLM": self.vllm, **each_set(self.ours)}

    def ours(self) -> None:
        native_context_kv.context_kv(self.keys, self.values, self.positions, self.slots, self.layers)

    def torch(self) -> None:
        context_kv_reference.context_kv(
            self.keys, self.values, self.positions, self.slots, self.layers.layers, eps=self.layers.eps
        )

    def vllm(self) -> None:
        """vLLM's operators in vLLM's order: copy apart, norm each layer, rotate all, store each layer."""
        from vllm import _custom_ops as ops

        keys, values = torch.stack([self.keys, self.values])
        for key, layer in zip(keys, self.layers.layers, strict=True):
            ops.rms_norm(key, key.clone(), layer.norm_weight, self.layers.eps)
        flat, positions = keys.view(len(RULES) * self.rows, KV_HEADS * DIM), self.positions.repeat(len(RULES))
        ops.rotary_embedding(positions, flat, None, DIM, self.table, True)
        for key, value, cache in zip(keys, values, self.caches, strict=True):
            halves = cache.view(len(cache), KV_HEADS, PAGE * 2, DIM).chunk(2, dim=2)
            ops.cpu_attn_reshape_and_cache(key, value, *halves, self.slots[0], "vec")

    def bytes(self) -> int:
        return 2 * 2 * self.keys.numel() * self.dtype.itemsize


class MaskFill:
    """The block inputs of `batch` requests that each verified a block."""

    def __init__(self, batch: int) -> None:
        rows, context = batch * ROWS, batch * ROWS
        self.step = mask_fill_reference.TargetStep(
            torch.arange(ROWS).repeat(batch) + 500,
            torch.arange(batch + 1, dtype=torch.int32) * ROWS,
            torch.arange(batch),
            torch.full((batch,), 3, dtype=torch.int32),
        )
        table = torch.arange(1, batch * 8 + 1, dtype=torch.int32).view(batch, 8)
        slots = [torch.zeros(n, dtype=torch.int64) for n in (rows, context)]
        self.groups = [mask_fill_reference.KVGroup(table, PAGE, *slots)]
        int32, int64 = (torch.zeros(rows + 1, dtype=d) for d in (torch.int32, torch.int64))
        self.out = mask_fill_reference.BlockInputs(
            int32, int64, int64.clone(), int32.clone(), int32[: batch + 1].clone(), int32[:batch].clone()
        )
        self.numbers = {
            "num_reqs": batch, "mask_token_id": 7, "num_drafts": ROWS - 1, "max_model_len": 1000, "padded_tokens": rows
        }  # fmt: skip

    def paths(self) -> Paths:
        return {
            "torch": lambda: mask_fill_reference.mask_fill(self.step, self.groups, self.out, **self.numbers),
            f"ours {native.instruction_sets()[0]}": lambda: native_mask_fill.mask_fill(
                self.step, self.groups, self.out, **self.numbers
            ),
        }

    def bytes(self) -> int:
        return 0


def cases() -> list[tuple[str, Any]]:
    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16}
    attention = [
        (f"attention {name} batch {batch} context {context}", Step(batch, context, dtype))
        for name, dtype in kinds.items()
        for batch in (1, 4, 16)
        for context in (64, 256, 1024)
    ]
    context_kv = [
        (f"context_kv {name} rows {rows}", ContextStep(rows, dtype))
        for name, dtype in kinds.items()
        for rows in (8, 128, 1024)
    ]
    return attention + context_kv + [(f"mask_fill batch {batch}", MaskFill(batch)) for batch in (1, 16)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, help="write every figure as JSON")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, help="threads for all paths (default: what torch takes)")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    load, best, results = OtherLoad(), f"ours {native.instruction_sets()[0]}", []
    print(f"threads {torch.get_num_threads()}, from {Path(native.thread_library()).name or 'nowhere: one'}")
    for name, case in cases():
        if args.only not in name:
            continue
        rounds, moved = measure(case.paths(), args.rounds), case.bytes()
        times = {path: statistics.median(each) for path, each in rounds.items()}
        figures = {path: {"median": round(times[path], 2), "least": round(min(rounds[path]), 2)} for path in rounds}
        results.append({"case": name, "bytes": moved, "us": figures})
        columns = "  ".join(f"{path} {us:8.1f} us" for path, us in times.items())
        speed = f"  {moved / times[best] / 1e3:6.1f} GB/s" if moved else ""
        print(f"{name:38} {columns}{speed}  {times['torch'] / times[best]:5.1f} x torch", flush=True)
    share = load.share()
    print(f"share of the machine that other processes took: {'unknown' if share is None else f'{share:.0%}'}")
    if args.save:
        found = describe_run() | {"threads": torch.get_num_threads(), "other_load": share, "results": results}
        args.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
