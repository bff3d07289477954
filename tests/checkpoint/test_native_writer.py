# SPDX-License-Identifier: Apache-2.0
"""What the writer writes, our reader and stock vLLM read back."""

import itertools
import json

import pytest

from vllm_dflash.checkpoint import DraftLayer, Rope, load_draft_config, native_config_dict
from vllm_dflash.errors import UserError

ROPE, OTHER = Rope(1e6, 16), Rope(1e4, 8)
YARN = Rope(1e6, 16, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024})


def written(layers, **changes):
    fields = {
        "layers": layers,
        "tap_layer_ids": [1, 5, 9],
        "block_size": 8,
        "mask_token_id": 500,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "vocab_size": 512,
        "num_target_layers": 12,
        "target_hidden_size": 48,
        "max_position_embeddings": 4096,
    }
    return native_config_dict(**(fields | changes))


def layer(kind, rope=ROPE):
    return DraftLayer({"S": 32, "s": 32, "W": 64, "F": None, "f": None}[kind], kind.isupper() != (kind in "Ff"), rope)


ALL_TRIPLES = ["".join(kinds) for kinds in itertools.product("SsWFf", repeat=3)]


@pytest.mark.parametrize("kinds", ALL_TRIPLES)
def test_round_trip(write, kinds):
    layers = tuple(layer(kind) for kind in kinds)
    config = load_draft_config(write(written(layers)))
    assert config.layers == layers
    assert [f.field for f in config.findings] == ["weights"]


@pytest.mark.parametrize(
    "kinds, listed",
    [
        ("SSF", False),
        ("ssf"[:2] + "F", False),
        ("FFF", False),
        ("fff", False),
        ("SSS", False),
        ("SSf", False),
        ("sff", True),
        ("SWF", True),
        ("SsF", True),
    ],
)
def test_the_list_is_written_only_when_needed(kinds, listed):
    assert ("layers" in written([layer(kind) for kind in kinds])["dflash_config"]) == listed


def test_all_fields(write):
    config = load_draft_config(write(written([layer("S"), layer("F")], dtype="float16", attention_bias=True)))
    assert (config.tap_layer_ids, config.block_size, config.mask_token_id) == ((1, 5, 9), 8, 500)
    assert (config.target_hidden_size, config.num_target_layers, config.rms_norm_eps) == (48, 12, 1e-5)
    assert (config.dtype, config.attention_bias, config.max_position_embeddings) == ("float16", True, 4096)
    assert not any(source.rule.startswith("Qwen3Config's default") for source in config.sources.values())


@pytest.mark.parametrize(
    "ropes",
    [
        (ROPE, ROPE),
        (YARN, YARN),
        (OTHER, OTHER),
        (ROPE, YARN),
        (OTHER, YARN),
        (Rope(1e6, 16, None, False),) * 2,
    ],
)
def test_ropes(write, ropes):
    layers = (layer("S", ropes[0]), layer("F", ropes[1]))
    assert load_draft_config(write(written(layers))).layers == layers


def test_ropes_that_no_key_can_express():
    with pytest.raises(UserError, match="different ropes"):
        written([layer("S", ROPE), layer("S", OTHER)])


@pytest.mark.parametrize("kinds", ["SSF", "ssF", "FFF", "SSS", "fff", "sff", "SWf"])
def test_stock_vllm_loads_it(write, kinds):
    """Through vLLM's own config loading and its own layer rules; equal wherever the stock keys can say it."""
    config_module = pytest.importorskip("vllm.transformers_utils.config")
    dflash = pytest.importorskip("vllm.model_executor.models.qwen3_dflash")
    from types import SimpleNamespace

    layers = [layer(kind) for kind in kinds]
    folder = write(written(layers))
    config = config_module.get_config(str(folder), trust_remote_code=False)
    assert config.architectures == ["DFlashDraftModel"] and config.rope_parameters["rope_theta"] == 1e6
    dflash.get_current_vllm_config, saved = (
        lambda: SimpleNamespace(use_v2_model_runner=True),
        dflash.get_current_vllm_config,
    )
    try:
        stock = [dflash._resolve_layer_attention(config, i) for i in range(len(layers))]
    finally:
        dflash.get_current_vllm_config = saved
    if "layers" not in json.loads((folder / "config.json").read_text())["dflash_config"]:
        assert stock == [(one.window, one.causal) for one in layers]
    assert [window is None for window, _ in stock] == [one.window is None for one in layers]
