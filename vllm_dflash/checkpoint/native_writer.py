# SPDX-License-Identifier: Apache-2.0
"""Write a complete native config.json: every field said, and said so that no reader has to guess."""

from collections.abc import Sequence
from typing import Any

from vllm_dflash.checkpoint.draft_config import DraftLayer, Rope
from vllm_dflash.checkpoint.windows import FULL, SLIDING
from vllm_dflash.errors import UserError


def native_config_dict(
    *,
    layers: Sequence[DraftLayer],
    tap_layer_ids: Sequence[int],
    block_size: int,
    mask_token_id: int,
    hidden_size: int,
    intermediate_size: int,
    num_attention_heads: int,
    num_key_value_heads: int,
    head_dim: int,
    rms_norm_eps: float,
    vocab_size: int,
    num_target_layers: int,
    target_hidden_size: int,
    max_position_embeddings: int,
    dtype: str = "bfloat16",
    hidden_act: str = "silu",
    attention_bias: bool = False,
) -> dict[str, Any]:
    """The JSON object of config.json; `load_draft_config` gives the same layers back.

    Windows and causality go into the stock keys; where those cannot express them, `dflash_config.layers`
    holds the list that this package's reader prefers, and the stock keys come as close as they can.
    Raises UserError when layers of one kind have different ropes, which no key expresses.
    """
    dflash: dict[str, Any] = {
        "target_layer_ids": list(tap_layer_ids),
        "mask_token_id": mask_token_id,
        "block_size": block_size,
        "sample_from_anchor": False,
    }
    windows = [layer.window for layer in layers if layer.window is not None]
    causal = _closest_causal(layers)
    if causal is not None:
        dflash["causal"] = causal
    if len(set(windows)) > 1 or any(layer.causal != _stock_causal(layer, causal) for layer in layers):
        dflash["layers"] = [{"window": layer.window, "causal": layer.causal} for layer in layers]
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "dtype": dtype,
        "num_hidden_layers": len(layers),
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": num_key_value_heads,
        "head_dim": head_dim,
        "hidden_act": hidden_act,
        "rms_norm_eps": rms_norm_eps,
        "attention_bias": attention_bias,
        "vocab_size": vocab_size,
        "tie_word_embeddings": False,
        "max_position_embeddings": max_position_embeddings,
        **_rope_fields(layers, head_dim),
        "layer_types": [FULL if layer.window is None else SLIDING for layer in layers],
        "use_sliding_window": bool(windows),
        "sliding_window": max(windows) if windows else None,
        "max_window_layers": 0 if windows else len(layers),
        "num_target_layers": num_target_layers,
        "target_hidden_size": target_hidden_size,
        "block_size": block_size,
        "dflash_config": dflash,
    }


def _stock_causal(layer: DraftLayer, override: bool | None) -> bool:
    return (layer.window is not None) if override is None else override


def _closest_causal(layers: Sequence[DraftLayer]) -> bool | None:
    """`dflash_config.causal` that is right for most layers; None leaves it to the layer type."""
    options: tuple[bool | None, ...] = (None, False, True)
    return max(options, key=lambda o: sum(layer.causal == _stock_causal(layer, o) for layer in layers))


def _rope_fields(layers: Sequence[DraftLayer], head_dim: int) -> dict[str, Any]:
    kinds: dict[str, Rope] = {}
    for layer in layers:
        kind = FULL if layer.window is None else SLIDING
        if kinds.setdefault(kind, layer.rope) != layer.rope:
            raise UserError(
                f"{kind} layers with different ropes cannot be written", needed="one rope a layer type"
            )
    ropes = list(kinds.values())
    style = {} if ropes[0].is_neox_style else {"is_neox_style": False}
    if any(rope != ropes[0] for rope in ropes):
        return {
            "rope_parameters": {kind: _rope_entry(rope, head_dim) for kind, rope in kinds.items()}
        } | style
    return {"rope_parameters": _rope_entry(ropes[0], head_dim)} | style


def _rope_entry(rope: Rope, head_dim: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"rope_type": "default", "rope_theta": rope.theta} | dict(rope.scaling or {})
    if rope.rotary_dim != head_dim:
        entry["partial_rotary_factor"] = rope.rotary_dim / head_dim
    return entry
