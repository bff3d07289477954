# SPDX-License-Identifier: Apache-2.0
"""Window and causality of each layer, from every place where they are written."""

import pytest

from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.errors import UserError

S, F = "sliding_attention", "full_attention"


def rules(config):
    return [(layer.window, layer.causal) for layer in config.layers]


NATIVE_CASES = {
    "nothing": ({}, [(None, False)] * 3),
    "mixed": (
        {"layer_types": [S, S, F], "sliding_window": 32, "use_sliding_window": True},
        [(32, True), (32, True), (None, False)],
    ),
    "flag missing": (
        {"layer_types": [S, S, F], "sliding_window": 32},
        [(32, True), (32, True), (None, False)],
    ),
    "flag false": (
        {"layer_types": [F, S, F], "sliding_window": 32, "use_sliding_window": False},
        [(None, False), (32, True), (None, False)],
    ),
    "types in dflash_config": (
        {"dflash_config.layer_types": [S, F, F], "sliding_window": 32},
        [(32, True), (None, False), (None, False)],
    ),
    "window in dflash_config": (
        {"layer_types": [S, F, F], "dflash_config.sliding_window": 24},
        [(24, True), (None, False), (None, False)],
    ),
    "swa window size beside types": (
        {"layer_types": [S, F, F], "sliding_window": 32, "dflash_config.swa_window_size": 24},
        [(24, True), (None, False), (None, False)],
    ),
    "use_swa": ({"dflash_config.use_swa": True, "dflash_config.swa_window_size": 24}, [(24, False)] * 3),
    "use_swa, window at top": ({"dflash_config.use_swa": True, "sliding_window": 24}, [(24, False)] * 3),
    "use_swa over invented full types": (
        {"dflash_config.use_swa": True, "dflash_config.swa_window_size": 24, "layer_types": [F, F, F]},
        [(24, False)] * 3,
    ),
    "use_swa beside mixed types": (
        {"dflash_config.use_swa": True, "dflash_config.swa_window_size": 24, "layer_types": [S, F, S]},
        [(24, True), (None, False), (24, True)],
    ),
    "use_swa false": (
        {"dflash_config.use_swa": False, "dflash_config.swa_window_size": 24},
        [(None, False)] * 3,
    ),
    "max_window_layers": (
        {"sliding_window": 32, "use_sliding_window": True, "max_window_layers": 1},
        [(None, False), (32, True), (32, True)],
    ),
    "max_window_layers beyond": (
        {"sliding_window": 32, "use_sliding_window": True, "max_window_layers": 3},
        [(None, False)] * 3,
    ),
    "max_window_layers absent": ({"sliding_window": 32, "use_sliding_window": True}, [(None, False)] * 3),
    "max_window_layers loses to types": (
        {"sliding_window": 32, "use_sliding_window": True, "max_window_layers": 3, "layer_types": [S, S, S]},
        [(32, True)] * 3,
    ),
    "is_causal false": (
        {"layer_types": [S, S, F], "sliding_window": 32, "is_causal": False},
        [(32, False), (32, False), (None, False)],
    ),
    "is_causal true": (
        {"layer_types": [S, S, F], "sliding_window": 32, "is_causal": True},
        [(32, True), (32, True), (None, True)],
    ),
    "causal": ({"dflash_config.causal": True}, [(None, True)] * 3),
    "is_causal before causal": ({"is_causal": False, "dflash_config.causal": True}, [(None, False)] * 3),
    "causal before type": (
        {"layer_types": [S, S, F], "sliding_window": 32, "dflash_config.causal": False},
        [(32, False), (32, False), (None, False)],
    ),
    "causal with use_swa": (
        {"dflash_config.use_swa": True, "dflash_config.swa_window_size": 24, "dflash_config.causal": True},
        [(24, True)] * 3,
    ),
    "null counts as absent": (
        {"is_causal": None, "sliding_window": None, "layer_types": None, "use_sliding_window": None},
        [(None, False)] * 3,
    ),
    "explicit list": (
        {
            "layer_types": [F, F, F],
            "is_causal": False,
            "dflash_config.layers": [
                {"window": 16, "causal": True},
                {"window": None, "causal": True},
                {"window": 32, "causal": False},
            ],
        },
        [(16, True), (None, True), (32, False)],
    ),
}


@pytest.mark.parametrize("case", NATIVE_CASES)
def test_native(native, case):
    changes, expected = NATIVE_CASES[case]
    assert rules(load_draft_config(native(changes))) == expected


SPECULATORS_CASES = {
    "all full": ({}, [(None, False)] * 3),
    "all full, flag false": ({"sliding_window_non_causal": False}, [(None, False)] * 3),
    "mixed, flag false": (
        {
            "sliding_window_non_causal": False,
            "transformer_layer_config.layer_types": [S, S, F],
            "transformer_layer_config.sliding_window": 32,
        },
        [(32, True), (32, True), (None, False)],
    ),
    "mixed, flag true": (
        {
            "sliding_window_non_causal": True,
            "transformer_layer_config.layer_types": [S, S, F],
            "transformer_layer_config.sliding_window": 32,
        },
        [(32, False), (32, False), (None, False)],
    ),
    "mixed, flag missing": (
        {
            "transformer_layer_config.layer_types": [S, S, F],
            "transformer_layer_config.sliding_window": 32,
        },
        [(32, True), (32, True), (None, False)],
    ),
    "only at top level": (
        {"layer_types": [S, F, F], "sliding_window": 32},
        [(32, True), (None, False), (None, False)],
    ),
    "top level loses": (
        {
            "sliding_window": 16,
            "transformer_layer_config.layer_types": [S, F, F],
            "transformer_layer_config.sliding_window": 32,
        },
        [(32, True), (None, False), (None, False)],
    ),
    "window without types": ({"transformer_layer_config.sliding_window": 32}, [(None, False)] * 3),
}


@pytest.mark.parametrize("case", SPECULATORS_CASES)
def test_speculators(speculators, case):
    changes, expected = SPECULATORS_CASES[case]
    assert rules(load_draft_config(speculators(changes))) == expected


REFUSED = {
    "window 0": ({"sliding_window": 0}, "sliding_window"),
    "window negative": ({"layer_types": [S, S, S], "sliding_window": -1}, "sliding_window"),
    "window as text": ({"sliding_window": "2048"}, "sliding_window"),
    "window true": ({"sliding_window": True}, "sliding_window"),
    "sliding without window": ({"layer_types": [S, S, F]}, "needed sliding_window"),
    "window lost when saved": (
        {"layer_types": [S, S, F], "sliding_window": None, "use_sliding_window": True},
        "needed sliding_window",
    ),
    "use_swa without window": ({"dflash_config.use_swa": True}, "use_swa"),
    "too few types": ({"layer_types": [F, F]}, "needed 3 entries"),
    "unknown type": ({"layer_types": [F, F, "linear_attention"]}, "linear_attention"),
    "types differ": ({"layer_types": [F, F, F], "dflash_config.layer_types": [S, F, F]}, "written twice"),
    "windows differ": (
        {"layer_types": [S, F, F], "sliding_window": 32, "dflash_config.sliding_window": 16},
        "written twice",
    ),
    "causal as number": ({"is_causal": 1}, "needed true or false"),
    "explicit list too long": ({"dflash_config.layers": [{"window": None, "causal": True}] * 4}, "3 entries"),
    "explicit without window": ({"dflash_config.layers": [{"causal": True}] * 3}, "layers.0.window"),
    "explicit without causal": ({"dflash_config.layers": [{"window": 3}] * 3}, "layers.0.causal"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(native, case):
    changes, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        load_draft_config(native(changes))


def test_provenance_names_place_and_reason(native):
    config = load_draft_config(native({"layer_types": [S, F, F], "sliding_window": 32}))
    source = config.sources["layers.0.window"]
    assert (source.file, source.key) == ("config.json", "sliding_window")
    assert "layer_types.0" in source.rule
    assert config.sources["layers.1.window"].key == "layer_types.1"
    assert config.sources["layers.0.causal"].file == "" and "sliding" in config.sources["layers.0.causal"].rule


@pytest.mark.parametrize(
    "changes, level, words",
    [
        ({"layer_types": [S, F, F], "sliding_window": 32}, "WARNING", "use_sliding_window is missing"),
        ({"layer_types": [S] * 3, "sliding_window": 32, "use_sliding_window": False}, "WARNING", "is false"),
        ({"sliding_window": 32}, "WARNING", "no layer uses it"),
        ({"sliding_window": 32, "use_sliding_window": True}, "WARNING", "max_window_layers is 28"),
        ({"layer_types": [F] * 3, "sliding_window": 32, "use_sliding_window": True}, "WARNING", "no sliding"),
        (
            {"dflash_config.use_swa": True, "sliding_window": 32, "dflash_config.swa_window_size": 16},
            "WARNING",
            "two window sizes",
        ),
    ],
)
def test_decisions_are_not_silent(native, changes, level, words):
    findings = load_draft_config(native(changes)).findings
    assert [f.level for f in findings if words in f.cause] == [level]


def test_contradicting_causality_is_told(native):
    config = load_draft_config(native({"is_causal": False, "dflash_config.causal": True}))
    assert [f.level for f in config.findings if f.field == "layers.causal"] == ["WARNING"]


def test_a_window_switched_off_explicitly_is_no_finding(native):
    config = load_draft_config(native({"sliding_window": 4096, "use_sliding_window": False}))
    assert [f.field for f in config.findings] == ["weights"]
