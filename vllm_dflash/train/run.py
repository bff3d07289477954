# SPDX-License-Identifier: Apache-2.0
"""A training run from options to folder: checks, answers, optimisation, export, evaluation, card."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from torch.nn.attention import SDPBackend, sdpa_kernel

from vllm_dflash.errors import UserError
from vllm_dflash.train.answers import Answers, answer, check_answers, encode
from vllm_dflash.train.card import write_card
from vllm_dflash.train.checkpoints import check_resume
from vllm_dflash.train.curves import plot_curves
from vllm_dflash.train.dflash import DFlashMethod
from vllm_dflash.train.draft_shape import write_draft_config
from vllm_dflash.train.evaluate import evaluate, table
from vllm_dflash.train.loop import train
from vllm_dflash.train.losses import compiled_rows
from vllm_dflash.train.mask_token import pick_mask_token
from vllm_dflash.train.method import Method
from vllm_dflash.train.mtp import MtpMethod
from vllm_dflash.train.options import TrainOptions, tap_layers
from vllm_dflash.train.phases import Phases
from vllm_dflash.train.requests import limit_held_out, read_requests
from vllm_dflash.train.target_model import FrozenTarget, open_target, pick_device


def run_training(options: TrainOptions, command: str, stop_after: int | None = None) -> dict[str, Any]:
    """Do everything `vllm-dflash train` does; returns what goes into training.json.

    Raises:
        UserError: bad input, always before any answer is generated or any step is taken.
    """
    phases = Phases()
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return _run(options, command, stop_after, phases)


def _run(options: TrainOptions, command: str, stop_after: int | None, phases: Phases) -> dict[str, Any]:
    _check_out(options.out)
    if options.resume:
        check_resume(options.out, options.identity())
    with phases("load target"):
        target = open_target(options.target, pick_device(options.device))
    taps = tap_layers(options.taps, target.shape.layers)
    if options.max_length > target.shape.max_positions:
        raise UserError(
            "the target has fewer positions",
            field="max_length",
            found=options.max_length,
            needed=f"at most {target.shape.max_positions}",
        )
    answers = _answers(options, target, phases)
    if not (~answers.held_out).any():
        raise UserError("no training prompts are left after holding out", field="split")
    print(answers.describe(), flush=True)
    method = _method(options, target, answers)
    print(f"{options.method}: {json.dumps(method.describe())}", flush=True)
    with phases("training"):
        identity = options.identity() | {"data": answers.digest()}
        result = train(method, answers, options, identity, stop_after)
    method.save(options.out)
    size = (options.out / "model.safetensors").stat().st_size
    evaluation: dict[str, Any] = {}
    if answers.held_out.any():
        with phases("evaluation"):
            evaluation = evaluate(method, answers, options.eval_samples, options.batch_size, options.seed)
        (options.out / "evaluation.json").write_text(json.dumps(evaluation, indent=2) + "\n")
        print("\n".join(table(evaluation)), flush=True)
    record = {
        "method": options.method,
        "command": command,
        "options": options.identity(),
        "taps": list(taps) if options.method == "dflash" else [target.shape.layers - 1],
        "drafter": method.describe(),
        "target_fingerprint": target.fingerprint,
        "data": _data(answers),
        "steps": result.steps,
        "stopped_by": result.stopped,
        "training_seconds": round(result.seconds, 1),
        "phase_seconds": phases.seconds,
        "bytes": size,
    }
    (options.out / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    plot_curves(options.out / "loss.jsonl", options.out / "curves.png", options.method)
    write_card(options.out, record, evaluation)
    print(f"wrote {options.out} ({size:,} bytes of weights)", flush=True)
    return record


def _check_out(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"cannot write there ({error.strerror})", field="out", found=str(out)) from None


def _answers(options: TrainOptions, target: FrozenTarget, phases: Phases) -> Answers:
    """Answers from --answers, from an earlier run in the same folder, or from the target now."""
    own = options.out / "state" / "answers.safetensors"
    reuse = options.answers or (own if options.resume and own.is_file() else None)
    if reuse is not None:
        answers = Answers.load(reuse)
        check_answers(answers, target, reuse, options.max_length)
        return answers
    with phases("prompts"):
        requests = limit_held_out(
            read_requests(options.prompts or "", options.seed), options.eval_samples, options.seed
        )
        prompts = encode(requests, target, options.max_length - options.answer_tokens)
    if options.method == "dflash" and options.mask_token != "auto":
        pick_mask_token(options.mask_token, target, None)
    with phases("answers"):
        slots = options.answer_slots or (4096 if target.device.type == "cuda" else 32)
        answers = answer(requests, prompts, target, options.answer_tokens, slots, options.answer_minutes)
    own.parent.mkdir(exist_ok=True)
    answers.save(own)
    return answers


def _method(options: TrainOptions, target: FrozenTarget, answers: Answers) -> Method:
    rows = compiled_rows() if options.compile else None
    if options.method == "mtp":
        return MtpMethod(target, options, rows)
    mask_token, name = pick_mask_token(options.mask_token, target, answers)
    print(f"mask token {mask_token} ({name})", flush=True)
    config = write_draft_config(options, target.shape, mask_token, options.out)
    return DFlashMethod(config, target, options, rows)


def _data(answers: Answers) -> dict[str, Any]:
    training = ~answers.held_out
    replies = answers.lengths() - answers.prompt_lengths
    names = np.array(answers.templates)
    return {
        "training_sequences": int(training.sum()),
        "held_out_sequences": int(answers.held_out.sum()),
        "training_answer_tokens": int(replies[training].sum()),
        "mean_answer_tokens": round(float(replies.mean()), 1),
        "categories": {
            name: int((answers.category[training] == i).sum()) for i, name in enumerate(answers.categories)
        },
        "held_out_templates": sorted(set(names[answers.template[answers.held_out]].tolist()) - {""}),
    }
