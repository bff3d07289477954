# SPDX-License-Identifier: Apache-2.0
"""Options of the benchmark, under the names that a vLLM user knows."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_dflash.errors import UserError

DEMO_METHODS = ("none", "mtp", "dflash")
CPU_CONCURRENCY, GPU_CONCURRENCY = (1, 4), (1, 4, 16, 64)
CPU_OUTPUT, GPU_OUTPUT = 64, 256
LEAST_PROMPTS, PROMPTS_A_SLOT = 16, 4


@dataclass(frozen=True)
class Options:
    """model: None means the demo pair. num_prompts: None means enough for each concurrency (`prompts_at`)."""

    model: str | None
    speculative_configs: tuple[dict[str, Any], ...]
    methods: tuple[str, ...]
    mtp_k: tuple[int, ...]
    dflash_k: tuple[int, ...]
    stock: bool
    dataset: Path | None
    raw_prompts: bool
    num_prompts: int | None
    concurrency: tuple[int, ...]
    input_len: int | None
    output_len: int
    ignore_eos: bool
    temperature: float
    seed: int
    dtype: str
    repeats: int
    engine_args: dict[str, Any]
    method_timeout: float
    start_together: bool
    save: Path | None

    def prompts_at(self, concurrency: int) -> int:
        return self.num_prompts or max(LEAST_PROMPTS, PROMPTS_A_SLOT * concurrency)

    @property
    def most_prompts(self) -> int:
        return max(self.prompts_at(c) for c in self.concurrency)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what is compared (default: the demo pair)")
    what.add_argument("--model", help="target: a folder or a hub name; default: the demo's")
    what.add_argument(
        "--speculative-config",
        action="append",
        default=[],
        metavar="JSON",
        help="as for vllm serve; repeat it for more methods. `none` always runs first",
    )
    what.add_argument(
        "--methods",
        default=",".join(DEMO_METHODS),
        help=f"of the demo, comma-separated (default: {','.join(DEMO_METHODS)})",
    )
    what.add_argument("--mtp-k", default="1", help="draft lengths of the demo's MTP, like 1,2,3 (default: 1)")
    what.add_argument("--dflash-k", default="3,7", help="draft lengths of the demo's DFlash, at most 7 (default: 3,7)")
    what.add_argument(
        "--stock",
        action="store_true",
        help="run each dflash method a second time with this plugin off (VLLM_DFLASH=0)",
    )
    load = parser.add_argument_group("load")
    load.add_argument("--dataset", type=Path, help='JSONL with "prompt" or "messages" (default: built-in, held out)')
    load.add_argument("--raw-prompts", action="store_true", help="do not apply the model's chat template")
    load.add_argument(
        "--num-prompts",
        type=int,
        help=f"default: {PROMPTS_A_SLOT} a running request, at least {LEAST_PROMPTS}",
    )
    load.add_argument("--concurrency", help="requests kept running, comma-separated (default: 1,4; GPU: 1,4,16,64)")
    load.add_argument("--input-len", type=int, help="random prompts of so many tokens instead of a dataset")
    load.add_argument(
        "--output-len",
        type=int,
        help=f"most tokens an answer (default: {CPU_OUTPUT}; GPU: {GPU_OUTPUT})",
    )
    load.add_argument("--ignore-eos", action="store_true", help="always make --output-len tokens")
    load.add_argument("--temperature", type=float, default=0.0, help="default: 0, greedy; outputs are compared")
    load.add_argument("--seed", type=int, default=0, help="of prompts and of sampling")
    run = parser.add_argument_group("run")
    run.add_argument("--dtype", default="auto", help="auto, float32, bfloat16, float16 (default: the model's own)")
    run.add_argument("--repeats", type=int, default=3, help="timed runs of everything (default: %(default)s)")
    run.add_argument("--engine-args", default="{}", metavar="JSON", help="more arguments of vllm.LLM, underscored")
    run.add_argument("--method-timeout", type=float, default=1800, help="seconds (default: %(default)s)")
    run.add_argument(
        "--start-together",
        action="store_true",
        help="start all engines at once, still measure one at a time; give each its share of the memory, such as "
        """--engine-args '{"gpu_memory_utilization": 0.1, "kv_cache_memory_bytes": 8000000000}'""",
    )
    run.add_argument("--save", type=Path, metavar="DIR", help="write results.json, table.md, plot.png and logs there")


def resolve(args: argparse.Namespace, has_gpu: bool) -> Options:
    """Checks the options and fills in what depends on the machine.

    Raises:
        UserError: names the option at fault.
    """
    concurrency = (
        _integers("--concurrency", args.concurrency)
        if args.concurrency
        else (GPU_CONCURRENCY if has_gpu else CPU_CONCURRENCY)
    )
    methods = tuple(name.strip() for name in args.methods.split(",") if name.strip())
    for name in methods:
        if name not in DEMO_METHODS:
            raise UserError("unknown method", field="--methods", found=name, needed=f"some of {DEMO_METHODS}")
    for option, value in (
        ("--output-len", args.output_len),
        ("--repeats", args.repeats),
        ("--input-len", args.input_len),
        ("--num-prompts", args.num_prompts),
    ):
        if value is not None and value < 1:
            raise UserError("must be positive", field=option, found=value)
    if args.temperature < 0:
        raise UserError("must not be negative", field="--temperature", found=args.temperature)
    if args.num_prompts is not None and args.num_prompts < max(concurrency):
        raise UserError(
            "fewer prompts than running requests",
            field="--num-prompts",
            found=args.num_prompts,
            needed=f"at least {max(concurrency)}",
        )
    if args.input_len is not None and args.dataset is not None:
        raise UserError("--input-len makes random prompts, --dataset reads them: choose one")
    return Options(
        model=args.model,
        speculative_configs=tuple(_json_object("--speculative-config", text) for text in args.speculative_config),
        methods=methods,
        mtp_k=_integers("--mtp-k", args.mtp_k),
        dflash_k=_integers("--dflash-k", args.dflash_k),
        stock=args.stock,
        dataset=args.dataset,
        raw_prompts=args.raw_prompts,
        num_prompts=args.num_prompts,
        concurrency=concurrency,
        input_len=args.input_len,
        output_len=args.output_len or (GPU_OUTPUT if has_gpu else CPU_OUTPUT),
        ignore_eos=args.ignore_eos,
        temperature=args.temperature,
        seed=args.seed,
        dtype=args.dtype,
        repeats=args.repeats,
        engine_args=_json_object("--engine-args", args.engine_args),
        method_timeout=args.method_timeout,
        start_together=args.start_together,
        save=args.save,
    )


def _integers(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise UserError("not a list of positive integers", field=option, found=text, needed="like 1,4,16")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _json_object(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise UserError(f"not JSON ({problem})", field=option, found=text) from problem
    if not isinstance(value, dict):
        raise UserError("not a JSON object", field=option, found=text)
    return value
