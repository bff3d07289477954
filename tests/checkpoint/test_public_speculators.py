# SPDX-License-Identifier: Apache-2.0
"""Configs with the values of published speculators-format drafters. Tensor files are holes."""

import pytest

from tests.drafter_files import drafter_shapes
from vllm_dflash.checkpoint import load_draft_config

F = "full_attention"
YARN_64 = {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}


def speculators(aux, mask, *, block=16, draft_vocab=248320, hidden=2048, layers=5, head_dim=128, **more):
    return {
        "architectures": ["DFlashDraftModel"],
        "speculators_model_type": "dflash",
        "speculators_config": {"algorithm": "dflash", "verifier": {"name_or_path": "some/target"}},
        "aux_hidden_state_layer_ids": aux,
        "mask_token_id": mask,
        "block_size": block,
        "draft_vocab_size": draft_vocab,
        "target_hidden_size": None,
        "max_anchors": 3072,
        "transformer_layer_config": {
            "model_type": "qwen3",
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "intermediate_size": 6144,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": head_dim,
            "vocab_size": more.pop("vocab_size", 248320),
            "max_position_embeddings": 262144,
            "layer_types": [F] * layers,
            "sliding_window": None,
            "use_sliding_window": False,
            **more.pop("layer", {"rope_theta": 1e7}),
        },
        **more,
    }


# fmt: off
SPECULATORS = {
    "RedHatAI/Qwen3-8B-speculator.dflash": (
        speculators([2, 10, 18, 26, 34], 151669, block=8, draft_vocab=32000, hidden=4096,
        vocab_size=151936), {"draft_vocab_size": 32000, "vocab_size": 151936, "has_d2t": True,
        "own_lm_head": True, "block_size": 8}
    ),
    "Qwen3.6-35B, converted": (
        speculators([2, 11, 20, 29, 38], 248070, layers=8, sliding_window_non_causal=False,
        layer={"rope_parameters": {"rope_theta": 1e7, "rope_type": "yarn", **YARN_64}}),
        {"tap_layer_ids": (1, 10, 19, 28, 37), "mask_token_id": 248070, "has_d2t": False}
    ),
    "Qwen3.6-35B, self-trained": (
        speculators([1, 10, 19, 28, 37], 248077, head_dim=256), {"tap_layer_ids": (0, 9, 18, 27, 36),
        "mask_token_id": 248077, "head_dim": 256}
    ),
    "Qwen3.5-35B, self-trained": (
        speculators([1, 6, 11, 16, 22, 27, 32, 37], 248077, block=8, draft_vocab=24576,
        sample_from_anchor=False, sliding_window_non_causal=False), {"tap_layer_ids": (0, 5, 10, 15, 21,
        26, 31, 36), "draft_vocab_size": 24576, "own_lm_head": True}
    ),
}
# fmt: on


@pytest.mark.parametrize("name", SPECULATORS)
def test_speculators(write, name):
    raw, fields = SPECULATORS[name]
    layer, taps = raw["transformer_layer_config"], len(raw["aux_hidden_state_layer_ids"])
    shapes = drafter_shapes(layer, taps)
    if raw["draft_vocab_size"] != layer["vocab_size"]:
        rows = raw["draft_vocab_size"]
        shapes |= {
            "lm_head.weight": (rows, layer["hidden_size"]),
            "d2t": (rows,),
            "t2d": (layer["vocab_size"],),
        }
    config = load_draft_config(write(raw, shapes))
    assert config.format == "speculators"
    assert {key: getattr(config, key) for key in fields} == fields
    assert config.describe_layers() == f"{'F' * len(config.layers)}, causal {'F' * len(config.layers)}"
    assert [f for f in config.findings if f.level != "NOTE"] == []
