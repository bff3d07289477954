# SPDX-License-Identifier: Apache-2.0
"""Mask filling on a CUDA device: our one launch, and vLLM's kernel, launched once a KV cache group.

k = 15, pages of 16, tables for 40,960 positions, buffers of 8,192 rows, as the V2 runner has them. Device time: 20
calls in one CUDA graph, median of 15 replays. Host time: what a call costs the Python thread, which the V2 runner pays
before every replay of its own graph; median of 200.

    python benchmarks/mask_fill.py --save results.json
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from vllm_dflash.bench.conditions import describe_run
from vllm_dflash.bench.gpu_timing import time_graph
from vllm_dflash.kernels.mask_fill import BlockInputs, KVGroups, TargetStep, mask_fill

DRAFTS, PAGE, MODEL_LEN, MAX_REQS, MAX_TOKENS, MASK = 15, 16, 40960, 256, 8192, 151669
# (requests, context rows each, KV groups): decoding, then one prefill
SHAPES = [(1, 16, 1), (1, 16, 2), (8, 16, 1), (8, 16, 2), (64, 16, 2), (256, 16, 1), (1, 8192, 1), (1, 8192, 2)]


class Inputs:
    def __init__(self, requests: int, rows: int, groups: int) -> None:
        self.requests, self.rows = requests, rows
        device: dict[str, Any] = {"device": "cuda"}
        count = requests * rows
        starts = torch.arange(requests + 1, dtype=torch.int32, **device) * rows
        positions = (torch.arange(count, **device) % rows) + 2000
        rejected = torch.arange(requests, dtype=torch.int32, **device) % min(rows, 1 + DRAFTS)
        states = torch.randperm(MAX_REQS, **device)[:requests].int()
        sampled = torch.ones(requests, dtype=torch.int32, **device)
        last, prefill = torch.randint(0, 1000, (2, MAX_REQS), **device)
        temperature, seeds = torch.rand(MAX_REQS, **device), torch.arange(MAX_REQS, **device)
        tables = [torch.randint(1, 9999, (MAX_REQS, MODEL_LEN // PAGE), **device).int() for _ in range(groups)]
        self.batch = SimpleNamespace(
            num_reqs=requests,
            num_scheduled_tokens=np.full(requests, rows),
            positions=positions,
            query_start_loc=starts,
            idx_mapping=states,
        )
        self.slots = torch.zeros(groups, MAX_TOKENS, dtype=torch.int64, **device)
        self.context_slots = torch.zeros_like(self.slots)
        self.groups = KVGroups.of(tables, [PAGE] * groups, list(self.slots), list(self.context_slots))
        self.step = TargetStep(positions, starts, last, rejected, states, sampled, prefill, temperature, seeds)

        def zeros(n: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(n, dtype=dtype, device="cuda")

        self.out = BlockInputs(
            zeros(MAX_TOKENS, torch.int32), zeros(MAX_TOKENS), zeros(MAX_TOKENS), zeros(MAX_REQS * DRAFTS),
            zeros(MAX_REQS + 1, torch.int32), zeros(MAX_REQS, torch.int32), zeros(MAX_REQS * DRAFTS),
            zeros(MAX_REQS * DRAFTS), zeros(MAX_TOKENS, torch.bool), zeros(MAX_REQS, torch.float32), zeros(MAX_REQS),
        )  # fmt: skip

    def outputs(self) -> list[torch.Tensor]:
        out = self.out
        own = [out.input_ids, out.positions, out.context_positions, out.sample_rows, out.query_start_loc, out.seq_lens]
        own += [out.sample_positions, out.sample_requests, self.slots, self.context_slots, out.temperature, out.seeds]
        return [t for t in own if t is not None]

    def ours(self) -> None:
        mask_fill(
            self.step, self.groups, self.out, num_reqs=self.requests, longest_context=self.rows,
            mask_token_id=MASK, num_drafts=DRAFTS, max_model_len=MODEL_LEN, padded_tokens=MAX_TOKENS,
        )  # fmt: skip

    def stock(self) -> None:
        from vllm.v1.worker.gpu.spec_decode.dflash.speculator import prepare_dflash_inputs

        step, out = self.step, self.out
        for i, group in enumerate(self.groups.groups):
            named = {
                "input_buffers": out, "query_slot_mapping": self.slots[i], "context_positions": out.context_positions,
                "context_slot_mapping": self.context_slots[i], "sample_indices": out.sample_rows,
                "sample_pos": out.sample_positions, "sample_idx_mapping": out.sample_requests,
                "temperature": out.temperature, "seeds": out.seeds, "input_batch": self.batch,
                "num_sampled": step.num_sampled, "num_rejected": step.num_rejected, "last_sampled": step.anchor_tokens,
                "next_prefill_tokens": step.prefill_tokens, "input_temperature": step.temperature,
                "input_seeds": step.seeds, "block_table": group.block_table, "block_size": PAGE, "cp_rank": 0,
                "cp_size": 1, "cp_interleave": 1, "parallel_drafting_token_id": MASK,
                "num_query_per_req": 1 + DRAFTS, "num_speculative_steps": DRAFTS, "max_num_reqs": MAX_REQS,
                "max_num_tokens": MAX_TOKENS, "max_model_len": MODEL_LEN,
            }  # fmt: skip
            prepare_dflash_inputs(**named)


def host_time(call: Callable[[], None]) -> float:
    """Microseconds of the calling thread."""
    times = []
    for i in range(200):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
        if i % 20 == 0:
            torch.cuda.synchronize()
    return statistics.median(times)


def measure(shape: tuple[int, int, int], methods: dict[str, Callable[[Inputs], None]]) -> dict[str, Any]:
    inputs = Inputs(*shape)
    row: dict[str, Any] = dict(zip(("requests", "context_rows", "groups"), shape, strict=True))
    wanted: list[torch.Tensor] = []
    for name, method in methods.items():
        for output in inputs.outputs():
            output.zero_()
        try:
            method(inputs)
            found = [output.clone() for output in inputs.outputs()]
            wanted = wanted or found
            timing = time_graph([partial(method, inputs)])
            row[name] = asdict(timing) | {
                "host": host_time(partial(method, inputs)),
                "equal": all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True)),
            }
        except Exception as error:
            row[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return row


def line(row: dict[str, Any]) -> str:
    cells = []
    for name, found in row.items():
        if isinstance(found, dict) and "error" in found:
            cells.append(f"{name}: {found['error'][:70]}")
        elif isinstance(found, dict):
            same = "" if found["equal"] else " OTHER RESULT"
            cells.append(f"{name}: device {found['median']:6.2f} us, host {found['host']:6.1f} us{same}")
    return f"{row['requests']:4d} requests x {row['context_rows']:5d} rows, {row['groups']} groups  " + " | ".join(
        cells
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, help="JSON file to write")
    options = parser.parse_args()
    methods: dict[str, Callable[[Inputs], None]] = {"ours": Inputs.ours}
    try:
        import vllm  # noqa: F401

        methods["vLLM"] = Inputs.stock
    except ImportError as problem:
        print(f"vLLM is not importable ({problem}): no rival")
    print(torch.cuda.get_device_name())
    rows = []
    for shape in SHAPES:
        rows.append(measure(shape, methods))
        print(line(rows[-1]), flush=True)
    if options.save:
        options.save.write_text(json.dumps({"conditions": describe_run(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
