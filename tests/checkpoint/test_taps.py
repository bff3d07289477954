# SPDX-License-Identifier: Apache-2.0
"""Tap layer ids: each format's own counting, and what is refused."""

import pytest

from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.errors import UserError

NO_TAPS = {"dflash_config.target_layer_ids": ...}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        NO_TAPS | {"target_layer_ids": [1, 5, 9]},
        NO_TAPS | {"eagle_aux_hidden_state_layer_ids": [2, 6, 10]},
        NO_TAPS | {"dflash_config.layer_ids": [2, 6, 10]},
        {"eagle_aux_hidden_state_layer_ids": [2, 6, 10], "target_layer_ids": [1, 5, 9]},
    ],
)
def test_native_countings(native, changes):
    assert load_draft_config(native(changes)).tap_layer_ids == (1, 5, 9)


def test_speculators_counts_from_one(speculators):
    config = load_draft_config(speculators())
    assert config.tap_layer_ids == (1, 5, 9)
    assert config.sources["tap_layer_ids"].rule == "stored as tap id + 1"


def test_the_last_layer_is_a_tap(native, speculators):
    assert load_draft_config(native({"dflash_config.target_layer_ids": [1, 5, 11]})).tap_layer_ids[-1] == 11
    assert load_draft_config(speculators({"aux_hidden_state_layer_ids": [1, 5, 12]})).tap_layer_ids[-1] == 11


def test_order_is_kept_and_told(native):
    config = load_draft_config(native({"dflash_config.target_layer_ids": [9, 1, 5]}))
    assert config.tap_layer_ids == (9, 1, 5)
    assert [f.level for f in config.findings if f.field == "tap_layer_ids"] == ["WARNING"]


REFUSED = {
    "missing": (NO_TAPS, "target_layer_ids is missing"),
    "negative": ({"dflash_config.target_layer_ids": [-1, 5, 9]}, "none negative"),
    "twice": ({"dflash_config.target_layer_ids": [1, 5, 5]}, "none twice"),
    "none": ({"dflash_config.target_layer_ids": []}, "at least one"),
    "huge": ({"dflash_config.target_layer_ids": [10**30]}, "not usable"),
    "past the last": ({"dflash_config.target_layer_ids": [1, 5, 12]}, "past the last layer.*12 layers"),
    "text": ({"dflash_config.target_layer_ids": "1,5,9"}, "list of integers"),
    "texts": ({"dflash_config.target_layer_ids": ["1", "5"]}, "list of integers"),
    "booleans": ({"dflash_config.target_layer_ids": [True, 5]}, "list of integers"),
    "fractions": ({"dflash_config.target_layer_ids": [1.5, 5]}, "list of integers"),
    "two countings disagree": ({"eagle_aux_hidden_state_layer_ids": [1, 5, 9]}, "written twice and differs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(native, case):
    changes, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        load_draft_config(native(changes))


@pytest.mark.parametrize("aux, words", [(..., "is missing"), ([0, 5], "none negative"), ([3, 3], "none twice")])
def test_refused_speculators(speculators, aux, words):
    with pytest.raises(UserError, match=words):
        load_draft_config(speculators({"aux_hidden_state_layer_ids": aux}))
