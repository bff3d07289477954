# SPDX-License-Identifier: Apache-2.0
"""The target's config: families, wrappers, what is refused; and whether a drafter fits it."""

import math

import pytest

from vllm_dflash.checkpoint import load_draft_config, load_target_config
from vllm_dflash.errors import UserError

QWEN35 = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "tie_word_embeddings": False,
    "vision_config": {"hidden_size": 9},
    "text_config": {
        "model_type": "qwen3_5_text",
        "hidden_size": 64,
        "num_hidden_layers": 12,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 512,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 3,
        "linear_num_key_heads": 2,
        "rope_parameters": {"rope_theta": 1e7, "rope_type": "default", "partial_rotary_factor": 0.25},
        "max_position_embeddings": 262144,
    },
}


def test_plain(target):
    config = load_target_config(target())
    assert (config.model_type, config.hidden_size, config.num_hidden_layers) == ("llama", 64, 12)
    assert (config.vocab_size, config.rope_theta, config.max_position_embeddings) == (512, 10000.0, 4096)
    assert not config.is_hybrid and config.embed_scale == 1.0 and config.logit_softcap is None


def test_nested_hybrid(write):
    config = load_target_config(write(QWEN35))
    assert (config.model_type, config.hidden_size, config.rope_theta) == ("qwen3_5_text", 64, 1e7)
    assert config.is_hybrid and not config.tie_word_embeddings


def test_thinker(write):
    thinker = {
        "thinker_config": {"text_config": QWEN35["text_config"]},
        "architectures": QWEN35["architectures"],
    }
    assert load_target_config(write(thinker)).hidden_size == 64


@pytest.mark.parametrize("family", ["gemma", "gemma2", "gemma3_text", "gemma4_text"])
def test_gemma(target, family):
    changes = {"model_type": family, "final_logit_softcapping": 30.0, "tie_word_embeddings": ...}
    config = load_target_config(target(changes | {"architectures": ["Gemma3ForCausalLM"]}))
    assert (config.embed_scale, config.logit_softcap, config.tie_word_embeddings) == (8.0, 30.0, True)


def test_head_counts_only_inform(target):
    config = load_target_config(target({"num_key_value_heads": [2, 4], "head_dim": ...}))
    assert (config.num_key_value_heads, config.head_dim) == (4, 16)


REFUSED = {
    "encoder": ({"architectures": ["BertForMaskedLM"]}, "not a causal language model"),
    "embedding model": ({"architectures": ["Qwen3Model"]}, "not a causal language model"),
    "encoder-decoder": ({"is_encoder_decoder": True}, "encoder-decoder"),
    "no hidden size": ({"hidden_size": ...}, "hidden_size is missing"),
    "layers as text": ({"num_hidden_layers": "12"}, "num_hidden_layers"),
    "no vocabulary": ({"vocab_size": 0}, "vocab_size"),
    "nested is a list": ({"text_config": []}, "JSON object"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(target, case):
    changes, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        load_target_config(target(changes))


MISFITS = {
    "fewer layers": (
        {"num_hidden_layers": 8},
        {"num_target_layers": ...},
        "tap 9 is past the last layer.*8 layers",
    ),
    "other layer count": ({"num_hidden_layers": 16}, {}, r"num_target_layers: found 12; needed 16"),
    "feature width": (
        {"hidden_size": 96},
        {"target_hidden_size": 64},
        r"target_hidden_size: found 64; needed 96",
    ),
    "own width": (
        {"hidden_size": 96},
        {"target_hidden_size": 96},
        r"hidden_size: found 64; needed 96.*embeddings and head",
    ),
    "vocabulary": ({"vocab_size": 1024}, {}, r"vocab_size: found 512; needed 1024"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_misfits(native, target, case):
    target_changes, changes, words = MISFITS[case]
    with pytest.raises(UserError, match=words):
        load_draft_config(native(changes), target=load_target_config(target(target_changes)))


def test_fit(native, target, native_shapes):
    config = load_draft_config(native({"num_target_layers": ...}, native_shapes), target=load_target_config(target()))
    assert config.num_target_layers == 12 and config.findings == ()


def test_padding_is_a_note(native, target):
    config = load_draft_config(native(), target=load_target_config(target({"vocab_size": 520})))
    assert [f.level for f in config.findings if f.field == "vocab_size"] == ["NOTE"]


def test_the_vocabulary_may_come_from_the_target(native, target):
    config = load_draft_config(native({"vocab_size": ...}), target=load_target_config(target()))
    assert config.vocab_size == 512


def test_own_embedding_and_head_free_the_width(native, target, native_shapes):
    shapes = native_shapes | {
        "fc.weight": (64, 3 * 96),
        "lm_head.weight": (512, 64),
        "embed_tokens.weight": (512, 64),
    }
    config = load_draft_config(native(None, shapes), target=load_target_config(target({"hidden_size": 96})))
    assert config.target_hidden_size == 96


def test_speculators_embeds_with_the_bare_matrix(speculators, target):
    gemma = target({"model_type": "gemma3_text", "final_logit_softcapping": 30.0})
    config = load_draft_config(speculators(), target=load_target_config(gemma))
    assert config.embed_scale == 1.0 and config.logit_softcap is None


def test_own_scale_before_the_familys(native, target):
    gemma = load_target_config(target({"model_type": "gemma3_text"}))
    assert load_draft_config(native(), target=gemma).embed_scale == math.sqrt(64)
    assert load_draft_config(native({"dflash_config.input_embedding_scale": 3.0}), target=gemma).embed_scale == 3.0
