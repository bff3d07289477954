# SPDX-License-Identifier: Apache-2.0
"""`benchmarks/throughput.py` and `vllm-dflash bench`: every method in turn, then one table."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten
from threading import Event
from typing import Any

from vllm_dflash.bench.conditions import describe
from vllm_dflash.bench.engine_process import run_method
from vllm_dflash.bench.method import NONE, Method
from vllm_dflash.bench.options import Options, resolve
from vllm_dflash.bench.output import as_text, save
from vllm_dflash.bench.plan import choose_methods, choose_prompts, make_job
from vllm_dflash.bench.prompts import BenchPrompt, check_lengths, load_tokenizer
from vllm_dflash.bench.report import REASON_LENGTH
from vllm_dflash.bench.rows import rows
from vllm_dflash.bench.worker import READY
from vllm_dflash.environment import device_line, gpus
from vllm_dflash.errors import UserError


def run(args: argparse.Namespace) -> int:
    """Prints the table, writes the files. Returns 0 when at least one method ran, else 1."""
    # So that a run that is told to stop also ends the engine that it started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    has_gpu = bool(gpus())
    options = resolve(args, has_gpu)
    methods = choose_methods(options)
    tokenizer = load_tokenizer(methods[0].model)
    prompts = choose_prompts(tokenizer, options)
    check_lengths(prompts, options.output_len, options.engine_args.get("max_model_len"))
    logs = _log_folder(options.save)
    conditions = describe(options)
    say(f"{device_line()}; {len(methods)} methods, {options.repeats} runs each, up to {len(prompts)} prompts")
    began = time.monotonic()
    results = measure_all(methods, prompts, options, has_gpu, logs)
    conditions["seconds"] = round(time.monotonic() - began)
    made = rows(results, NONE)
    text = as_text(made, results, conditions, lambda token: str(tokenizer.decode([token])))
    print(f"\n{text}\n")
    if options.save:
        written = save(options.save, made, results, conditions, text)
        say("written: " + ", ".join(str(file) for file in written))
    elif any("error" in result for result in results):
        say(f"engine logs: {logs}")
    else:
        shutil.rmtree(logs, ignore_errors=True)
    return 0 if any("error" not in result for result in results) else 1


def measure_all(
    methods: Sequence[Method], prompts: Sequence[BenchPrompt], options: Options, has_gpu: bool, logs: Path
) -> list[dict[str, Any]]:
    """One result a method, in order. Those after `none` are compared with its greedy outputs."""
    expected: dict[int, list[list[int]]] = {}
    results = []
    runs = (
        start_together(methods, prompts, options, has_gpu, logs, expected)
        if options.start_together
        else one_after_another(methods, prompts, options, has_gpu, logs, expected)
    )
    for method, result in zip(methods, runs, strict=True):
        result |= asdict(method) | {"model": Path(method.model).resolve().name}
        for point in result.get("points", []):
            point["compared"] = options.temperature == 0 and point["concurrency"] in expected
            if method.label == NONE:
                expected[point["concurrency"]] = point["outputs"]
        if "error" in result:
            say(f"      did not run: {shorten(result['error'], REASON_LENGTH)}")
        results.append(result)
    return results


def one_after_another(
    methods: Sequence[Method],
    prompts: Sequence[BenchPrompt],
    options: Options,
    has_gpu: bool,
    logs: Path,
    expected: Mapping[int, list[list[int]]],
) -> Iterator[dict[str, Any]]:
    """Each engine has the machine to itself, its start included."""
    for number, method in enumerate(methods, 1):
        say(f"[{number}/{len(methods)}] {method.label}")
        job = make_job(method, prompts, options, has_gpu, expected)
        yield run_method(method, job, logs, options.method_timeout, lambda text: say(f"      {text}"))


def start_together(
    methods: Sequence[Method],
    prompts: Sequence[BenchPrompt],
    options: Options,
    has_gpu: bool,
    logs: Path,
    expected: Mapping[int, list[list[int]]],
) -> Iterator[dict[str, Any]]:
    """All engines start at once; when every one is ready or has failed, they are measured one at a time.

    The others are suspended meanwhile: an idle engine still takes host time, and a step of a small model is host time.
    """
    turns = [logs / f"turn-{number}.json" for number in range(len(methods))]
    ready = [Event() for _ in methods]
    groups: dict[int, int] = {}

    def one(number: int) -> dict[str, Any]:
        def heard(text: str) -> None:
            say(f"      {methods[number].label}: {text}")
            if text.startswith(READY):
                ready[number].set()

        job = make_job(methods[number], prompts, options, has_gpu, {}) | {"turn": str(turns[number])}
        try:
            return run_method(
                methods[number], job, logs, options.method_timeout, heard, lambda group: groups.update({number: group})
            )
        finally:
            ready[number].set()

    for turn in turns:
        turn.unlink(missing_ok=True)
    with ThreadPoolExecutor(len(methods)) as pool:
        runs = [pool.submit(one, number) for number in range(len(methods))]
        try:
            for event in ready:
                event.wait()
            for number in range(len(methods)):
                send(groups.get(number), signal.SIGSTOP)
            for number, run in enumerate(runs):
                say(f"[{number + 1}/{len(methods)}] {methods[number].label}")
                unfinished = turns[number].with_suffix(".part")
                unfinished.write_text(json.dumps(expected))
                unfinished.rename(turns[number])
                send(groups.get(number), signal.SIGCONT)
                yield run.result()
                turns[number].unlink()
        except BaseException:
            # The pool waits for its threads, and each of them for an engine whose turn will not come.
            for group in groups.values():
                send(group, signal.SIGKILL)
            raise


def send(group: int | None, number: signal.Signals) -> None:
    """To a process group; nothing happens when it has ended."""
    if group is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def say(text: str) -> None:
    print(text, flush=True)


def _log_folder(save_to: Path | None) -> Path:
    if save_to is None:
        return Path(tempfile.mkdtemp(prefix="vllm-dflash-bench-"))
    logs = save_to / "logs"
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError("cannot be written", field="--save", found=str(save_to)) from problem
    return logs
