# SPDX-License-Identifier: Apache-2.0
"""Rope of draft layers from every spelling."""

import pytest

from vllm_dflash.checkpoint import Rope, load_draft_config
from vllm_dflash.errors import UserError

S, F = "sliding_attention", "full_attention"
SLIDING = {"layer_types": [S, S, F], "sliding_window": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}

ONE_ROPE = {
    "flat": ({}, Rope(10000.0, 16)),
    "nested": (
        {"rope_theta": ..., "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
        Rope(5e5, 16),
    ),
    "both, equal": ({"rope_parameters": {"rope_theta": 10000}}, Rope(10000.0, 16)),
    "scaling null": ({"rope_scaling": None}, Rope(10000.0, 16)),
    "legacy type": (
        {"rope_scaling": {"type": "linear", "factor": 2}},
        Rope(10000.0, 16, {"rope_type": "linear", "factor": 2}),
    ),
    "rope_type": ({"rope_scaling": YARN}, Rope(10000.0, 16, YARN)),
    "both names": ({"rope_scaling": YARN | {"type": "yarn"}}, Rope(10000.0, 16, YARN)),
    "theta inside the scaling": (
        {"rope_theta": ..., "rope_scaling": YARN | {"rope_theta": 7.0}},
        Rope(7.0, 16, YARN),
    ),
    "scaling twice, equal": (
        {"rope_scaling": YARN, "rope_parameters": YARN | {"rope_theta": 10000}},
        Rope(10000.0, 16, YARN),
    ),
    "original length absent": (
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        Rope(10000.0, 16, YARN | {"original_max_position_embeddings": 4096}),
    ),
    "nulls inside": ({"rope_scaling": YARN | {"beta_fast": None}}, Rope(10000.0, 16, YARN)),
    "original length outside": (
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "original_max_position_embeddings": 1024},
        Rope(10000.0, 16, YARN),
    ),
    "partial, flat": ({"partial_rotary_factor": 0.5}, Rope(10000.0, 8)),
    "partial, nested": (
        {"rope_theta": ..., "rope_parameters": {"rope_theta": 3.0, "partial_rotary_factor": 0.5}},
        Rope(3.0, 8),
    ),
    "partial and scaled": ({"rope_scaling": YARN, "partial_rotary_factor": 0.25}, Rope(10000.0, 4, YARN)),
    "interleaved": ({"is_neox_style": False}, Rope(10000.0, 16, None, False)),
    "mrope": ({"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}, Rope(10000.0, 16)),
}


@pytest.mark.parametrize("case", ONE_ROPE)
def test_one_rope(native, case):
    changes, rope = ONE_ROPE[case]
    assert [layer.rope for layer in load_draft_config(native(changes)).layers] == [rope] * 3


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_speculators_reads_the_layer_config(speculators, place):
    changes = {f"transformer_layer_config.{place}": YARN}
    assert load_draft_config(speculators(changes)).layers[0].rope == Rope(10000.0, 16, YARN)


BY_TYPE = {
    "rope_theta": ...,
    "rope_parameters": {F: {"rope_theta": 1e6, **YARN}, S: {"rope_theta": 1e4, "rope_type": "default"}},
}


def test_each_layer_type_has_its_own(native):
    config = load_draft_config(native(SLIDING | BY_TYPE))
    assert [layer.rope for layer in config.layers] == [Rope(1e4, 16), Rope(1e4, 16), Rope(1e6, 16, YARN)]
    assert config.sources["layers.2.rope"].key == "rope_parameters.full_attention.rope_theta"


def test_speculators_trains_all_layers_with_the_sliding_entry(speculators):
    changes = {f"transformer_layer_config.{k}": v for k, v in (SLIDING | BY_TYPE).items()}
    config = load_draft_config(speculators(changes))
    assert {layer.rope.theta for layer in config.layers} == {1e4}
    assert "every layer" in config.sources["layers.2.rope"].rule


def test_local_base_frequency_is_for_sliding_layers(native):
    config = load_draft_config(native(SLIDING | {"rope_local_base_freq": 500.0, "rope_scaling": YARN}))
    assert [layer.rope.theta for layer in config.layers] == [500.0, 500.0, 10000.0]
    assert [layer.rope.scaling for layer in config.layers] == [None, None, YARN]


def test_a_multimodal_rope_is_told(native):
    changes, _ = ONE_ROPE["mrope"]
    findings = [f for f in load_draft_config(native(changes)).findings if f.field == "rope"]
    assert len(findings) == 1 and "mrope_section" in findings[0].cause


REFUSED = {
    "no theta": ({"rope_theta": ...}, "rope_theta is missing"),
    "thetas differ": ({"rope_parameters": {"rope_theta": 1e6}}, "rope_theta is written twice and differs"),
    "scalings differ": ({"rope_scaling": YARN, "rope_parameters": {"rope_theta": 10000}}, "differ"),
    "unknown type": ({"rope_scaling": {"type": "spiral", "factor": 2}}, "unknown rope type"),
    "longrope": ({"rope_scaling": {"type": "longrope", "long_factor": [2.0]}}, "unknown rope type"),
    "types differ": ({"rope_scaling": YARN | {"type": "linear"}}, "rope_type is written twice"),
    "no factor": ({"rope_scaling": {"type": "yarn"}}, "factor is missing"),
    "factor as text": ({"rope_scaling": {"type": "yarn", "factor": "4"}}, "positive number"),
    "other number as text": ({"rope_scaling": YARN | {"beta_fast": "32"}}, "beta_fast"),
    "theta 0": ({"rope_theta": 0}, "positive number"),
    "theta as text": ({"rope_theta": "1e6"}, "positive number"),
    "theta huge": ({"rope_theta": 1e301}, "positive number"),
    "odd": ({"partial_rotary_factor": 0.2}, "even number of dimensions"),
    "wider than the head": ({"partial_rotary_factor": 2.0}, "even number of dimensions"),
    "a list": ({"rope_scaling": [1]}, "JSON object"),
    "a layer type is missing": (
        SLIDING | {"rope_theta": ..., "rope_parameters": {F: {"rope_theta": 1e6}}},
        "sliding_attention is missing",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(native, case):
    changes, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        load_draft_config(native(changes))
