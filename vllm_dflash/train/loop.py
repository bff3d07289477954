# SPDX-License-Identifier: Apache-2.0
"""The optimisation: batches in, a loss log and a trained module out."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from vllm_dflash.train.answers import Answers
from vllm_dflash.train.batches import Order, collate
from vllm_dflash.train.checkpoints import load_state, save_state
from vllm_dflash.train.method import Method
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.schedule import clip, learning_rate, make_optimizer, set_learning_rate


@dataclass
class LoopResult:
    """steps done in all; seconds of optimisation; answer tokens visited; stopped: "steps" or "minutes"."""

    steps: int
    seconds: float
    stopped: str


def train(
    method: Method,
    answers: Answers,
    options: TrainOptions,
    identity: Mapping[str, Any],
    stop_after: int | None = None,
) -> LoopResult:
    """Run options.steps steps (or as many as max_minutes allows) and log them to OUT/loss.jsonl.

    stop_after: leave after this many steps, checkpoint written, as if interrupted.
    """
    out, module = options.out, method.module
    order = Order(answers, (~answers.held_out).nonzero()[0], options.batch_size, options.seed)
    optimizer = make_optimizer(module, options)
    first, before = load_state(out, module, optimizer, dict(identity)) if options.resume else (0, 0.0)
    log = LossLog(out / "loss.jsonl", first, method.draft_tokens)
    started = saved = time.monotonic()
    module.train()
    stopped, step = "steps", first
    bar = tqdm(total=options.steps, initial=first, desc=method.name, unit="step", smoothing=0.05)
    for step in range(first, options.steps):
        seconds = before + time.monotonic() - started
        if options.max_minutes is not None and seconds >= options.max_minutes * 60:
            stopped = "minutes"
            break
        batch = collate(answers, order[step])
        rate = learning_rate(options, step, seconds / 60)
        set_learning_rate(optimizer, rate)
        result = method.step(batch, step)
        result.loss.backward()
        clip(module)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        log.add(result, int((batch.lengths - batch.prompt_lengths).sum()))
        bar.update()
        if (step + 1) % options.log_every == 0 or step + 1 == options.steps:
            bar.set_postfix_str(log.write(step + 1, rate))
        due = time.monotonic() - saved > options.checkpoint_minutes * 60
        if (
            due
            or (options.checkpoint_steps and (step + 1) % options.checkpoint_steps == 0)
            or step + 1 == stop_after
        ):
            save_state(out, step + 1, before + time.monotonic() - started, module, optimizer, dict(identity))
            saved = time.monotonic()
        if step + 1 == stop_after:
            break
    else:
        step = options.steps
    bar.close()
    seconds = before + time.monotonic() - started
    if stop_after is None:
        save_state(out, step, seconds, module, optimizer, dict(identity))
    module.eval()
    return LoopResult(step, seconds, stopped)


class LossLog:
    """One JSON line every log_every steps: mean loss, acceptance by position, its expected length, tokens/s.

    acceptance[i] is the share of drafts for position i that stand with all before them; the acceptance length
    estimate is 1 + their sum. Sums stay on the device between lines, so that a step never waits for it.
    """

    def __init__(self, path: Path, first: int, positions: int) -> None:
        kept = []
        if first and path.is_file():
            kept = [line for line in path.read_text().splitlines() if json.loads(line)["step"] <= first]
        path.write_text("".join(line + "\n" for line in kept))
        self.path, self.positions = path, positions
        self._clear()

    def _clear(self) -> None:
        self.losses: list[torch.Tensor] = []
        self.sums: list[torch.Tensor] = []
        self.tokens, self.since = 0, time.monotonic()

    def add(self, result: Any, tokens: int) -> None:
        self.losses.append(result.loss.detach())
        self.sums.append(torch.stack([result.right, result.standing, result.rows]))
        self.tokens += tokens

    def write(self, step: int, rate: float) -> str:
        """Append the line; returns the text for the progress bar."""
        loss = torch.stack(self.losses).mean().item()
        right, standing, rows = torch.stack(self.sums).sum(0).tolist()
        share = [s / max(n, 1.0) for s, n in zip(standing, rows, strict=True)]
        speed = self.tokens / max(time.monotonic() - self.since, 1e-6)
        entry = {
            "step": step,
            "loss": loss,
            "lr": rate,
            "top1": [round(r / max(n, 1.0), 5) for r, n in zip(right, rows, strict=True)],
            "acceptance": [round(s, 5) for s in share],
            "acceptance_length": round(1 + sum(share), 4),
            "tokens_per_second": round(speed),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        self._clear()
        return f"loss {loss:.3f}, accepts {1 + sum(share):.2f}, {speed:,.0f} tokens/s"
