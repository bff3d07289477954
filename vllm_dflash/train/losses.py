# SPDX-License-Identifier: Apache-2.0
"""The loss of one supervised row, without ever holding all logits, and the weight of each row."""

from typing import Any

import torch
import torch.nn.functional as F

CHUNK_ROWS = 8192


def _rows(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, teacher: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Loss, top-1, log-probability of the label and gradient to hidden of each row; see `row_loss`."""
    logits = F.linear(hidden, weight)
    best = logits.argmax(-1)
    if teacher is None:
        error = logits.softmax(-1)
        label_log_p = error.gather(1, labels[:, None])[:, 0].float().clamp(min=1e-37).log()
        loss = -label_log_p
        error.scatter_add_(1, labels[:, None], torch.full_like(error[:, :1], -1.0))
    else:
        log_p, log_q = (
            logits.log_softmax(-1, torch.float32),
            F.linear(teacher, weight).log_softmax(-1, torch.float32),
        )
        label_log_p = log_p.gather(1, labels[:, None])[:, 0]
        loss = (log_q.exp() * (log_q - log_p)).sum(-1)
        error = (log_p.exp() - log_q.exp()).to(weight.dtype)
    return loss, best, label_log_p, error @ weight


class _RowLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        teacher: torch.Tensor | None,
        rows: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        parts = []
        for start in range(0, max(len(hidden), 1), CHUNK_ROWS):
            piece = slice(start, start + CHUNK_ROWS)
            part = teacher[piece].to(weight.dtype) if teacher is not None else None
            parts.append(rows(hidden[piece].to(weight.dtype), weight, labels[piece], part))
        loss, best, label_log_p, gradient = (torch.cat(column) for column in zip(*parts, strict=True))
        ctx.save_for_backward(gradient)
        ctx.hidden_dtype = hidden.dtype
        ctx.mark_non_differentiable(best, label_log_p)
        return loss, best, label_log_p

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[torch.Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return (gradient * gradients[0][:, None]).to(ctx.hidden_dtype), None, None, None, None


def row_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    teacher: torch.Tensor | None = None,
    rows: Any = _rows,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cross-entropy to the label, or KL(target || drafter), under a frozen head.

    The gradient to `hidden` is made chunk by chunk in the forward pass; `weight` gets none. Probabilities
    have the head's dtype: under a bfloat16 head a single loss is good to about 0.004 nats.

    Args:
        hidden: [M, H]; weight: [V, H], its dtype is that of the products; labels: int64 [M].
        teacher: [M, H] the target's own normed hidden states for KL, or None for cross-entropy.

    Returns:
        loss [M] float32 in nats; top-1 token int64 [M]; label's log-probability float32 [M], no gradient.
    """
    return _RowLoss.apply(hidden, weight, labels, teacher, rows)


def compiled_rows() -> Any:
    """`_rows` through torch.compile, dynamic in the number of rows."""
    return torch.compile(_rows, dynamic=True)


def decay_weights(steps: int, gamma: float, device: torch.device) -> torch.Tensor:
    """[steps]: exp(-(i - 1) / gamma) for draft position i = 1, 2, ... (arXiv 2602.06036)."""
    return torch.exp(-torch.arange(steps, device=device, dtype=torch.float32) / gamma)


def dpace_weights(label_log_p: torch.Tensor, alpha: float) -> torch.Tensor:
    """Weight of draft position i: the chance that the drafts before it stand, smoothed.

    w_i = product over j < i of (alpha + (1 - alpha) * p_j), p_j the drafter's own probability of token j.
    w_1 = 1; alpha = 1 weighs all positions alike, alpha = 0 is the plain prefix probability. No gradient
    flows through the weights. In the manner of D-PACE (arXiv 2605.18810).

    Args:
        label_log_p: [..., K] log-probabilities, position 1 first; 0 where there is no label.

    Returns:
        [..., K].
    """
    smooth = alpha + (1 - alpha) * label_log_p.detach().exp()
    return torch.cat([torch.ones_like(smooth[..., :1]), smooth[..., :-1].cumprod(-1)], dim=-1)
