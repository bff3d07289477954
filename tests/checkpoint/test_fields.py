# SPDX-License-Identifier: Apache-2.0
"""Block, anchor, mask, sizes, head and vocabulary, scales, sinks, quantisation: value and provenance."""

import dataclasses

import pytest
import torch

from tests.drafter_files import write_safetensors
from vllm_dflash.checkpoint import DraftConfig, load_draft_config
from vllm_dflash.errors import UserError


def test_every_field_has_a_source(native, speculators, native_shapes):
    for folder in (native(), native(None, native_shapes), speculators()):
        config = load_draft_config(folder)
        fields = {field.name for field in dataclasses.fields(DraftConfig)}
        fields -= {"path", "layers", "sources", "findings", "has_weights"}
        layers = {f"layers.{i}.{part}" for i in range(3) for part in ("window", "causal", "rope")}
        assert fields | layers == set(config.sources)
        assert all(str(source) and (source.file or source.rule) for source in config.sources.values())


@pytest.mark.parametrize(
    "changes, place",
    [
        ({}, "block_size"),
        ({"block_size": ..., "dflash_config.block_size": 8}, "dflash_config.block_size"),
        ({"dflash_config.block_size": 8}, "dflash_config.block_size"),
    ],
)
def test_block_size(native, changes, place):
    config = load_draft_config(native(changes))
    assert config.block_size == 8 and config.sources["block_size"].key == place


def test_anchor_rule(native, speculators):
    assert load_draft_config(native()).max_draft_tokens == 7
    for folder in (
        native({"dflash_config.sample_from_anchor": True}),
        native({"sample_from_anchor": True}),
        speculators({"sample_from_anchor": True}),
    ):
        config = load_draft_config(folder)
        assert config.sample_from_anchor and config.max_draft_tokens == 8


def test_mask_token_at_top_level(native):
    config = load_draft_config(native({"dflash_config.mask_token_id": ..., "mask_token_id": 3}))
    assert config.mask_token_id == 3 and config.sources["mask_token_id"].key == "mask_token_id"


@pytest.mark.parametrize(
    "state",
    [torch.ones(64), {"embedding": torch.ones(1, 64), "mask_token_id": 500}, {"embedding": torch.ones(64)}],
)
def test_mask_embedding(native, state):
    folder = native()
    torch.save(state, folder / "mask_embedding.pt")
    assert load_draft_config(folder).mask_embedding_file == folder / "mask_embedding.pt"


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code ran')",))


@pytest.mark.parametrize(
    "state, words",
    [
        (torch.ones(63), r"found \[63\]; needed \[64\]"),
        (torch.ones(64, dtype=torch.long), "does not fit"),
        ({"embedding": torch.ones(64), "mask_token_id": 7}, "another mask token"),
        ({"weights": 1}, "does not fit"),
        (Evil(), "not a plain tensor file"),
    ],
)
def test_mask_embedding_refused(native, state, words):
    folder = native()
    torch.save(state, folder / "mask_embedding.pt")
    with pytest.raises(UserError, match=words):
        load_draft_config(folder)


def test_sizes_from_tensors(native, native_shapes):
    config = load_draft_config(native({"head_dim": ..., "num_key_value_heads": ..., "dtype": ...}, native_shapes))
    assert (config.head_dim, config.num_key_value_heads, config.dtype) == (16, 2, "bfloat16")
    assert config.sources["head_dim"].key == "layers.0.self_attn.q_proj.weight"
    assert config.target_hidden_size == 64 and config.sources["target_hidden_size"].key == "fc.weight"


def test_taps_of_another_width(native, native_shapes):
    config = load_draft_config(native(None, native_shapes | {"fc.weight": (64, 3 * 48)}))
    assert config.target_hidden_size == 48 and config.hidden_size == 64


def test_attention_bias_of_the_tensors_wins(native, native_shapes):
    biases = {
        f"layers.{i}.self_attn.{name}_proj.bias": (rows,)
        for i in range(3)
        for name, rows in (("q", 64), ("k", 32), ("v", 32), ("o", 64))
    }
    config = load_draft_config(native(None, native_shapes | biases))
    assert config.attention_bias and "k_proj.bias" in config.sources["attention_bias"].key


@pytest.mark.parametrize("there", ["qkv", "o"])
def test_biases_are_on_all_projections_or_none(native, native_shapes, there):
    rows = {"q": 64, "k": 32, "v": 32, "o": 64}
    biases = {f"layers.{i}.self_attn.{name}_proj.bias": (rows[name],) for i in range(3) for name in there}
    with pytest.raises(UserError, match=r"_proj\.bias is missing"):
        load_draft_config(native(None, native_shapes | biases))


UNUSED = ["mlp.up_proj.bias", "post_feedforward_layernorm.weight", "mlp.experts.0.up_proj.weight"]


@pytest.mark.parametrize("name", UNUSED)
def test_a_tensor_that_no_draft_layer_uses_is_refused(native, native_shapes, name):
    with pytest.raises(UserError, match="has no place in a draft layer"):
        load_draft_config(native(None, native_shapes | {f"layers.1.{name}": (96,)}))


def test_own_head_with_a_reduced_vocabulary(native, native_shapes):
    reduced = {"lm_head.weight": (128, 64), "d2t": (128,), "t2d": (512,)}
    config = load_draft_config(native({"draft_vocab_size": 128}, native_shapes | reduced))
    assert (config.draft_vocab_size, config.has_d2t, config.own_lm_head) == (128, True, True)
    same = load_draft_config(native(None, native_shapes | reduced))
    assert same.draft_vocab_size == 128 and same.sources["draft_vocab_size"].key == "lm_head.weight"


def test_own_embedding_and_head(native, native_shapes):
    own = {"lm_head.weight": (512, 64), "embed_tokens.weight": (512, 64)}
    config = load_draft_config(native({"vocab_size": ...}, native_shapes | own))
    assert config.own_lm_head and config.own_embed_tokens and config.vocab_size == 512


def test_a_head_without_the_padding_rows_is_no_reduced_vocabulary(native, native_shapes):
    config = load_draft_config(native({"draft_vocab_size": 500}, native_shapes | {"lm_head.weight": (500, 64)}))
    assert (config.draft_vocab_size, config.vocab_size, config.has_d2t) == (500, 512, False)


def test_scales(native, native_shapes):
    nested = {
        "dflash_config.input_embedding_scale": 8,
        "dflash_config.output_multiplier": 0.5,
        "dflash_config.final_logit_softcapping": 30.0,
        "dflash_config.attention_value_scale": 0.612,
    }
    config = load_draft_config(native(nested))
    assert (config.embed_scale, config.logit_scale, config.logit_softcap, config.value_scale) == (
        8,
        0.5,
        30,
        0.612,
    )
    top = load_draft_config(native({"logit_scale": 0.25, "final_logit_softcapping": 0}))
    assert (top.embed_scale, top.logit_scale, top.logit_softcap, top.value_scale) == (1.0, 0.25, None, 1.0)


def test_sinks(native, native_shapes):
    sinks = {f"layers.{i}.self_attn.attention_sink_bias": (4,) for i in range(3)}
    assert load_draft_config(native({"add_swa_attention_sink_bias": True})).attention_sinks
    assert load_draft_config(native(None, native_shapes | sinks)).attention_sinks
    with pytest.raises(UserError, match="asks for attention sinks"):
        load_draft_config(native({"dflash_config.attention_sink_bias": True}, native_shapes))


def test_quantised_weights_are_not_compared(write, native, native_shapes, changed):
    packed = {
        n.replace(".weight", ".weight_packed"): (s[0], s[1] // 8) for n, s in native_shapes.items() if "proj" in n
    }
    scales = {n.replace(".weight", ".weight_scale"): (s[0], 1) for n, s in native_shapes.items() if "proj" in n}
    kept = {n: s for n, s in native_shapes.items() if "proj" not in n}
    folder = native({"quantization_config": {"quant_method": "compressed-tensors"}})
    write_safetensors(folder / "model.safetensors", kept | packed | scales, dict.fromkeys(packed, "I32"))
    config = load_draft_config(folder)
    assert config.quantization == {"quant_method": "compressed-tensors"}
    assert [f.cause for f in config.findings] == []


def test_unknown_tensors_and_keys_are_told(native, native_shapes):
    folder = native({"dflash_config.warp": 9}, native_shapes | {"gru.weight_ih": (8, 8)})
    levels = {f.field: f.level for f in load_draft_config(folder).findings}
    assert levels == {"weights": "WARNING", "dflash_config": "NOTE"}


REFUSED = {
    "block 1": ({"block_size": 1}, "block_size is not usable"),
    "block 0": ({"block_size": 0}, "block_size is not usable"),
    "block huge": ({"block_size": 10**9}, "block_size is not usable"),
    "block as text": ({"block_size": "16"}, "needed an integer"),
    "block missing": ({"block_size": ...}, "block_size is missing"),
    "blocks differ": ({"dflash_config.block_size": 16}, "block_size is written twice"),
    "mask outside": ({"dflash_config.mask_token_id": 512}, "mask token is outside the vocabulary"),
    "mask negative": ({"dflash_config.mask_token_id": -1}, "mask_token_id"),
    "mask missing": ({"dflash_config.mask_token_id": ...}, "mask_token_id is missing"),
    "masks differ": ({"mask_token_id": 3}, "mask_token_id is written twice"),
    "no vocabulary": ({"vocab_size": ...}, "vocab_size is missing"),
    "no layers": ({"num_hidden_layers": 0}, "num_hidden_layers"),
    "too many layers": ({"num_hidden_layers": 10**6}, "at most 1024"),
    "layers as float": ({"num_hidden_layers": 3.0}, "num_hidden_layers"),
    "hidden as text": ({"hidden_size": "64"}, "hidden_size"),
    "heads do not divide": ({"num_key_value_heads": 3}, "divisor of 4"),
    "no head_dim": ({"head_dim": ...}, "head_dim is missing"),
    "value heads": ({"v_head_dim": 8}, "value heads differ"),
    "mla": ({"dflash_config.attention_mode": "mla"}, "not implemented"),
    "no features": ({"dflash_config.use_aux_hidden_state": False}, "without target features"),
    "eps negative": ({"rms_norm_eps": -1}, "rms_norm_eps"),
    "draft vocabulary too large": ({"draft_vocab_size": 5000}, "larger than the vocabulary"),
    "scales differ": ({"output_multiplier": 2.0, "logit_scale": 3.0}, "logit scale is written twice"),
    "embedding scale 0": ({"input_embedding_scale": 0}, "positive number"),
    "dflash_config a list": ({"dflash_config": [1]}, "JSON object"),
    "quantisation a string": ({"quantization_config": "int4"}, "JSON object"),
    "not a drafter": ({"dflash_config": ..., "architectures": ["Qwen3ForCausalLM"]}, "not a DFlash drafter"),
    "another speculator": ({"speculators_model_type": "eagle3"}, "not a DFlash drafter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(native, case):
    changes, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        load_draft_config(native(changes))


SHAPES_REFUSED = {
    "fc": ({"fc.weight": (64, 191)}, r"columns that are a multiple of 3 taps"),
    "fc rows": ({"fc.weight": (32, 192)}, r"fc.weight: found \[32, 192\]; needed \[64, 192\]"),
    "q": ({"layers.1.self_attn.q_proj.weight": (32, 64)}, r"found \[32, 64\]; needed \[64, 64\]"),
    "k": ({"layers.1.self_attn.k_proj.weight": (64, 64)}, r"needed \[32, 64\]"),
    "norm": ({"layers.2.self_attn.q_norm.weight": (64,)}, r"needed \[16\] \(head_dim\)"),
    "down": ({"layers.0.mlp.down_proj.weight": (96, 64)}, r"needed \[64, 96\]"),
    "one layer more": ({"layers.3.mlp.up_proj.weight": (96, 64)}, "num_hidden_layers: found 3; needed 4"),
    "head": ({"lm_head.weight": (512, 32)}, r"needed \[512, 64\]"),
    "head without a map": ({"lm_head.weight": (128, 64)}, "no d2t tensor says which"),
    "map without a head": ({"d2t": (512,)}, "head of its own"),
    "map length": ({"d2t": (64,), "lm_head.weight": (128, 64)}, r"needed \[128\]"),
    "embedding": ({"embed_tokens.weight": (100, 64)}, r"needed \[512, 64\]"),
    "scalar": ({"norm.weight": ()}, r"norm.weight: found \[\]"),
}


@pytest.mark.parametrize("case", SHAPES_REFUSED)
def test_shapes_refused(native, native_shapes, case):
    changes, words = SHAPES_REFUSED[case]
    with pytest.raises(UserError, match=words):
        load_draft_config(native(None, native_shapes | changes))


def test_a_missing_tensor_is_named(native, native_shapes):
    del native_shapes["layers.2.mlp.up_proj.weight"]
    with pytest.raises(UserError, match=r"layers\.2\.mlp\.up_proj\.weight is missing"):
        load_draft_config(native(None, native_shapes))


def test_head_rows_must_fit_draft_vocab_size(native, native_shapes):
    with pytest.raises(UserError, match=r"found '100 rows'; needed 128 rows"):
        folder = native({"draft_vocab_size": 128}, native_shapes | {"lm_head.weight": (100, 64), "d2t": (128,)})
        load_draft_config(folder)
