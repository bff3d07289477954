# SPDX-License-Identifier: Apache-2.0
"""Which draft layers have a sliding window, and how long it is.

`layer_types` decides which layers slide; without it `dflash_config.use_swa` makes all of them slide;
without both, Qwen3's own rule applies (layers from `max_window_layers` on, if `use_sliding_window`). A
layer that `layer_types` calls sliding keeps its window whatever `use_sliding_window` says: the trainers'
attention follows layer_types, only transformers' Qwen3Config ties the window to that flag. `use_swa` also
overrides layer_types that are all full, because transformers invents those when it saves a config that
had none (as vLLM reads it).
"""

from collections.abc import Sequence

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.section import Answer, Section, agree, default
from vllm_dflash.errors import UserError

FULL, SLIDING = "full_attention", "sliding_attention"
QWEN3_MAX_WINDOW_LAYERS = 28  # Qwen3Config's default

Slides = Sequence[tuple[bool, Source]]  # per layer: does it slide, and who says so
LayerTypes = Answer[tuple[str, ...]]


def resolve_windows(
    config: Section, other: Section, count: int, use_swa: bool, findings: list[Finding]
) -> list[Answer[int | None]]:
    """Window of each of `count` layers, None for full attention.

    `other` is a second place for the fields (`dflash_config`, or the top level of a speculators config).
    Raises UserError for sliding layers without a window size, unknown types, and a list of the wrong
    length.
    """
    size, types = _window_size(config, other, findings), _layer_types(config, other, count)
    slides = _sliding_layers(config, other, types, use_swa, size, count, findings)
    answers: list[Answer[int | None]] = []
    for sliding, reason in slides:
        if not sliding:
            answers.append(Answer(None, reason))
        elif size is not None:
            place = size.source
            answers.append(Answer(size.value, Source(place.file, place.key, f"because of {reason}")))
        else:
            raise UserError(
                f"sliding layers without a window size ({reason})",
                needed=f"{config.dotted('sliding_window')} = the window the drafter was trained with",
                file=config.path,
            )
    return answers


def says_sliding(config: Section, other: Section) -> bool:
    """Whether a layer_types list of either place has a sliding layer."""
    return any(SLIDING in types.value for s in (config, other) if (types := s.strings("layer_types")))


def _layer_types(config: Section, other: Section, count: int) -> LayerTypes | None:
    types = agree("layer_types", config.path, config.strings("layer_types"), other.strings("layer_types"))
    if types is None:
        return None
    if len(types.value) != count:
        raise UserError(
            "layer_types does not fit num_hidden_layers",
            field=types.source.key,
            found=len(types.value),
            needed=f"{count} entries",
            file=config.path,
        )
    for kind in types.value:
        if kind not in (FULL, SLIDING):
            raise UserError(
                "unknown layer type",
                field=types.source.key,
                found=kind[:80],
                needed=f"{FULL} or {SLIDING}",
                file=config.path,
            )
    return types


def _window_size(config: Section, other: Section, findings: list[Finding]) -> Answer[int] | None:
    needed = "an integer >= 1, or null for no window"
    swa = other.integer("swa_window_size", 1, needed)
    plain = agree(
        "sliding_window",
        config.path,
        other.integer("sliding_window", 1, needed),
        config.integer("sliding_window", 1, needed),
    )
    if swa is not None and plain is not None and swa.value != plain.value:
        cause = "two window sizes are written; swa_window_size is the drafter's own key and is taken"
        evidence = f"{swa.source.key} = {swa.value}, {plain.source.key} = {plain.value}"
        findings.append(Finding("WARNING", "layers.window", cause, evidence, f"delete {plain.source.key}"))
    return swa or plain


def _sliding_layers(
    config: Section,
    other: Section,
    types: LayerTypes | None,
    use_swa: bool,
    size: Answer[int] | None,
    count: int,
    findings: list[Finding],
) -> Slides:
    enabled = config.boolean("use_sliding_window")
    if types is not None and SLIDING in types.value:
        if enabled is None or not enabled.value:
            findings.append(_flag_ignored(enabled, types))
        return [(kind == SLIDING, _entry(types, i, kind)) for i, kind in enumerate(types.value)]
    if use_swa:
        if types is not None:
            findings.append(_all_full_overruled(types))
        return [(True, other.source("use_swa"))] * count
    if types is not None:
        if size is not None and enabled is not None and enabled.value:
            findings.append(_window_unused(size, f"{types.source.key} has no sliding layer"))
        return [(False, _entry(types, i, FULL)) for i in range(count)]
    return _qwen3_layers(config, enabled, size, count, findings)


def _entry(types: LayerTypes, index: int, kind: str) -> Source:
    return Source(types.source.file, f"{types.source.key}.{index}", kind)


def _qwen3_layers(
    config: Section,
    enabled: Answer[bool] | None,
    size: Answer[int] | None,
    count: int,
    findings: list[Finding],
) -> Slides:
    first = config.integer("max_window_layers")
    if enabled is None or not enabled.value or size is None:
        if size is not None and enabled is None:
            findings.append(_window_unused(size, "no layer_types, use_sliding_window or use_swa asks for it"))
        reason = enabled.source if enabled else Source(rule="nothing asks for sliding layers")
        return [(False, reason)] * count
    first = first or default(QWEN3_MAX_WINDOW_LAYERS, "Qwen3Config's default for max_window_layers")
    if first.value >= count:
        reason_text = f"max_window_layers is {first.value}, the drafter has {count} layers"
        findings.append(_window_unused(size, reason_text))
    rule = "Qwen3: layers from max_window_layers on are sliding"
    place = first.source
    reason = Source(place.file, place.key, f"{place.rule}; {rule}" if place.rule else rule)
    return [(i >= first.value, reason) for i in range(count)]


def _flag_ignored(enabled: Answer[bool] | None, types: LayerTypes) -> Finding:
    state = "is false" if enabled else "is missing"
    return Finding(
        "WARNING",
        "layers.window",
        f"use_sliding_window {state} beside sliding layer_types; the layers keep their window",
        f"{types.source.key} has {types.value.count(SLIDING)} sliding layers",
        "add use_sliding_window: true, or every reader that goes through Qwen3Config loses the window",
    )


def _all_full_overruled(types: LayerTypes) -> Finding:
    return Finding(
        "NOTE",
        "layers.window",
        "use_swa makes every layer sliding although layer_types calls them all full",
        f"{types.source.key} = {FULL} x {len(types.value)}",
        "delete layer_types; transformers invents it when saving",
    )


def _window_unused(size: Answer[int], reason: str) -> Finding:
    return Finding(
        "WARNING",
        "layers.window",
        f"a window is written and no layer uses it: {reason}",
        f"{size.source.key} = {size.value}",
        "if the drafter was trained with it, write layer_types",
    )
