# SPDX-License-Identifier: Apache-2.0
"""From options to the new drafter's config.json, which is then read back as any drafter's is."""

import json
from pathlib import Path

from vllm_dflash.checkpoint import (
    DraftConfig,
    DraftLayer,
    Rope,
    load_draft_config,
    load_target_config,
    native_config_dict,
)
from vllm_dflash.train.options import LAYER_LETTERS, TrainOptions, tap_layers
from vllm_dflash.train.target_model import TargetShape


def default_mlp(hidden: int) -> int:
    """16/9 of the hidden size, rounded to 64: three such layers cost what two with the usual 8/3 do."""
    return max(64, round(hidden * 16 / 9 / 64) * 64)


def write_draft_config(options: TrainOptions, shape: TargetShape, mask_token: int, out: Path) -> DraftConfig:
    """Write OUT/config.json and read it back against the target.

    The drafter has the target's width, because it borrows the target's embedding and head.
    """
    head_dim = options.head_dim or shape.head_dim
    rope = Rope(options.rope_theta or shape.rope.theta, head_dim)
    rules = [LAYER_LETTERS[letter] for letter in options.layers]
    values = native_config_dict(
        layers=[DraftLayer(options.window if windowed else None, causal, rope) for windowed, causal in rules],
        tap_layer_ids=tap_layers(options.taps, shape.layers),
        block_size=options.block_size,
        mask_token_id=mask_token,
        hidden_size=shape.hidden,
        intermediate_size=options.mlp or default_mlp(shape.hidden),
        num_attention_heads=options.heads or shape.heads,
        num_key_value_heads=options.kv_heads or shape.kv_heads,
        head_dim=head_dim,
        rms_norm_eps=shape.norm_eps,
        vocab_size=shape.vocabulary,
        num_target_layers=shape.layers,
        target_hidden_size=shape.hidden,
        max_position_embeddings=shape.max_positions,
    )
    (out / "model.safetensors").unlink(missing_ok=True)
    (out / "config.json").write_text(json.dumps(values, indent=2) + "\n")
    return load_draft_config(out, target=load_target_config(options.target))
