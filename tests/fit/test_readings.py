# SPDX-License-Identifier: Apache-2.0
"""A drafter that is read another way is the drafter that a config of that reading would have given."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests import tiny
from vllm_dflash.checkpoint import Rope, load_draft_config
from vllm_dflash.fit.reading import Reading, reread
from vllm_dflash.reference.drafter import Drafter

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
ROPES = {
    "plain": Rope(5e4, 24),
    "partial": Rope(5e4, 12),
    "partial llama3": Rope(5e4, 12, LLAMA3),
    "proportional": Rope(5e4, 12, {"rope_type": "proportional"}),
}


@pytest.mark.parametrize("name", ROPES)
def test_rope_of_a_head_size_that_is_not_hidden_over_heads(name: str, tmp_path: Path) -> None:
    config = load_draft_config(tiny.drafter(tmp_path, "SF", heads=(2, 1, 24)))
    layers = tuple(replace(layer, rope=ROPES[name]) for layer in config.layers)
    other = replace(Reading.of(config), layers=layers)
    reread_one, fresh = Drafter.load(config), Drafter.load(other.on(config))
    reread(reread_one, other)
    torch.manual_seed(0)
    features, positions = torch.randn(1, 9, tiny.HIDDEN), torch.arange(9)[None]
    for ours, wanted in zip(
        reread_one.context_key_value(features, positions), fresh.context_key_value(features, positions), strict=True
    ):
        assert torch.equal(ours[0], wanted[0]) and torch.equal(ours[1], wanted[1])
