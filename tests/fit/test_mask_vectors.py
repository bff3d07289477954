# SPDX-License-Identifier: Apache-2.0
"""Block rows enter as the reference's vocabulary gives them, trained mask vector and embedding factor included."""

import json
from pathlib import Path

import pytest
import torch

from tests import tiny
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.checkpoint.mask_embedding import NAME
from vllm_dflash.fit.draft_weights import load_draft_weights
from vllm_dflash.fit.loaded_target import load_target
from vllm_dflash.reference.target import Target
from vllm_dflash.reference.vocabulary import Vocabulary


@pytest.mark.parametrize("trained_mask", [False, True])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_block_rows_enter_as_in_the_reference(scale: float, trained_mask: bool, tmp_path: Path) -> None:
    folder = tiny.drafter(tmp_path / "drafter", "SF")
    values = json.loads((folder / "config.json").read_text())
    values["dflash_config"]["input_embedding_scale"] = scale
    (folder / "config.json").write_text(json.dumps(values))
    if trained_mask:
        torch.save(torch.linspace(-1, 1, tiny.HIDDEN), folder / NAME)
    target = load_target(tiny.target(tmp_path / "target"), torch.device("cpu"))
    config = load_draft_config(folder, target=target.config)
    weights = load_draft_weights(config, target)
    vocabulary = Vocabulary(config, Target(target.model, config.tap_layer_ids))
    wanted = vocabulary.embed(torch.tensor([7, config.mask_token_id])) * config.embed_scale
    assert config.embed_scale == scale
    assert torch.equal(weights.embed(torch.tensor(7)), wanted[0])
    assert torch.equal(weights.mask_vector(config.mask_token_id), wanted[1])
