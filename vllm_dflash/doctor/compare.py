# SPDX-License-Identifier: Apache-2.0
"""Field by field, where stock vLLM does otherwise than a drafter means."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from vllm_dflash.checkpoint.draft_config import DraftConfig, DraftLayer, Rope
from vllm_dflash.checkpoint.finding import Finding, Level
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.doctor.stock import CACHE_ONLY_ROPE_TYPES, RAISES_DRAFT_POSITIONS, StockView
from vllm_dflash.doctor.stock_config import NEEDED

PLUGIN = "serve with this plugin active (`vllm-dflash env` says whether it is)"
GREEDY_ONLY = ("logit_scale", "logit_softcap")  # change draft probabilities, not greedy drafts

# field -> what it costs, what to do
EFFECTS = {
    "window": (
        "the layer sees another stretch of context than in training, once that passes the window",
        PLUGIN,
    ),
    "causal": ("block rows see other rows than in training, which costs acceptance at every length", PLUGIN),
    "rope": ("keys and queries are rotated otherwise than in training", PLUGIN),
    "tap_layer_ids": (
        "fc gets its features in another order than in training",
        "sort the tap ids and permute the columns of fc alike",
    ),
    "mask_token_id": ("mask rows start from another embedding than in training", PLUGIN),
    "sample_from_anchor": (
        "the anchor row's prediction is lost and every draft is one position off",
        "no vLLM method drafts from the anchor of a DFlash drafter",
    ),
    "embed_scale": (
        "block rows enter with embeddings of the wrong size",
        "put scaled embeddings into the drafter as embed_tokens.weight, unless your engine applies the scale",
    ),
    "logit_scale": ("draft probabilities are too sharp or too flat", "write logit_scale at top level"),
    "logit_softcap": ("draft probabilities are too sharp", "nothing to do for greedy drafts, the default"),
    "value_scale": (
        "attention outputs have the wrong size",
        "write attention_value_scale into dflash_config, where vLLM reads it",
    ),
    "rms_norm_eps": ("norms differ slightly", "write rms_norm_eps"),
}


class Difference(NamedTuple):
    """One field: what it means, what stock vLLM takes it for, and what that does."""

    field: str
    meant: str
    stock: str
    consequence: str


def differences(config: DraftConfig, stock: StockView) -> list[Difference]:
    """Empty when stock vLLM means the same; layers with the same difference are told together."""
    found = list(_layer_differences(config, stock))
    for name, value in stock.fields.items():
        meant = getattr(config, name)
        if name in EFFECTS and value != meant and (value is not None or name not in NEEDED):
            found.append(Difference(name, _show(meant), _show(value), EFFECTS[name][0]))
    return found


def stock_findings(config: DraftConfig, stock: StockView, target: TargetConfig | None) -> list[Finding]:
    """The same as findings, with what to do."""
    name = f"stock vLLM {stock.version}"
    found = [
        Finding("WARNING", "stock", f"{name} would not start with this drafter", refusal.reason, refusal.remedy)
        for refusal in stock.refusals
    ]
    found += [_finding(one, config, name) for one in differences(config, stock)]
    if stock.unmodelled:
        cause = f"what {name} would do is not known here"
        found.append(Finding("NOTE", "stock", cause, stock.unmodelled, "compare with its log at start"))
    if stock.v1_refusal:
        cause = f"{name} needs its V2 runner for this drafter; its V1 runner refuses it"
        remedy = "leave VLLM_USE_V2_MODEL_RUNNER unset, or serve with this plugin"
        found.append(Finding("NOTE", "layers", cause, stock.v1_refusal, remedy))
    return found + _positions(config, stock, target)


def _finding(one: Difference, config: DraftConfig, name: str) -> Finding:
    kind = one.field.rpartition(".")[2]
    cause = f"{name} takes {one.field} as {one.stock}: {one.consequence}"
    evidence = f"meant: {one.meant} ({_source(config, one.field)})"
    level: Level = "NOTE" if kind in GREEDY_ONLY else "WARNING"
    return Finding(level, one.field, cause, evidence, EFFECTS[kind][1])


def _positions(config: DraftConfig, stock: StockView, target: TargetConfig | None) -> list[Finding]:
    limit = config.max_position_embeddings
    if target is None or target.max_position_embeddings is None or limit >= target.max_position_embeddings:
        return []
    if stock.version in RAISES_DRAFT_POSITIONS and all(_only_sizes_the_table(x.rope) for x in config.layers):
        does = "drafts on with positions it was not trained on"
    else:
        does = "reads past its rotary table, which can end the engine"
    cause = f"the drafter knows positions below {limit}; beyond, stock vLLM {stock.version} {does}"
    evidence = f"max_position_embeddings: drafter {limit}, target {target.max_position_embeddings}"
    remedy = f"serve with --max-model-len {limit}, or with this plugin, which stops drafting there"
    return [Finding("WARNING", "max_position_embeddings", cause, evidence, remedy)]


def _only_sizes_the_table(rope: Rope) -> bool:
    return rope.scaling is None or rope.scaling["rope_type"] in CACHE_ONLY_ROPE_TYPES


def _layer_differences(config: DraftConfig, stock: StockView) -> Iterator[Difference]:
    if len(stock.layers) != len(config.layers):
        return
    for part in ("window", "causal", "rope"):
        groups: dict[tuple[str, str], list[int]] = {}
        for i, (meant, taken) in enumerate(zip(config.layers, stock.layers, strict=True)):
            if getattr(meant, part) != getattr(taken, part) and not (part == "window" and stock.window_lost):
                groups.setdefault((show_part(meant, part), show_part(taken, part)), []).append(i)
        for (meant_text, taken_text), indices in groups.items():
            yield Difference(f"layers.{_ranges(indices)}.{part}", meant_text, taken_text, EFFECTS[part][0])


def _ranges(indices: list[int]) -> str:
    """0-3,5 for [0, 1, 2, 3, 5]."""
    parts: list[list[int]] = []
    for i in indices:
        if parts and parts[-1][-1] == i - 1:
            parts[-1].append(i)
        else:
            parts.append([i])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def show_part(layer: DraftLayer, part: str) -> str:
    """One property of a layer in words."""
    if part == "window":
        return "full" if layer.window is None else f"window {layer.window}"
    if part == "causal":
        return "causal" if layer.causal else "bidirectional"
    return show_rope(layer.rope)


def show_rope(rope: Rope) -> str:
    scaling = "" if rope.scaling is None else f" {rope.scaling['rope_type']} x{rope.scaling.get('factor', '?')}"
    style = "" if rope.is_neox_style else " interleaved"
    return f"theta {rope.theta:g}{scaling} on {rope.rotary_dim} dimensions{style}"


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _source(config: DraftConfig, field: str) -> str:
    head, _, part = field.rpartition(".")
    if head.startswith("layers."):
        first = head.removeprefix("layers.").split(",")[0].split("-")[0]
        field = f"layers.{first}.{part}"
    return str(config.sources[field])
