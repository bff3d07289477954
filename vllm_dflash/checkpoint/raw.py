# SPDX-License-Identifier: Apache-2.0
"""A checkpoint as found: its JSON sections by role, and its tensor headers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_dflash.checkpoint.section import Section
from vllm_dflash.checkpoint.tensors import Tensors


@dataclass(frozen=True)
class RawCheckpoint:
    """Sections of config.json by role.

    top: the whole object. layer: the transformer fields (`transformer_layer_config`, or `top` in native
    format).
    dflash: `dflash_config`, empty in speculators format.
    """

    folder: Path
    top: Section
    layer: Section
    dflash: Section
    speculators: bool
    tensors: Tensors

    @property
    def path(self) -> Path:
        return self.top.path


def open_raw(values: Mapping[str, Any], folder: Path, tensors: Tensors) -> RawCheckpoint:
    """Raises UserError when the config is not that of a DFlash drafter."""
    path = folder / "config.json"
    top = Section(values, path)
    nothing = Section({}, path, "dflash_config.")
    if _is_speculators(top):
        layer = top.section("transformer_layer_config")
        if layer is None:
            top.missing("transformer_layer_config", "the layer fields of a speculators checkpoint")
        return RawCheckpoint(folder, top, layer, nothing, True, tensors)
    return RawCheckpoint(folder, top, top, top.section("dflash_config") or nothing, False, tensors)


def _is_speculators(top: Section) -> bool:
    kind = top.text("speculators_model_type")
    if kind is not None or "speculators_config" in top:
        if kind is None or kind.value != "dflash":
            top.refuse("this is not a DFlash drafter", "speculators_model_type", '"dflash"')
        return True
    names = top.strings("architectures")
    if "dflash_config" not in top and not any("DFlash" in name for name in (names.value if names else ())):
        top.refuse("this is not a DFlash drafter", "architectures", "DFlashDraftModel, or a dflash_config")
    return False
