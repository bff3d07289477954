# SPDX-License-Identifier: Apache-2.0
"""What a training run is asked to do, and the checks that need no model."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vllm_dflash.errors import UserError

LAYER_LETTERS = {"S": (True, True), "s": (True, False), "F": (False, False), "C": (False, True)}
"""Letter -> (windowed, causal inside the block)."""


@dataclass(frozen=True)
class TrainOptions:
    """One run of `vllm-dflash train`.

    layers: a letter a draft layer, see LAYER_LETTERS. window, block_size, max_length, answer_tokens: tokens.
    taps: "auto" or comma-separated zero-based target layers. mask_token: "auto" or a token id.
    mlp, heads, kv_heads, head_dim, rope_theta: None means the target's own (mlp: 16/9 of the hidden size).
    anchors: blocks drawn from each sequence each time it is visited.
    loss: position weights, "decay" (exp(-(i - 1) / gamma)) or "dpace"; loss_target: "ce" or "kl".
    max_minutes: wall limit of the optimisation; the learning rate reaches its end by then.
    """

    target: Path
    out: Path
    method: str = "dflash"
    prompts: str | None = None
    answers: Path | None = None
    seed: int = 0
    layers: str = "SSF"
    window: int = 128
    taps: str = "auto"
    block_size: int = 8
    mlp: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    mask_token: str = "auto"
    rope_theta: float | None = None
    steps: int = 4000
    max_minutes: float | None = None
    batch_size: int = 64
    anchors: int = 64
    learning_rate: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.01
    loss: str = "decay"
    gamma: float = 4.0
    alpha: float = 0.5
    loss_target: str = "ce"
    unroll: int = 3
    max_length: int = 512
    answer_tokens: int = 256
    answer_slots: int | None = None
    answer_minutes: float | None = None
    eval_samples: int = 1024
    checkpoint_minutes: float = 2.0
    checkpoint_steps: int | None = None
    resume: bool = False
    device: str = "auto"
    compile: bool = False
    log_every: int = 10

    def __post_init__(self) -> None:
        at_least = {
            "block_size": 2, "window": 1, "steps": 1, "batch_size": 1, "anchors": 1, "warmup": 0,
            "unroll": 1, "answer_tokens": 2, "eval_samples": 1, "log_every": 1,
        }  # fmt: skip
        for field, least in at_least.items():
            _need(getattr(self, field) >= least, field, getattr(self, field), f"at least {least}")
        for field in ("mlp", "heads", "kv_heads", "head_dim", "answer_slots", "checkpoint_steps"):
            value = getattr(self, field)
            _need(value is None or value >= 1, field, value, "at least 1")
        for field in ("learning_rate", "gamma"):
            _need(getattr(self, field) > 0, field, getattr(self, field), "more than 0")
        for field in ("max_minutes", "answer_minutes", "rope_theta"):
            value = getattr(self, field)
            _need(value is None or value > 0, field, value, "more than 0")
        _need(0 <= self.alpha <= 1, "alpha", self.alpha, "between 0 and 1")
        _need(self.method in ("dflash", "mtp"), "method", self.method, "dflash or mtp")
        _need(self.loss in ("decay", "dpace"), "loss", self.loss, "decay or dpace")
        _need(self.loss_target in ("ce", "kl"), "loss_target", self.loss_target, "ce or kl")
        _need(bool(self.layers), "layers", self.layers, "at least one letter")
        unknown = sorted(set(self.layers) - set(LAYER_LETTERS))
        _need(not unknown, "layers", self.layers, f"letters out of {', '.join(LAYER_LETTERS)}")
        room = self.max_length - self.answer_tokens
        _need(room >= 1, "max_length", self.max_length, f"more than answer_tokens ({self.answer_tokens})")
        if self.prompts is None and self.answers is None:
            raise UserError(
                "nothing to train on", field="prompts", found=None, needed="--prompts or --answers"
            )

    def identity(self) -> dict[str, Any]:
        """The fields that a resumed run must share with the run it continues (JSON types)."""
        free = {
            "out", "target", "answers", "prompts", "resume", "device", "max_minutes", "checkpoint_minutes",
            "checkpoint_steps", "answer_slots", "answer_minutes", "eval_samples", "log_every", "compile",
        }  # fmt: skip
        return {name: value for name, value in asdict(self).items() if name not in free}


def tap_layers(text: str, target_layers: int, count: int = 5) -> tuple[int, ...]:
    """Tap ids from "auto" or "1,8,15".

    "auto" spreads up to `count` taps evenly from layer 1 to the third-last, the released drafters' habit.

    Raises:
        UserError: not integers, a layer that the target lacks, or a layer named twice.
    """
    if text == "auto":
        first, last = min(1, target_layers - 1), max(target_layers - 3, min(1, target_layers - 1))
        count = min(count, last - first + 1)
        step = (last - first) / max(count - 1, 1)
        return tuple(int(first + i * step + 0.5) for i in range(count))
    try:
        taps = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(
            "taps are not a list of layers", field="taps", found=text, needed="like 1,8,15"
        ) from None
    for tap in taps:
        if not 0 <= tap < target_layers:
            raise UserError(
                "a tap is not a layer of the target",
                field="taps",
                found=tap,
                needed=f"0 to {target_layers - 1}",
            )
    if len(set(taps)) != len(taps):
        raise UserError("a layer is tapped twice", field="taps", found=text, needed="distinct layers")
    return taps


def _need(ok: bool, field: str, found: object, needed: str) -> None:
    if not ok:
        raise UserError("bad training option", field=field, found=found, needed=needed)
