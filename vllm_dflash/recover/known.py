# SPDX-License-Identifier: Apache-2.0
"""What a partial config.json already says about the fields that would otherwise be searched."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_dflash.checkpoint import Rope
from vllm_dflash.checkpoint.attention_rule import native_rules, speculators_rules
from vllm_dflash.checkpoint.json_file import read_bytes
from vllm_dflash.checkpoint.mask_embedding import LARGEST_BYTES, NAME
from vllm_dflash.checkpoint.rope_fields import resolve_rope, speculators_rope
from vllm_dflash.checkpoint.section import Section, agree
from vllm_dflash.checkpoint.taps import native_taps, speculators_taps
from vllm_dflash.checkpoint.windows import FULL
from vllm_dflash.errors import UserError

TAP_KEYS = ("target_layer_ids", "eagle_aux_hidden_state_layer_ids", "layer_ids", "aux_hidden_state_layer_ids")


@dataclass(frozen=True)
class Known:
    """None where the config is silent. windows, causal: a value a layer. window_size: of whichever layers slide."""

    tap_layer_ids: tuple[int, ...] | None = None
    mask_token_id: int | None = None
    block_size: int | None = None
    sample_from_anchor: bool | None = None
    rope: Rope | None = None
    windows: tuple[int | None, ...] | None = None
    window_size: int | None = None
    causal: tuple[bool, ...] | None = None


def read_known(values: Mapping[str, Any], path: Path, layers: int, head_dim: int) -> Known:
    """Raises UserError where what is written is unusable or contradicts itself."""
    top = Section(values, path)
    dflash = top.section("dflash_config") or Section({}, path, "dflash_config.")
    inner = top.section("transformer_layer_config")
    speculators, layer = inner is not None, inner or top
    taps = None
    if any(key in place for key in TAP_KEYS for place in (top, dflash)):
        taps = (speculators_taps(top, []) if speculators else native_taps(top, dflash, [])).value
    mask = agree("mask_token_id", path, dflash.integer("mask_token_id"), top.integer("mask_token_id"))
    block = agree("block_size", path, dflash.integer("block_size", 2), top.integer("block_size", 2))
    anchor = agree("sample_from_anchor", path, dflash.boolean("sample_from_anchor"), top.boolean("sample_from_anchor"))
    rope = None
    if any(key in layer for key in ("rope_theta", "rope_parameters", "rope_scaling")):
        rope = (speculators_rope(layer, head_dim, []) if speculators else resolve_rope(layer, FULL, head_dim, [])).value
    size = agree("sliding_window", path, dflash.integer("sliding_window", 1), layer.integer("sliding_window", 1))
    windows = causal = None
    if _says_windows(layer, dflash):
        rules = speculators_rules(top, layer, layers, []) if speculators else native_rules(layer, dflash, layers, [])
        windows = tuple(rule.window.value for rule in rules)
        if speculators or "layers" in dflash:
            causal = tuple(rule.causal.value for rule in rules)
    override = layer.boolean("is_causal") or dflash.boolean("causal")
    if override is not None and causal is None:
        causal = (override.value,) * layers
    return Known(
        taps,
        mask.value if mask else None,
        block.value if block else None,
        anchor.value if anchor else None,
        rope,
        windows,
        size.value if size else None,
        causal,
    )


def sidecar_mask_token(folder: Path) -> int | None:
    """The mask token id that mask_embedding.pt names, if there is such a file and it names one."""
    file = folder / NAME
    if not file.is_file():
        return None
    import io

    import torch

    try:
        state = torch.load(io.BytesIO(read_bytes(file, LARGEST_BYTES)), map_location="cpu", weights_only=True)
    except Exception:
        raise UserError(f"{NAME} is not a plain tensor file", needed="torch.save of a tensor", file=file) from None
    token = state.get("mask_token_id") if isinstance(state, dict) else None
    return token if isinstance(token, int) else None


def _says_windows(layer: Section, dflash: Section) -> bool:
    enabled = layer.boolean("use_sliding_window")
    return (
        any(key in place for key in ("layer_types", "layers") for place in (layer, dflash))
        or dflash.boolean("use_swa") is not None
        or enabled is not None
    )
