# SPDX-License-Identifier: Apache-2.0
"""Configs with the values of published native drafters. Tensor files are holes of the published shapes.

Values that no public text gave (heads 32/8 of 128, vocabulary and widths of a sibling, the taps of some,
which of Gemma's layers slide) stand in to make the config complete.
"""

import math

import pytest

from tests.drafter_files import drafter_shapes
from vllm_dflash.checkpoint import load_draft_config, load_target_config

S, F = "sliding_attention", "full_attention"


def layer_types(letters):
    return [S if letter == "S" else F for letter in letters]


def native(taps, mask, *, block=16, target_layers=64, layers=5, hidden=5120, inner=17408, heads=(32, 8), **more):
    config = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": 128,
        "vocab_size": 248320,
        "num_target_layers": target_layers,
        "max_position_embeddings": 262144,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e7,
        "dtype": "bfloat16",
        "block_size": block,
        "dflash_config": {"target_layer_ids": taps, "mask_token_id": mask},
    }
    nested = more.pop("dflash_config", {})
    return {k: v for k, v in (config | more).items() if v is not ...} | {
        "dflash_config": config["dflash_config"] | nested
    }


YARN_64 = {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}
TAPS_27B, TAPS_35B = [1, 16, 31, 46, 61], [1, 10, 19, 28, 37]
GEMMA_TARGET = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size": 5376,
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "vocab_size": 262144,
        "final_logit_softcapping": 30.0,
    },
}

# name -> (config, layers as S/F, window, causal as T/F, expected fields)
# fmt: off
NATIVE = {
    "Qwen3.6-27B-DFlash": (
        native(TAPS_27B, 248070, layer_types=layer_types("SSSSF"), sliding_window=2048,
        use_sliding_window=True), "SSSSF window 2048, causal TTTTF", {"tap_layer_ids": tuple(TAPS_27B),
        "mask_token_id": 248070, "block_size": 16, "vocab_size": 248320}
    ),
    "Qwen3.6-35B-A3B-DFlash, first upload": (
        native(TAPS_35B, 248070, layers=8, target_layers=40, hidden=2048, inner=6144, heads=(32, 4),
        layer_types=layer_types("FFFFFFFF"), sliding_window=None, use_sliding_window=False,
        rope_scaling=YARN_64, draft_vocab_size=248320), "FFFFFFFF, causal FFFFFFFF",
        {"max_position_embeddings": 262144, "hidden_size": 2048, "num_key_value_heads": 4}
    ),
    "Qwen3.6-35B-A3B-DFlash, later upload": (
        native(TAPS_35B, 248070, layers=6, target_layers=40, hidden=2048, inner=6144, heads=(32, 4),
        layer_types=layer_types("SSSSSF"), sliding_window=4096, use_sliding_window=True,
        rope_scaling=None), "SSSSSF window 4096, causal TTTTTF", {"block_size": 16}
    ),
    "Qwen3.5-27B-DFlash, first upload": (
        native(TAPS_27B, 248070, layer_types=layer_types("FFFFF")), "FFFFF, causal FFFFF",
        {"tap_layer_ids": tuple(TAPS_27B), "intermediate_size": 17408, "max_position_embeddings":
        262144}
    ),
    "Qwen3.5-27B-DFlash, main": (
        native(TAPS_27B, 248070, layers=6, layer_types=layer_types("SSSSSF"), sliding_window=4096,
        use_sliding_window=True), "SSSSSF window 4096, causal TTTTTF", {"num_target_layers": 64}
    ),
    "Qwen3.5-35B-A3B-DFlash": (
        native(TAPS_35B, 248070, layers=6, target_layers=40, hidden=2048, inner=6144, heads=(32, 4),
        layer_types=layer_types("SSSSSF"), sliding_window=4096, use_sliding_window=True),
        "SSSSSF window 4096, causal TTTTTF", {"num_target_layers": 40, "block_size": 16}
    ),
    "Qwen3.5-122B-A10B-DFlash, first upload": (
        native([1, 9, 18, 27, 36, 45], 248070, layers=4, target_layers=48, hidden=3072, inner=9216,
        layer_types=layer_types("SSSS"), sliding_window=2048, use_sliding_window=True),
        "SSSS window 2048, causal TTTT", {"block_size": 16}
    ),
    "Qwen3.5-122B-A10B-DFlash, retrained": (
        native([1, 7, 13, 19, 25, 31, 37, 45], 248070, layers=6, target_layers=48, hidden=3072,
        inner=9216, layer_types=layer_types("SSSSSS"), sliding_window=4096, use_sliding_window=True),
        "SSSSSS window 4096, causal TTTTTT", {"block_size": 16}
    ),
    "Qwen3.5-9B-DFlash, retrained": (
        native([1, 8, 15, 22, 29], 248070, layers=6, target_layers=32, hidden=4096, inner=12288,
        layer_types=layer_types("SSSSSF"), sliding_window=4096, use_sliding_window=True, rope_theta=...,
        rope_parameters={"rope_theta": 1e7, "rope_type": "default"}),
        "SSSSSF window 4096, causal TTTTTF", {"num_target_layers": 32, "tap_layer_ids": (1, 8, 15, 22,
        29)}
    ),
    "Qwen3.5-4B, SpecForge": (
        native([3, 11, 19, 27, 31], 248070, target_layers=32, hidden=2560, inner=9216,
        rope_scaling=None), "FFFFF, causal FFFFF", {"tap_layer_ids": (3, 11, 19, 27, 31)}
    ),
    "Qwen3-8B-DFlash-b16": (
        native([1, 9, 17, 25, 33], 151669, target_layers=36, hidden=4096, inner=12288,
        vocab_size=151936, rope_theta=1e6, max_position_embeddings=40960), "FFFFF, causal FFFFF",
        {"mask_token_id": 151669, "block_size": 16, "tap_layer_ids": (1, 9, 17, 25, 33)}
    ),
    "Qwen3-4B-DFlash-b16": (
        native([1, 9, 17, 25, 33], 151669, target_layers=36, hidden=2560, inner=9728,
        vocab_size=151936, rope_theta=1e6, max_position_embeddings=40960, tie_word_embeddings=True),
        "FFFFF, causal FFFFF", {"hidden_size": 2560, "own_lm_head": False, "max_position_embeddings":
        40960}
    ),
    "Qwen3-Coder-30B-A3B-DFlash": (
        native([1, 12, 23, 34, 45], 151669, target_layers=48, hidden=2048, inner=6144, heads=(32, 4),
        vocab_size=151936), "FFFFF, causal FFFFF", {"block_size": 16, "mask_token_id": 151669}
    ),
    "gemma-4-31B-it-DFlash": (
        native([1, 12, 23, 35, 46, 57], 4, target_layers=60, hidden=5376, inner=10752, heads=(64, 8),
        vocab_size=262144, rope_theta=1e6, layer_types=layer_types("SSSSF"), sliding_window=2048,
        use_sliding_window=True, final_logit_softcapping=30.0, tie_word_embeddings=True),
        "SSSSF window 2048, causal TTTTF", {"mask_token_id": 4, "logit_softcap": 30.0, "vocab_size":
        262144}
    ),
    "MiMo-V2.5-Pro DFlash": (
        native([0, 15, 31, 47, 69], 151669, block=8, target_layers=70, hidden=6144, inner=16384,
        heads=(128, 8), vocab_size=152064, rope_theta=10000, partial_rotary_factor=0.5, v_head_dim=128,
        sliding_window=1024, rms_norm_eps=1e-5, dflash_config={"block_size": 8, "num_anchors": 4096,
        "loss_decay_gamma": 7.0, "use_swa": True, "swa_window_size": 1024, "backbone_rotary_base":
        5000000, "attention_value_scale": 0.612, "attention_sink_bias": True}),
        "SSSSS window 1024, causal FFFFF", {"value_scale": 0.612, "attention_sinks": True,
        "rms_norm_eps": 1e-5, "tap_layer_ids": (0, 15, 31, 47, 69)}
    ),
    "MiMo-V2.6-Flash-RL DFlash": (
        native([0, 11, 23, 35, 47], 151675, block=8, target_layers=48, hidden=4096, inner=16384,
        heads=(64, 8), vocab_size=152576, rope_theta=10000.0, partial_rotary_factor=0.5,
        target_hidden_size=4096, layer_types=layer_types("SSSSS"), sliding_window=1024,
        use_sliding_window=True, is_causal=False, add_swa_attention_sink_bias=True,
        dflash_config={"block_size": 8, "attention_value_scale": 0.612, "attention_sink_bias": True}),
        "SSSSS window 1024, causal FFFFF", {"value_scale": 0.612, "attention_sinks": True}
    ),
}
# fmt: on


def load_with_weights(write, config, taps, **kwargs):
    shapes = drafter_shapes(config, taps)
    if config["dflash_config"].get("attention_sink_bias"):
        heads = (config["num_attention_heads"],)
        shapes |= {f"layers.{i}.self_attn.attention_sink_bias": heads for i in range(config["num_hidden_layers"])}
    return load_draft_config(write(config, shapes), **kwargs)


@pytest.mark.parametrize("name", NATIVE)
def test_native(write, name):
    raw, described, fields = NATIVE[name]
    config = load_with_weights(write, raw, len(raw["dflash_config"]["target_layer_ids"]))
    assert config.format == "native" and config.has_weights
    assert config.describe_layers() == described
    assert {key: getattr(config, key) for key in fields} == fields
    assert config.draft_vocab_size == config.vocab_size and not config.has_d2t and not config.own_lm_head
    assert config.max_draft_tokens == config.block_size - 1
    assert [f for f in config.findings if f.level != "NOTE"] == []


@pytest.mark.parametrize("name", NATIVE)
def test_ropes(write, name):
    raw, _, _ = NATIVE[name]
    ropes = {layer.rope for layer in load_draft_config(write(raw)).layers if layer.rope.scaling is None}
    rotary = {64 if "MiMo" in name else 128}
    theta = raw.get("rope_theta") or raw["rope_parameters"]["rope_theta"]
    assert {(rope.theta, rope.rotary_dim) for rope in ropes} == ({(theta, *rotary)} if ropes else set())


def test_yarn_of_the_first_35b_upload(write):
    config = load_draft_config(write(NATIVE["Qwen3.6-35B-A3B-DFlash, first upload"][0]))
    assert all(layer.rope.theta == 1e7 for layer in config.layers)
    assert config.layers[0].rope.scaling == {
        "rope_type": "yarn",
        "factor": 64.0,
        "original_max_position_embeddings": 4096,
    }


def test_fc_of_the_27b_drafter_has_25600_columns(write):
    raw = NATIVE["Qwen3.6-27B-DFlash"][0]
    shapes = drafter_shapes(raw, 5)
    assert shapes["fc.weight"] == (5120, 25600)
    config = load_draft_config(write(raw, shapes))
    assert config.target_hidden_size == 5120 and config.sources["target_hidden_size"].key == "fc.weight"


def test_gemma_borrows_scale_and_cap_from_its_target(write, changed):
    raw = changed(NATIVE["gemma-4-31B-it-DFlash"][0], {"final_logit_softcapping": ...})
    target = load_target_config(write(GEMMA_TARGET))
    config = load_with_weights(write, raw, 6, target=target)
    assert config.embed_scale == math.sqrt(5376) and config.logit_softcap == 30.0
    assert "gemma4_text" in config.sources["embed_scale"].rule
    alone = load_draft_config(write(raw))
    assert alone.embed_scale == 1.0 and alone.logit_softcap is None
