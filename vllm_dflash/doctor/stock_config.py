# SPDX-License-Identifier: Apache-2.0
"""The attributes that vLLM's draft model finds on its config object, computed from the raw config.json.

vLLM 0.32/0.33 load a native drafter through transformers' config class of its `model_type` and copy the
result (EAGLEConfig); a speculators drafter through SpeculatorsConfig, which keeps
`transformer_layer_config` as it is and rewrites the rest (`update_dflash`). Read in vLLM 0.32.0 and
transformers 5.19 and tested against them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from vllm_dflash.checkpoint.windows import FULL, SLIDING

Attributes = dict[str, Any]

# transformers' Qwen3Config: values of keys that are absent
QWEN3_DEFAULTS: Attributes = {
    "vocab_size": 151936,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "layer_types": None,
}
LLAMA_DEFAULTS: Attributes = {
    "vocab_size": 32000,
    "num_key_value_heads": None,
    "head_dim": None,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "sliding_window": None,
    "layer_types": None,
}
# read by the draft model as plain attributes; SpeculatorsConfig has no defaults for them
NEEDED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rms_norm_eps",
    "hidden_act",
)
NATIVE_THETA, SPECULATORS_THETA = 10_000.0, 1_000_000.0


class Refusal(NamedTuple):
    """Why vLLM would not start with a drafter, and what changes that."""

    reason: str
    remedy: str


class StockRope(NamedTuple):
    """What get_rope is called with: one for all draft layers."""

    theta: float
    partial_rotary_factor: float
    scaling: Mapping[str, Any] | None


class Unmodelled(Exception):
    """The config goes through a class whose rules are not written here."""


def stock_attributes(values: Mapping[str, Any]) -> tuple[Attributes, list[Refusal]]:
    """Attributes, and the reasons why vLLM would refuse the config (then the attributes may be empty).

    Raises Unmodelled for a `model_type` other than qwen3, llama and speculators.
    """
    if _goes_through_speculators(values):
        return _speculators(values)
    model_type = values.get("model_type")
    if model_type == "qwen3":
        return _qwen3(values), []
    if model_type == "llama":
        return _llama(values), []
    if model_type is None:
        return {}, [Refusal("config.json has no model_type", 'add "model_type": "qwen3"')]
    raise Unmodelled(f"the config class of model_type {str(model_type)[:40]!r} is not modelled")


def stock_rope(values: Mapping[str, Any], attributes: Attributes) -> StockRope:
    """transformers' standardisation, then vLLM's default theta for what has none.

    An entry nested by layer type counts as nested only for a config class that knows its layer types by then;
    get_rope looks into neither, so theta falls back to one default or the other.
    """
    speculators = _goes_through_speculators(values)
    source = values["transformer_layer_config"] if speculators else values
    entry = source.get("rope_scaling") or source.get("rope_parameters") or {}
    nested = FULL in entry or SLIDING in entry
    knows_types = "layer_types" in source if speculators else values.get("model_type") == "qwen3"
    if nested and knows_types:
        return StockRope(SPECULATORS_THETA, 1.0, None)
    theta = entry.get("rope_theta", source.get("rope_theta"))
    if theta is None:
        theta = SPECULATORS_THETA if speculators and not entry else NATIVE_THETA
    partial = entry.get("partial_rotary_factor", source.get("partial_rotary_factor"))
    return StockRope(float(theta), float(partial or 1.0), _scaling(entry, source, attributes))


def _goes_through_speculators(values: Mapping[str, Any]) -> bool:
    model_type = values.get("model_type")
    by_section = model_type is None and values.get("speculators_config") is not None
    return by_section or model_type == "speculators"


def _qwen3(values: Mapping[str, Any]) -> Attributes:
    """Qwen3Config: no window without use_sliding_window, and layer types invented where there are none."""
    found = QWEN3_DEFAULTS | dict(values)
    if not found["use_sliding_window"]:
        found["sliding_window"] = None
    if found["num_key_value_heads"] is None:
        found["num_key_value_heads"] = found["num_attention_heads"]
    if found["layer_types"] is None:
        first = found["max_window_layers"] if found["sliding_window"] is not None else found["num_hidden_layers"]
        count = found["num_hidden_layers"]
        found["layer_types"] = [SLIDING if i >= first else FULL for i in range(count)]
    return found


def _llama(values: Mapping[str, Any]) -> Attributes:
    found = LLAMA_DEFAULTS | dict(values)
    heads = found["num_attention_heads"]
    found["num_key_value_heads"] = found["num_key_value_heads"] or heads
    found["head_dim"] = found["head_dim"] or found["hidden_size"] // heads
    return found


def _speculators(values: Mapping[str, Any]) -> tuple[Attributes, list[Refusal]]:
    found = dict(values["transformer_layer_config"])
    missing = [key for key in NEEDED if key not in found]
    reason = f"transformer_layer_config has no {' and no '.join(missing)}"
    refusals = [Refusal(reason, "add what is missing there")] if missing else []
    taps = values["aux_hidden_state_layer_ids"]
    return found | {
        "draft_vocab_size": values.get("draft_vocab_size"),
        "target_hidden_size": values.get("target_hidden_size") or found.get("target_hidden_size"),
        "eagle_aux_hidden_state_layer_ids": taps,
        "dflash_config": {
            "mask_token_id": values["mask_token_id"],
            "target_layer_ids": [i - 1 for i in taps],
            "sample_from_anchor": values.get("sample_from_anchor", False),
            "causal": not values.get("sliding_window_non_causal", True),
        },
    }, refusals


def _scaling(entry: Mapping[str, Any], source: Mapping[str, Any], attributes: Attributes) -> Mapping[str, Any] | None:
    kind = entry.get("rope_type", entry.get("type", "default"))
    if kind in ("default", "mrope"):
        return None
    taken_out = ("rope_theta", "partial_rotary_factor", "type")
    scaling = {k: v for k, v in entry.items() if k not in taken_out and v is not None} | {"rope_type": kind}
    if kind in ("yarn", "llama3", "longrope"):
        original = source.get("original_max_position_embeddings") or attributes.get("max_position_embeddings")
        scaling.setdefault("original_max_position_embeddings", original)
    return scaling
