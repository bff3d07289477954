# SPDX-License-Identifier: Apache-2.0
"""What stock vLLM makes of a drafter: a small model of its rules, to be compared with what the drafter means.

Rules of `model_executor/models/qwen3_dflash.py`, `eagle3_utils.py`, the speculators converter and the V2
speculator, read in 0.32.0 and 0.33.0, where they are the same; 0.33.0 also raises the draft's position table
to the target's. Tested against the installed vLLM.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_dflash.checkpoint.draft_config import DraftConfig, DraftLayer, Rope
from vllm_dflash.checkpoint.windows import SLIDING
from vllm_dflash.doctor.stock_config import Attributes, Refusal, Unmodelled, stock_attributes, stock_rope

KNOWN_VERSIONS = ("0.32.0", "0.33.0")
LOST = 0
RAISES_DRAFT_POSITIONS = ("0.33.0",)
CACHE_ONLY_ROPE_TYPES = ("linear", "llama3", "proportional")  # raised there, like plain ropes; yarn is not


@dataclass(frozen=True)
class StockView:
    """A drafter as stock vLLM sees it. Fields are named as in DraftConfig.

    refusals: reasons why the engine would not start; the other fields are then as far as the rules went.
    v1_refusal: the reason why the V1 runner would not take it, else "".
    unmodelled: why nothing can be said, else "".
    window_lost: sliding layers reach the model without a window size, which is one of the refusals.
    """

    version: str
    refusals: tuple[Refusal, ...]
    v1_refusal: str = ""
    layers: tuple[DraftLayer, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    window_lost: bool = False
    unmodelled: str = ""


def stock_view(values: Mapping[str, Any], config: DraftConfig, version: str) -> StockView:
    """Args:
    values: the drafter's raw config.json, one that `load_draft_config` accepts.
    config: what it means; tells which tensors are there.
    version: one of KNOWN_VERSIONS.
    """
    try:
        attributes, refusals = stock_attributes(values)
    except Unmodelled as problem:
        return StockView(version, (), unmodelled=str(problem))
    if not attributes:
        return StockView(version, tuple(refusals))
    layers: list[DraftLayer] = []
    window_lost = False
    rope = _rope(values, attributes)
    for index in range(attributes["num_hidden_layers"]):
        window = _window(attributes, index)
        layers.append(DraftLayer(window or None, _causal(attributes, index), rope))
        window_lost = window_lost or window == LOST
    if window_lost:
        reason = "sliding layers have no window size left in the config object that vLLM loads"
        refusals.append(Refusal(reason, 'add "use_sliding_window": true, or serve with this plugin'))
    fields = _fields(attributes)
    refusals += _refusals(fields, config)
    return StockView(version, tuple(refusals), _v1_refusal(attributes), tuple(layers), fields, window_lost)


def _dflash(attributes: Attributes) -> Mapping[str, Any]:
    return attributes.get("dflash_config") or {}


def _causal(attributes: Attributes, index: int) -> bool:
    """is_causal, then dflash_config.causal, then the layer type; the first two hold for every layer."""
    for override in (attributes.get("is_causal"), _dflash(attributes).get("causal")):
        if override is not None:
            return bool(override)
    types = attributes.get("layer_types") or ()
    return bool(types) and types[index] == SLIDING


def _window(attributes: Attributes, index: int) -> int | None:
    """None for a full layer, LOST for a sliding one whose window size is nowhere."""
    types, dflash = attributes.get("layer_types"), _dflash(attributes)
    use_swa = bool(dflash.get("use_swa", False))
    slides = use_swa if types is None or (use_swa and SLIDING not in types) else types[index] == SLIDING
    if not slides:
        return None
    window = dflash.get("swa_window_size", attributes.get("sliding_window"))
    return LOST if window is None else window


def _rope(values: Mapping[str, Any], attributes: Attributes) -> Rope:
    rope = stock_rope(values, attributes)
    head_dim = _head_dim(attributes)
    rotary_dim = int(head_dim * rope.partial_rotary_factor)
    return Rope(rope.theta, rotary_dim, rope.scaling, bool(attributes.get("is_neox_style", True)))


def _head_dim(attributes: Attributes) -> int:
    return attributes.get("head_dim") or attributes["hidden_size"] // attributes["num_attention_heads"]


def _taps(attributes: Attributes) -> tuple[int, ...]:
    """In the order in which the target's layers run, whatever order is written."""
    dflash = _dflash(attributes)
    ids = attributes.get("eagle_aux_hidden_state_layer_ids")
    ids = ids or [i + 1 for i in dflash.get("target_layer_ids") or []]
    ids = ids or [i + 1 for i in attributes.get("target_layer_ids") or []]
    ids = ids or dflash.get("layer_ids") or []
    return tuple(sorted({i - 1 for i in ids}))


def _fields(attributes: Attributes) -> dict[str, Any]:
    dflash = _dflash(attributes)
    return {
        "tap_layer_ids": _taps(attributes),
        "mask_token_id": dflash.get("mask_token_id", attributes.get("mask_token_id")),
        "sample_from_anchor": bool(dflash.get("sample_from_anchor", False)),
        "hidden_act": attributes.get("hidden_act"),
        "num_key_value_heads": attributes.get("num_key_value_heads"),
        "head_dim": _head_dim(attributes),
        "rms_norm_eps": attributes.get("rms_norm_eps"),
        "attention_bias": bool(attributes.get("attention_bias", False)),
        "attention_sinks": bool(
            dflash.get("attention_sink_bias", attributes.get("add_swa_attention_sink_bias", False))
        ),
        "value_scale": float(dflash.get("attention_value_scale") or 1.0),
        "vocab_size": attributes.get("vocab_size"),
        "draft_vocab_size": attributes.get("draft_vocab_size") or attributes.get("vocab_size"),
        "embed_scale": 1.0,
        "logit_scale": float(attributes.get("logit_scale", 1.0)),
        "logit_softcap": None,
        "max_position_embeddings": attributes.get("max_position_embeddings"),
    }


def _refusals(fields: Mapping[str, Any], config: DraftConfig) -> Iterator[Refusal]:
    if fields["hidden_act"] not in ("silu", None):
        reason = f"hidden_act {fields['hidden_act']!r}: the draft MLP knows only silu"
        yield Refusal(reason, "this drafter needs another engine")
    if fields["sample_from_anchor"]:
        reason = "sample_from_anchor is true, which method dflash does not support"
        yield Refusal(reason, "this drafter needs another engine")
    for name, value in (
        ("mask_token_id", fields["mask_token_id"]),
        ("target_layer_ids", fields["tap_layer_ids"]),
    ):
        if value is None or value == ():
            yield Refusal(f"no {name} where vLLM looks", f"write dflash_config.{name}")
    if not config.has_weights:
        return
    for name in ("attention_bias", "attention_sinks", "head_dim", "num_key_value_heads", "draft_vocab_size"):
        stored, assumed = getattr(config, name), fields[name]
        if stored != assumed and assumed is not None:
            reason = f"the weights have {name} {stored}, vLLM assumes {assumed}"
            yield Refusal(reason, f"write {name} = {stored} into the config")


def _v1_refusal(attributes: Attributes) -> str:
    types: Sequence[str] = attributes.get("layer_types") or ()
    if 0 < sum(kind == SLIDING for kind in types) < len(types):
        return "the drafter mixes sliding and full layers"
    return ""
