# SPDX-License-Identifier: Apache-2.0
"""Measures one method in a process of its own: `python -m vllm_dflash.bench.worker JOB.json`.

The job names its result file; the engine's log goes to stdout and stderr.
"""

import json
import os
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any

from vllm_dflash.bench.acceptance import length_by_category, read
from vllm_dflash.bench.divergence import add_gaps, differences
from vllm_dflash.bench.driver import Pass, run_pass
from vllm_dflash.bench.machine import OtherLoad

WARM_UP_TOKENS = 24
READY = "engine ready"


def main(job_file: str) -> None:
    job = json.loads(Path(job_file).read_text())
    try:
        result = measure(job)
    except Exception as problem:
        traceback.print_exc()
        result = {"error": f"{type(problem).__name__}: {problem}"}
    Path(job["result"]).write_text(json.dumps(result))


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Engine start, then for each concurrency a warm-up and the timed repeats."""
    say = Progress(Path(job["progress"]))
    say("starting the engine")
    began = time.perf_counter()
    llm = start_engine(job)
    started = time.perf_counter() - began
    say(f"{READY} after {started:.0f} s")
    if job["turn"]:
        wait_for_turn(Path(job["turn"]), job["points"])
    points = [measure_point(llm, job, point, say) for point in job["points"]]
    return {
        "start_s": started,
        "kv_tokens": getattr(llm.llm_engine.vllm_config.cache_config, "kv_cache_size_tokens", None),
        "dtype": str(llm.llm_engine.model_config.dtype).removeprefix("torch."),
        "points": [done | {"differences": compare(llm, job, done, point)}
                   for done, point in zip(points, job["points"], strict=True)],
    }  # fmt: skip


def wait_for_turn(turn: Path, points: list[dict[str, Any]]) -> None:
    """Waits for the file `turn`; it holds what earlier methods made: {concurrency: outputs to compare with}."""
    while not turn.exists():
        time.sleep(0.1)
    expected = json.loads(turn.read_text())
    for point in points:
        point["expected"] = expected.get(str(point["concurrency"]))


def start_engine(job: dict[str, Any]) -> Any:
    from vllm import LLM
    from vllm.engine.arg_utils import EngineArgs

    arguments = {
        "model": job["model"],
        "dtype": job["dtype"],
        "seed": job["seed"],
        "max_num_seqs": max(point["concurrency"] for point in job["points"]),
        "disable_log_stats": False,
    }
    if job["speculative_config"] is not None:
        arguments["speculative_config"] = job["speculative_config"]
        if "per_request_spec_decode_metrics" in EngineArgs.__dataclass_fields__:
            arguments["per_request_spec_decode_metrics"] = "summary"
    return LLM(**(arguments | job["engine_args"]))


def measure_point(llm: Any, job: dict[str, Any], point: dict[str, Any], say: "Progress") -> dict[str, Any]:
    """All repeats at one concurrency."""
    concurrency, prompts = point["concurrency"], point["prompts"]

    def sampled(most: int) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        def params(index: int) -> Any:
            return SamplingParams(
                temperature=job["temperature"],
                seed=job["seed"] + index if job["temperature"] > 0 else None,
                max_tokens=most,
                ignore_eos=job["ignore_eos"],
                detokenize=False,
                output_kind=RequestOutputKind.DELTA,
            )

        return params

    run_pass(llm.llm_engine, prompts[: 2 * concurrency], sampled(WARM_UP_TOKENS), concurrency)
    before = read(llm.get_metrics())
    passes: list[Pass] = []
    others = OtherLoad()
    for repeat in range(job["repeats"]):
        llm.reset_prefix_cache()
        done = run_pass(llm.llm_engine, prompts, sampled(job["output_len"]), concurrency)
        passes.append(done)
        say(f"{concurrency} at a time, run {repeat + 1}: {done.tokens / done.wall_s:.1f} tokens/s")
    # An engine in a process of its own would count as another's load, and so would a GPU's host threads.
    in_process = os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"
    counted = read(llm.get_metrics()).since(before)
    first = passes[0]
    return {
        "concurrency": concurrency,
        "repeats": [summary(p) for p in passes],
        "outputs": first.outputs,
        "unstable": sum(any(p.outputs[i] != ids for p in passes[1:]) for i, ids in enumerate(first.outputs)),
        "counters": asdict(counted),
        "other_load": others.share() if in_process else None,
        "acceptance_by_category": length_by_category(first.accepted, point["categories"]),
    }


def compare(llm: Any, job: dict[str, Any], done: dict[str, Any], point: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the greedy outputs differ from `point["expected"]`. Comes last: an engine may refuse."""
    if point["expected"] is None or job["temperature"] > 0:
        return []
    found = differences(point["expected"], done["outputs"])
    try:
        add_gaps(llm, found, point["prompts"], point["expected"])
    except Exception:
        traceback.print_exc()
    return [asdict(difference) for difference in found]


def summary(done: Pass) -> dict[str, float | int | None]:
    """One timed run. Step times are of the steps in which every running request was decoding (see `Pass`)."""
    return {
        "wall_s": done.wall_s,
        "tokens": done.tokens,
        "steps": len(done.step_s),
        "step_ms": 1e3 * mean(done.step_s) if done.step_s else None,
        "step_ms_median": 1e3 * median(done.step_s) if done.step_s else None,
        "running": mean(done.advanced) if done.advanced else None,
    }


class Progress:
    """One line at a time, for the process that started this one."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, text: str) -> None:
        with self.file.open("a") as stream:
            stream.write(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
