# SPDX-License-Identifier: Apache-2.0
"""Many blocks trained side by side see what each would see alone, layer kind by layer kind."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train.helpers import block_alone, method
from vllm_dflash.train.answers import Answers
from vllm_dflash.train.batches import collate
from vllm_dflash.train.dflash import block_rows, block_tokens
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.target_model import FrozenTarget

Make = Callable[..., TrainOptions]


@pytest.mark.parametrize("letter", ["S", "s", "F", "C"])
@pytest.mark.parametrize("window", [1, 2, 4, 5, 9])
def test_mask_against_loops(letter: str, window: int, options: Make, target: FrozenTarget) -> None:
    block, width = 5, 16
    made = method(options(layers=letter, window=window, block_size=block), target)
    anchors = torch.tensor([[1, 3, 4, 11], [0, 2, 9, 15]])
    positions, anchor_of = block_rows(anchors, block)
    got = made.module.visibility(positions, anchor_of, torch.arange(width).expand(2, -1))[0]
    for b in range(2):
        for n, a in enumerate(anchors[b].tolist()):
            for i in range(block):
                row, p = n * block + i, a + i
                for c in range(width):
                    wanted = c < a and (letter in "FC" or p - c < window)
                    assert got[b, row, c] == wanted
                for m in range(4):
                    for j in range(block):
                        q = a + j
                        wanted = (
                            m == n and (letter in "FC" or abs(p - q) < window) and (letter in "sF" or q <= p)
                        )
                        assert got[b, row, width + m * block + j] == wanted


@pytest.mark.parametrize("layers", ["SSF", "sC", "FS"])
def test_side_by_side_equals_alone(
    layers: str, options: Make, target: FrozenTarget, answers: Answers
) -> None:
    """Each block alone, with a context cut off before its anchor, gives the same hidden states."""
    made = method(options(layers=layers, window=6), target)
    batch = collate(answers, np.arange(1, 5))
    anchors = torch.tensor([[3, 8, 9, 20]]).expand(4, -1)
    with torch.no_grad():
        taps, _ = made.features(batch.tokens)
        together = made.hidden(made.module, batch.tokens, taps, anchors)
        for row in range(4):
            for n, anchor in enumerate(anchors[row].tolist()):
                alone = block_alone(made.module, made, batch.tokens[row], anchor)
                torch.testing.assert_close(together[row, n], alone, atol=2e-5, rtol=1e-4)


def test_rows_hold_anchor_then_masks() -> None:
    tokens = torch.tensor([[10, 11, 12, 13]])
    assert block_tokens(tokens, torch.tensor([[1, 3]]), 3, 7).tolist() == [[11, 7, 7, 13, 7, 7]]


def test_only_answer_rows_are_supervised(options: Make, target: FrozenTarget, answers: Answers) -> None:
    made = method(options(anchors=64), target)
    batch = collate(answers, np.arange(6))
    rows = made.step(batch, 0).rows
    for position in range(1, made.draft_tokens + 1):
        wanted = sum(
            max(0, int(length) - position - (int(prompt) - 1))
            for prompt, length in zip(batch.prompt_lengths, batch.lengths, strict=True)
        )
        assert rows[position - 1] == wanted


def test_padding_changes_nothing(options: Make, target: FrozenTarget, answers: Answers) -> None:
    made = method(options(), target)
    short = collate(answers, np.array([2]))
    wide = collate(answers, np.array([2]))
    wide.tokens = torch.cat([wide.tokens, torch.full((1, 32), 9)], dim=1)
    last = int(short.lengths[0]) - 1
    torch.testing.assert_close(made.drafts(short)[0, 2:last], made.drafts(wide)[0, 2:last])


def test_config_says_what_was_asked(options: Make, target: FrozenTarget) -> None:
    made = method(options(layers="SsFC", window=7, taps="0,3", rope_theta=500.0), target)
    assert [(layer.window, layer.causal) for layer in made.config.layers] == [
        (7, True), (7, False), (None, False), (None, True),
    ]  # fmt: skip
    assert made.config.tap_layer_ids == (0, 3)
    assert {layer.rope.theta for layer in made.config.layers} == {500.0}
    assert Path(made.config.path, "config.json").is_file()
