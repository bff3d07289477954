# SPDX-License-Identifier: Apache-2.0
"""What the loop needs of a kind of drafter, and the loss that both kinds share."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from vllm_dflash.train.batches import Batch, to_device
from vllm_dflash.train.losses import decay_weights, dpace_weights, row_loss
from vllm_dflash.train.options import TrainOptions


@dataclass
class StepResult:
    """loss: scalar. right, standing, rows: float32 [K], sums over the supervised rows of draft position 1..K:
    top-1 equals the target's token; so do all positions before it too; number of rows."""

    loss: torch.Tensor
    right: torch.Tensor
    standing: torch.Tensor
    rows: torch.Tensor


class Method(Protocol):
    """A drafter under training. K = draft_tokens."""

    name: str
    draft_tokens: int

    @property
    def module(self) -> nn.Module: ...

    def step(self, batch: Batch, step: int) -> StepResult: ...

    def drafts(self, batch: Batch) -> torch.Tensor:
        """Greedy drafts of the serving-precision module, int64 [B, S, K] on the CPU.

        [b, p, i - 1] is the draft for position p + i when p is the last accepted token.
        """
        ...

    def save(self, out: Path) -> None: ...

    def describe(self) -> dict[str, Any]: ...


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def supervised_loss(
    hidden: torch.Tensor,
    labels: torch.Tensor,
    supervised: torch.Tensor,
    head: torch.Tensor,
    options: TrainOptions,
    teacher: torch.Tensor | None = None,
    rows: Any = None,
) -> StepResult:
    """Weighted mean loss of the supervised rows.

    Args:
        hidden: [G, K, H] normed hidden states, G drafts of K tokens; labels: int64 [G, K] on the CPU;
        supervised: bool [G, K] on the CPU; head: [V, H] frozen.
        teacher: [M, H], the target's hidden states for the M supervised rows, or None.

    Returns:
        loss = sum(w * row loss) / sum(w), w from options.loss.
    """
    groups, steps = labels.shape
    index = to_device(supervised.flatten().nonzero()[:, 0], hidden.device)
    label_rows = to_device(labels.flatten()[supervised.flatten()], hidden.device)
    picked = hidden.reshape(groups * steps, -1)[index]
    extra = {} if rows is None else {"rows": rows}
    loss, best, label_log_p = row_loss(picked, head, label_rows, teacher, **extra)
    table = torch.zeros(3, groups * steps, device=hidden.device)
    table[:, index] = torch.stack([torch.ones_like(loss), (best == label_rows).float(), label_log_p])
    there, right, log_p = table.view(3, groups, steps)
    if options.loss == "dpace":
        weights = dpace_weights(log_p, options.alpha)
    else:
        weights = decay_weights(steps, options.gamma, hidden.device).expand(groups, steps)
    weights = weights.reshape(-1)[index]
    mean = (weights * loss).sum() / weights.sum().clamp(min=1e-6)
    standing = right.cumprod(1) * there
    return StepResult(mean, right.sum(0), standing.sum(0), there.sum(0))


def initialise(module: nn.Module) -> None:
    """Matrices N(0, 0.02), biases 0; norms keep their ones."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


@torch.no_grad()
def top1(hidden: torch.Tensor, head: torch.Tensor, chunk: int = 16384) -> torch.Tensor:
    """hidden [M, H] -> int64 [M], the head's best tokens."""
    pieces = [(part.to(head.dtype) @ head.T).argmax(-1) for part in hidden.split(chunk)]
    return torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.long)
