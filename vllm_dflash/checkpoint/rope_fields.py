# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of draft layers, from every spelling found in checkpoints.

Spellings (transformers 4 and 5): flat `rope_theta` with optional `rope_scaling`; `rope_parameters` holding
both; `rope_parameters` nested by layer type; `rope_local_base_freq` for sliding layers (Gemma 3); the type
under "rope_type" or the older "type"; `partial_rotary_factor` beside or inside.
The speculators trainer gives all draft layers one rope: the "sliding_attention" entry when the config nests.
"""

from typing import Any

from vllm_dflash.checkpoint.draft_config import Rope, Source
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.section import Answer, Section, agree, default
from vllm_dflash.checkpoint.windows import FULL, SLIDING
from vllm_dflash.errors import UserError

PLAIN_TYPES = ("default", "mrope")
# No "longrope": its frequencies change for the whole text once that passes a length, which stored K/V cannot follow.
KNOWN_TYPES = ("linear", "dynamic", "yarn", "llama3", "proportional")
NEED_ORIGINAL_LENGTH = ("yarn", "llama3")  # transformers fills in max_position_embeddings
NOT_SCALING = ("rope_theta", "partial_rotary_factor", "type", "rope_type")


def speculators_rope(layer: Section, head_dim: int, findings: list[Finding]) -> Answer[Rope]:
    """The one rope that all layers of a speculators drafter were trained with."""
    nested = layer.section("rope_parameters")
    if nested is None or SLIDING not in nested:
        return resolve_rope(layer, FULL, head_dim, findings)
    rope = resolve_rope(layer, SLIDING, head_dim, findings)
    rule = "the speculators trainer uses this entry for every layer"
    return Answer(rope.value, Source(rope.source.file, rope.source.key, rule))


def resolve_rope(config: Section, layer_type: str, head_dim: int, findings: list[Finding]) -> Answer[Rope]:
    """Rope of a layer of this type ("full_attention" or "sliding_attention").

    Raises UserError without a theta (readers assume different ones), for contradicting entries, an
    unknown type and a rotary dimension that is odd or wider than the head.
    """
    entry = _entry(config, layer_type)
    theta = agree(
        "rope_theta", config.path, entry.number("rope_theta") if entry else None, config.number("rope_theta")
    )
    local = config.number("rope_local_base_freq")
    if layer_type == SLIDING and local is not None:
        theta, entry = local, None
    if theta is None:
        config.missing(
            "rope_theta", "the base the drafter was trained with, at top level or in rope_parameters"
        )
    scaling = _scaling(config, entry, findings)
    rotary_dim = _rotary_dim(config, entry, head_dim)
    neox = config.boolean("is_neox_style") or default(
        True, "half-split rotation unless is_neox_style is false"
    )
    return Answer(Rope(theta.value, rotary_dim, scaling, neox.value), theta.source)


def _entry(config: Section, layer_type: str) -> Section | None:
    parameters, scaling = config.section("rope_parameters"), config.section("rope_scaling")
    if parameters is not None and (FULL in parameters or SLIDING in parameters):
        own = parameters.section(layer_type)
        if own is None:
            parameters.missing(layer_type, "an entry for each layer type that the drafter has")
        return own
    if parameters and scaling and _meaning(parameters) != _meaning(scaling):
        raise UserError(
            "rope_parameters and rope_scaling differ",
            needed="one of them: delete the wrong one",
            file=config.path,
        )
    return parameters or scaling


def _meaning(entry: Section) -> dict[str, Any]:
    kind = _kind(entry)
    return {k: v for k, v in entry.values.items() if k not in NOT_SCALING and v is not None} | {
        "rope_type": kind
    }


def _kind(entry: Section) -> str:
    kind = agree("rope_type", entry.path, entry.text("rope_type"), entry.text("type"))
    if kind is None:
        return "default"
    if kind.value not in PLAIN_TYPES + KNOWN_TYPES:
        entry.refuse(
            "unknown rope type", kind.source.key.rpartition(".")[2], f"one of {PLAIN_TYPES + KNOWN_TYPES}"
        )
    return kind.value


def _scaling(config: Section, entry: Section | None, findings: list[Finding]) -> dict[str, Any] | None:
    if entry is None:
        return None
    if "mrope_section" in entry:
        cause = "the rope entry has an mrope_section; drafts are text, where it equals the plain rope"
        finding = Finding(
            "WARNING",
            "rope",
            cause,
            f"{entry.dotted('mrope_section')} = {entry.values['mrope_section']}",
            "remove mrope_section from the drafter's config: vLLM's V1 runner refuses drafters with M-RoPE",
        )
        if finding not in findings:
            findings.append(finding)
    kind = _kind(entry)
    if kind in PLAIN_TYPES:
        return None
    factor = entry.number("factor")
    if factor is None and kind in ("linear", "dynamic", "yarn", "llama3"):
        entry.missing("factor", f"the scaling factor of the {kind} rope")
    scaling = _meaning(entry)
    for key, value in scaling.items():
        if key != "rope_type" and isinstance(value, (str, dict)):
            entry.refuse(f"{key} is not usable", key, "a number")
    if kind in NEED_ORIGINAL_LENGTH:
        original = config.integer("original_max_position_embeddings", 1) or config.integer(
            "max_position_embeddings", 1
        )
        if original is not None:
            scaling.setdefault("original_max_position_embeddings", original.value)
    return scaling


def _rotary_dim(config: Section, entry: Section | None, head_dim: int) -> int:
    factor = agree(
        "partial_rotary_factor",
        config.path,
        entry.number("partial_rotary_factor") if entry else None,
        config.number("partial_rotary_factor"),
    )
    rotary_dim = head_dim if factor is None else int(head_dim * factor.value)
    if rotary_dim < 2 or rotary_dim % 2 or rotary_dim > head_dim:
        raise UserError(
            f"{rotary_dim} rotating dimensions of a head of {head_dim}",
            field="partial_rotary_factor",
            found=factor.value if factor else 1.0,
            needed="an even number of dimensions between 2 and the head size",
            file=config.path,
        )
    return rotary_dim
