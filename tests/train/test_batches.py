# SPDX-License-Identifier: Apache-2.0
"""Order of data, padding and anchors."""

import numpy as np
import torch

from vllm_dflash.train.answers import Answers
from vllm_dflash.train.batches import Order, collate, draw_anchors


def test_every_epoch_visits_each_sequence_once_and_differs(answers: Answers) -> None:
    indices = np.arange(40)
    order = Order(answers, indices, 8, seed=1)
    epochs = [np.concatenate([order[epoch * 5 + step] for step in range(5)]) for epoch in range(3)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == indices.tolist()
    assert not np.array_equal(epochs[0], epochs[1])
    again = Order(answers, indices, 8, seed=1)
    assert np.array_equal(again[11], order[11])
    assert np.array_equal(order[0], epochs[0][:8])


def test_a_set_smaller_than_a_batch_is_one_batch(answers: Answers) -> None:
    assert sorted(Order(answers, np.array([3, 5]), 8, seed=0)[7].tolist()) == [3, 5]


def test_collate_pads_right(answers: Answers) -> None:
    batch = collate(answers, np.array([0, 1, 2]))
    assert batch.tokens.shape[1] % 32 == 0
    for row in range(3):
        length = int(batch.lengths[row])
        assert batch.tokens[row, :length].tolist() == answers.sequence(row).tolist()
        assert not batch.tokens[row, length:].any()


def test_anchors_precede_answer_tokens(answers: Answers) -> None:
    batch = collate(answers, np.arange(12))
    positions, valid = draw_anchors(batch, 20, seed=3, step=4)
    for row in range(12):
        prompt, length = int(batch.prompt_lengths[row]), int(batch.lengths[row])
        allowed = set(range(prompt - 1, length - 1))
        assert len(set(positions[row].tolist())) == 20
        assert set(positions[row][valid[row]].tolist()) <= allowed
        assert valid[row].sum() == min(20, len(allowed))
    assert torch.equal(positions, draw_anchors(batch, 20, seed=3, step=4)[0])
    assert not torch.equal(positions, draw_anchors(batch, 20, seed=3, step=5)[0])


def test_anchors_are_uniform(answers: Answers) -> None:
    batch = collate(answers, np.array([1]))
    seen = torch.zeros(batch.tokens.shape[1])
    for step in range(2000):
        seen[draw_anchors(batch, 4, seed=0, step=step)[0][0]] += 1
    first, last = int(batch.prompt_lengths[0]) - 1, int(batch.lengths[0]) - 2
    inside = seen[first : last + 1]
    assert seen.sum() == inside.sum()
    expected = 2000 * 4 / len(inside)
    assert (inside - expected).abs().max() < 5 * expected**0.5
