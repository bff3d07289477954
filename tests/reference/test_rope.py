# SPDX-License-Identifier: Apache-2.0
"""Rope of a draft layer against the module of transformers that Qwen3-type drafters are trained with."""

from typing import Any

import pytest
import torch
from transformers import Gemma4TextConfig, Qwen3Config
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding, apply_rotary_pos_emb

from vllm_dflash.checkpoint import Rope
from vllm_dflash.reference.rope import inverse_frequencies, rotate

HEAD, POSITIONS, TRAINED = 32, 256, 256
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALINGS: dict[str, dict[str, Any] | None] = {
    "default": None,
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0},
    "yarn, attention factor": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.7},
    "yarn, mscale": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5},
    "yarn, untruncated": {"rope_type": "yarn", "factor": 4.0, "truncate": False, "beta_fast": 16.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, **LLAMA3},
}


def scaled(name: str) -> dict[str, Any] | None:
    scaling = SCALINGS[name]
    if scaling is None or scaling["rope_type"] not in ("yarn", "llama3"):
        return scaling
    return scaling | {"original_max_position_embeddings": 64}


@pytest.mark.parametrize("partial", [1.0, 0.5])
@pytest.mark.parametrize("name", SCALINGS)
def test_rotates_as_transformers(name: str, partial: float) -> None:
    entry = (scaled(name) or {"rope_type": "default"}) | {"rope_theta": 1e4, "partial_rotary_factor": partial}
    rotary = int(HEAD * partial)
    config = Qwen3Config(
        head_dim=rotary,  # its rope turns whole heads
        rope_parameters=entry | {"partial_rotary_factor": 1.0},
        max_position_embeddings=TRAINED,
    )
    generator = torch.Generator().manual_seed(0)
    x, positions = torch.randn(1, POSITIONS, 2, HEAD, generator=generator), torch.arange(POSITIONS)[None]
    cos, sin = Qwen3RotaryEmbedding(config)(x, positions)
    wanted, _ = apply_rotary_pos_emb(x[..., :rotary], x[..., :rotary], cos, sin, unsqueeze_dim=2)
    frequencies, factor = inverse_frequencies(Rope(1e4, rotary, scaled(name)), TRAINED, HEAD)
    turned = rotate(x, positions, frequencies, factor)
    torch.testing.assert_close(turned[..., :rotary], wanted)
    torch.testing.assert_close(turned[..., rotary:], x[..., rotary:])


def test_proportional_rope_pairs_dimensions_over_the_whole_head() -> None:
    entry = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
    kinds = ["full_attention"]
    config = Gemma4TextConfig(
        global_head_dim=HEAD, num_hidden_layers=1, layer_types=kinds, rope_parameters={kinds[0]: entry}
    )
    x, positions = torch.randn(1, POSITIONS, 2, HEAD), torch.arange(POSITIONS)[None]
    cos, sin = Gemma4TextRotaryEmbedding(config)(x, positions, layer_type=kinds[0])
    wanted, _ = apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=2)
    frequencies, factor = inverse_frequencies(Rope(1e6, HEAD // 4, {"rope_type": "proportional"}), TRAINED, HEAD)
    torch.testing.assert_close(rotate(x, positions, frequencies, factor), wanted)
