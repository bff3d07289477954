# SPDX-License-Identifier: Apache-2.0
"""The chunked head loss against plain autograd, and the position weights against loops."""

import math

import pytest
import torch
import torch.nn.functional as F

from vllm_dflash.train import losses
from vllm_dflash.train.losses import decay_weights, dpace_weights, row_loss


@pytest.mark.parametrize("rows", [0, 1, 4, 5, 9])
@pytest.mark.parametrize("kl", [False, True])
def test_row_loss_and_gradient(rows: int, kl: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "CHUNK_ROWS", 4)
    torch.manual_seed(rows)
    hidden = torch.randn(rows, 6, requires_grad=True)
    weight, labels, upstream = torch.randn(11, 6), torch.randint(0, 11, (rows,)), torch.rand(rows)
    teacher = torch.randn(rows, 6) if kl else None
    loss, best, log_p = row_loss(hidden, weight, labels, teacher)
    (loss * upstream).sum().backward()
    plain = hidden.detach().clone().requires_grad_()
    logits = plain @ weight.T
    if teacher is None:
        wanted = F.cross_entropy(logits, labels, reduction="none")
    else:
        q = (teacher @ weight.T).softmax(-1)
        wanted = (q * (q.log() - logits.log_softmax(-1))).sum(-1)
    (wanted * upstream).sum().backward()
    torch.testing.assert_close(loss, wanted)
    assert hidden.grad is not None and plain.grad is not None
    torch.testing.assert_close(hidden.grad, plain.grad)
    assert torch.equal(best, logits.argmax(-1))
    torch.testing.assert_close(log_p, logits.log_softmax(-1).gather(1, labels[:, None])[:, 0])


def test_decay_weights() -> None:
    weights = decay_weights(3, 4.0, torch.device("cpu")).tolist()
    assert weights == pytest.approx([1.0, math.exp(-0.25), math.exp(-0.5)])


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_dpace_weights(alpha: float) -> None:
    p = torch.tensor([[0.9, 0.5, 0.2, 0.7], [0.1, 1.0, 0.3, 0.4]])
    got = dpace_weights(p.log().requires_grad_(), alpha)
    assert not got.requires_grad
    for row in range(2):
        weight = 1.0
        for position in range(4):
            assert got[row, position].item() == pytest.approx(weight, rel=1e-5)
            weight *= alpha + (1 - alpha) * p[row, position].item()
