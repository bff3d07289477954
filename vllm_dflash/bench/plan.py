# SPDX-License-Identifier: Apache-2.0
"""What will be measured: methods, prompts, and the job that each method's process gets."""

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm_dflash.bench.method import NONE, Method, distinct, speculative, with_stock_twins
from vllm_dflash.bench.options import Options
from vllm_dflash.bench.prompts import BenchPrompt, random_prompts, text_prompts


def choose_methods(options: Options) -> list[Method]:
    """`none` and what the user gave, or the demo's methods."""
    if options.model is not None:
        methods = [Method(NONE, options.model), *_given(options.model, options)]
    else:
        methods = _demo_methods(options)
    return distinct(with_stock_twins(methods) if options.stock else methods)


def choose_prompts(tokenizer: Any, options: Options) -> list[BenchPrompt]:
    if options.input_len is not None:
        return random_prompts(tokenizer, options.most_prompts, options.input_len, options.seed)
    return text_prompts(tokenizer, options.dataset, options.most_prompts, options.seed, options.raw_prompts)


def make_job(
    method: Method,
    prompts: Sequence[BenchPrompt],
    options: Options,
    has_gpu: bool,
    expected: Mapping[int, list[list[int]]],
) -> dict[str, Any]:
    """What `vllm_dflash.bench.worker` reads. expected: greedy outputs to compare with, by concurrency."""
    points = []
    for concurrency in options.concurrency:
        some = prompts[: options.prompts_at(concurrency)]
        points.append(
            {
                "concurrency": concurrency,
                "prompts": [list(prompt.ids) for prompt in some],
                "categories": [prompt.category for prompt in some],
                "expected": expected.get(concurrency),
            }
        )
    same = ("dtype", "seed", "temperature", "output_len", "ignore_eos", "repeats")
    return {
        "model": method.model,
        "speculative_config": method.speculative_config,
        "points": points,
        "turn": None,
        # Compiling for the CPU takes longer than the whole benchmark.
        "engine_args": ({} if has_gpu else {"enforce_eager": True}) | options.engine_args,
        **{name: getattr(options, name) for name in same},
    }


def _demo_methods(options: Options) -> list[Method]:
    from vllm_dflash.demo.pair import prepare_pair

    pair = prepare_pair()
    target, drafter = str(pair.target), str(pair.drafter)
    mtp = [{"method": "mtp", "num_speculative_tokens": k} for k in options.mtp_k]
    dflash = [{"method": "dflash", "model": drafter, "num_speculative_tokens": k} for k in options.dflash_k]
    offered = {
        "none": [Method(NONE, target)],
        "mtp": [speculative(_neutral_path(str(pair.mtp_target)), config) for config in mtp],
        "dflash": [speculative(target, config) for config in dflash],
    }
    chosen = [method for name in offered if name in options.methods for method in offered[name]]
    return chosen + _given(target, options)


def _given(model: str, options: Options) -> list[Method]:
    configs = options.speculative_configs
    return [speculative(_neutral_path(model) if c.get("method") == "mtp" else model, c) for c in configs]


def _neutral_path(model: str) -> str:
    """The same folder under a path that vLLM does not read a method from.

    vLLM (0.32, 0.33) takes any draft model with "dflash" in its path for a DFlash drafter, whatever method
    was asked for, and for MTP the target is the draft model.
    """
    if "dflash" not in model.lower() or not Path(model).is_dir():
        return model
    link = Path(tempfile.mkdtemp(prefix="bench-models-")) / "target"
    atexit.register(shutil.rmtree, link.parent, ignore_errors=True)
    link.symlink_to(Path(model).absolute(), target_is_directory=True)
    return str(link)
