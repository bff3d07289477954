# SPDX-License-Identifier: Apache-2.0
"""Relatives of DFlash that share its name and are served by vLLM's own code."""

import re
from collections.abc import Mapping
from typing import Any

FOREIGN_ARCHITECTURES = {
    "DFlash2DraftModel": "DFlash2",
    "DSparkDraftModel": "DSpark",
    "DSparkV41DraftModel": "DSpark",
    "Qwen3DSparkModel": "DSpark",
    "Qwen3OmniDSparkModel": "DSpark",
    "K3DSparkModel": "DSpark",
    "Gemma4DSparkModel": "DSpark",
    "LiLiCorrDraftModel": "LiLiCorr",
    "XPressDraftModel": "XPress",
    "DFlashLagunaForCausalLM": "Laguna DFlash",
    "MuseGlimmerAssistantModel": "Muse Glimmer DFlash",
    "DFlashMuseGlimmerAssistantModel": "Muse Glimmer DFlash",
}
FOREIGN_WORDS = {
    "dflash2": "DFlash2",
    "dspark": "DSpark",
    "lilicorr": "LiLiCorr",
    "(?<!e)xpress": "XPress",
    "domino": "Domino",
    "dflare": "DFlare",
}
MARKER_KEYS = {
    "selector_rank": "DFlash2",
    "conv_kernel_size": "DFlash2",
    "markov_rank": "DSpark",
    "xpress_rank": "XPress",
}


def foreign_name(config: Mapping[str, Any]) -> str | None:
    """Name of the relative that a config.json belongs to, or None.

    By architecture name, then by `speculators_model_type`, `model_type` and SpecForge's `projector_type`,
    then by keys that only one relative has. Words are matched inside the names, so that a new spelling
    ("Qwen4DSparkModel") is still handed back rather than misread as DFlash.
    """
    architectures = config.get("architectures")
    names = [n for n in architectures if isinstance(n, str)] if isinstance(architectures, list) else []
    for name in names:
        if name in FOREIGN_ARCHITECTURES:
            return FOREIGN_ARCHITECTURES[name]
    nested = config.get("dflash_config")
    places = [config, nested] if isinstance(nested, Mapping) else [config]
    kinds = ("speculators_model_type", "model_type", "projector_type")
    names += [n for place in places for key in kinds if isinstance(n := place.get(key), str)]
    for name in names:
        for word, title in FOREIGN_WORDS.items():
            if re.search(word, name.lower()):
                return title
    markers = (title for key, title in MARKER_KEYS.items() if any(place.get(key) for place in places))
    return next(markers, None)
