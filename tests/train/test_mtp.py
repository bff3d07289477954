# SPDX-License-Identifier: Apache-2.0
"""The unrolled MTP head against a one-token-at-a-time decoder with a growing key cache."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.train.helpers import draft_one_by_one
from vllm_dflash.train.answers import Answers
from vllm_dflash.train.batches import collate
from vllm_dflash.train.mtp import MtpMethod
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.target_model import FrozenTarget

Make = Callable[..., TrainOptions]


@pytest.fixture
def made(options: Make, target: FrozenTarget) -> MtpMethod:
    method = MtpMethod(target, options(method="mtp"))
    torch.manual_seed(1)
    for parameter in method.module.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return method


@torch.no_grad()
def test_drafts_equal_one_by_one(made: MtpMethod, answers: Answers) -> None:
    batch = collate(answers, np.array([1, 2, 3]))
    drafts = made.drafts(batch)
    for row in range(3):
        for anchor in range(int(batch.prompt_lengths[row]), int(batch.lengths[row]), 5):
            assert drafts[row, anchor].tolist() == draft_one_by_one(made, batch.tokens[row], anchor, 3)


@torch.no_grad()
def test_taught_steps_read_true_tokens(made: MtpMethod, answers: Answers) -> None:
    """With teaching the second step differs from drafting exactly where the first draft was wrong."""
    batch = collate(answers, np.array([1, 2]))
    residual = made.residual(batch.tokens)
    taught = made.unroll(made.module, batch.tokens, residual, teach=True)
    drafted = made.unroll(made.module, batch.tokens, residual, teach=False)
    torch.testing.assert_close(taught[:, :, 0], drafted[:, :, 0])
    first = made.target.head(taught[:, :-2, 0]).argmax(-1)
    same = first == batch.tokens[:, 2:]
    close = (taught[:, :-2, 1] - drafted[:, :-2, 1]).abs().amax(-1) < 1e-5
    assert torch.equal(same, close)


def test_supervision_counts(made: MtpMethod, answers: Answers) -> None:
    batch = collate(answers, np.arange(6))
    rows = made.step(batch, 0).rows
    for position in range(1, 4):
        wanted = sum(
            max(0, int(length) - position - max(int(prompt) - 1, 1))
            for prompt, length in zip(batch.prompt_lengths, batch.lengths, strict=True)
        )
        assert rows[position - 1] == wanted


def test_embedding_at_position_zero_is_ignored(made: MtpMethod) -> None:
    previous, seen = torch.randn(1, 2, 64), torch.ones(1, 2, 2, dtype=torch.bool).tril()
    one, other = torch.randn(1, 2, 64), torch.randn(1, 2, 64)
    other[:, 1] = one[:, 1]
    place = torch.tensor([[0, 1]])
    assert torch.equal(
        made.module(one, place, previous, [], seen)[0], made.module(other, place, previous, [], seen)[0]
    )
