# SPDX-License-Identifier: Apache-2.0
"""Relatives of DFlash are recognised and handed back to vLLM."""

import pytest

from vllm_dflash.checkpoint import is_foreign_draft, load_draft_config
from vllm_dflash.errors import UserError

CASES = [
    ("DFlash2", {"architectures": ["DFlash2DraftModel"], "is_causal": False}),
    ("DFlash2", {"dflash_config.selector_rank": 256}),
    ("DFlash2", {"dflash_config.conv_kernel_size": 2}),
    ("DFlash2", {"speculators_model_type": "dflash2"}),
    ("DSpark", {"architectures": ["Qwen3DSparkModel"]}),
    ("DSpark", {"architectures": ["Gemma9DSparkModel"]}),
    ("DSpark", {"architectures": ["Something"], "speculators_model_type": "dspark"}),
    ("DSpark", {"markov_rank": 256}),
    ("DSpark", {"dflash_config.projector_type": "dspark"}),
    ("LiLiCorr", {"architectures": ["LiLiCorrDraftModel"]}),
    ("LiLiCorr", {"architectures": ["Qwen9LiLiCorrModel"]}),
    ("XPress", {"architectures": ["XPressDraftModel"]}),
    ("XPress", {"speculators_model_type": "xpress"}),
    ("XPress", {"xpress_rank": 8}),
    ("Domino", {"dflash_config.projector_type": "domino"}),
    ("DFlare", {"speculators_model_type": "dflare"}),
    ("Laguna DFlash", {"architectures": ["DFlashLagunaForCausalLM"]}),
]


@pytest.mark.parametrize("name, changes", CASES)
def test_relatives_are_handed_back(native, name, changes):
    folder = native(changes)
    assert is_foreign_draft(folder) == name
    with pytest.raises(UserError, match=f"{name} drafter; it is handed back to vLLM untouched"):
        load_draft_config(folder)


OWN = [
    {},
    {"markov_rank": 0},
    {"architectures": ["DFlashExpressModel"]},
    {"dflash_config.projector_type": "dflash"},
]


@pytest.mark.parametrize("changes", OWN)
def test_dflash_is_not_foreign(native, changes):
    folder = native(changes)
    assert is_foreign_draft(folder) is None
    assert load_draft_config(folder).format == "native"


def test_speculators_is_not_foreign(speculators):
    assert is_foreign_draft(speculators()) is None
