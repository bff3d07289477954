# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash train`: train a DFlash drafter, or an MTP head, for a target."""

import argparse
import shlex
import sys
from dataclasses import fields
from pathlib import Path

from vllm_dflash.train.options import TrainOptions

DEFAULTS = {field.name: field.default for field in fields(TrainOptions)}
HELP: dict[str, tuple[type, str]] = {
    "seed": (int, "of data order, anchors and initial weights"),
    "layers": (
        str,
        "a letter each: S sliding causal, s sliding bidirectional, F full bidirectional, C full causal",
    ),
    "window": (int, "of the sliding layers, in tokens"),
    "taps": (str, "zero-based target layers such as 1,8,15, or auto"),
    "block_size": (int, "rows of a block, anchor included"),
    "mlp": (int, "width of the drafter's MLP (default: 16/9 of the hidden size)"),
    "heads": (int, "query heads (default: the target's)"),
    "kv_heads": (int, "key and value heads (default: the target's)"),
    "head_dim": (int, "default: the target's"),
    "mask_token": (str, "a token id, or auto: an unused special token"),
    "rope_theta": (float, "default: the target's"),
    "steps": (int, "optimiser steps"),
    "max_minutes": (float, "end the optimisation, properly, after this long"),
    "batch_size": (int, "sequences a step"),
    "anchors": (int, "blocks drawn from a sequence each time it is visited"),
    "learning_rate": (float, "peak of AdamW's"),
    "warmup": (int, "steps until the peak"),
    "weight_decay": (float, "on matrices"),
    "gamma": (float, "position weights exp(-(i - 1) / gamma)"),
    "alpha": (float, "smoothing of --loss dpace"),
    "unroll": (int, "draft steps that --method mtp trains"),
    "max_length": (int, "most tokens of prompt and answer"),
    "answer_tokens": (int, "most tokens of an answer"),
    "answer_slots": (int, "answers generated together (default: 4096 on a GPU, 32 on a CPU)"),
    "answer_minutes": (float, "stop generating answers after this long and train on those there are"),
    "eval_samples": (int, "held-out prompts to answer and to evaluate"),
    "checkpoint_minutes": (float, "time between checkpoints"),
    "checkpoint_steps": (int, "also a checkpoint every so many steps"),
    "log_every": (int, "steps between lines of loss.jsonl"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", type=Path, required=True, help="Hugging Face folder of the target")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the drafter, its card, logs, checkpoints"
    )
    parser.add_argument("--method", choices=("dflash", "mtp"), default="dflash")
    parser.add_argument("--prompts", help="FILE.jsonl with prompt or messages a line, or builtin:COUNT")
    parser.add_argument(
        "--answers", type=Path, help="answers.safetensors of an earlier run, instead of generating"
    )
    parser.add_argument(
        "--loss", choices=("decay", "dpace"), default=DEFAULTS["loss"], help="position weights"
    )
    parser.add_argument("--loss-target", choices=("ce", "kl"), default=DEFAULTS["loss_target"])
    parser.add_argument("--device", default="auto", help="auto, cuda or cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile for the loss")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in --out")
    for name, (kind, text) in HELP.items():
        default = DEFAULTS[name]
        shown = text if default is None or "default" in text else f"{text} (default: {default})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=shown)


def run(args: argparse.Namespace) -> int:
    from vllm_dflash.train.run import run_training

    options = TrainOptions(**{field.name: getattr(args, field.name) for field in fields(TrainOptions)})
    run_training(options, "vllm-dflash " + shlex.join(sys.argv[1:]))
    return 0
