# SPDX-License-Identifier: Apache-2.0
"""Optimiser and learning rate."""

import math

import torch
from torch import nn

from vllm_dflash.train.options import TrainOptions

FLOOR = 0.02


def make_optimizer(module: nn.Module, options: TrainOptions) -> torch.optim.AdamW:
    """AdamW (0.9, 0.95); weight decay on matrices only."""
    matrices = [p for p in module.parameters() if p.dim() >= 2]
    vectors = [p for p in module.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": options.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    fused = next(module.parameters()).device.type == "cuda"
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95), fused=fused)


def learning_rate(options: TrainOptions, step: int, elapsed_minutes: float) -> float:
    """Linear warm-up, then half a cosine to FLOOR times the peak.

    The cosine's argument is the share of the run that is over: of its steps or, with max_minutes, of its
    time, whichever is further on. So a run cut short by the clock still ends with a low rate.
    """
    warm = min(1.0, (step + 1) / max(options.warmup, 1))
    done = step / options.steps
    if options.max_minutes is not None:
        done = max(done, elapsed_minutes / options.max_minutes)
    cosine = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return options.learning_rate * warm * (FLOOR + (1 - FLOOR) * cosine)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip(module: nn.Module, limit: float = 1.0) -> torch.Tensor:
    return nn.utils.clip_grad_norm_(module.parameters(), limit)
