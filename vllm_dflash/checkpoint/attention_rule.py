# SPDX-License-Identifier: Apache-2.0
"""Window and causality of each draft layer, from the fields of either format.

Windows: `layer_types` decides which layers slide; without it `dflash_config.use_swa` makes all of them slide;
without both, Qwen3's own rule applies (layers from `max_window_layers` on, if `use_sliding_window`). A layer that
`layer_types` calls sliding keeps its window whatever `use_sliding_window` says: the trainers' attention follows
layer_types, only transformers' Qwen3Config ties the window to that flag.
Causality, native format: `is_causal`, then `dflash_config.causal`, then sliding = causal and full = non-causal
(z-lab dflash 0.1.0, vLLM 0.28+). `use_swa` layers are non-causal (MiMo).
Causality, speculators format: full layers are bidirectional, `sliding_window_non_causal` decides the others and is
false by default (speculators trainer).
"""

from collections.abc import Sequence
from typing import NamedTuple

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.rope_fields import FULL, SLIDING
from vllm_dflash.checkpoint.section import Answer, Section, agree, default
from vllm_dflash.errors import UserError

QWEN3_MAX_WINDOW_LAYERS = 28  # Qwen3Config's default


class LayerRule(NamedTuple):
    window: Answer[int | None]
    causal: Answer[bool]


def native_rules(config: Section, dflash: Section, count: int, findings: list[Finding]) -> list[LayerRule]:
    """Rules of `count` layers of a native (z-lab) config. Raises UserError where no rule settles a field."""
    explicit = _explicit_layers(dflash, count)
    if explicit is not None:
        return explicit
    swa = dflash.boolean("use_swa")
    windows = _windows(config, dflash, count, swa, findings)
    override = config.boolean("is_causal") or dflash.boolean("causal")
    if override is not None:
        return [LayerRule(window, override) for window in windows]
    if swa is not None and swa.value and not _mentions_sliding(config, dflash):
        rule = default(False, "use_swa layers see the whole block")
        return [LayerRule(window, rule) for window in windows]
    by_type = {
        True: default(
            True, "sliding layers are causal unless is_causal or dflash_config.causal says otherwise"
        ),
        False: default(
            False, "full layers see the whole block unless is_causal or dflash_config.causal says otherwise"
        ),
    }
    return [LayerRule(window, by_type[window.value is not None]) for window in windows]


def speculators_rules(top: Section, layer: Section, count: int, findings: list[Finding]) -> list[LayerRule]:
    """Rules of `count` layers of a speculators config (`layer` is its transformer_layer_config)."""
    flag = top.boolean("sliding_window_non_causal")
    if flag is None:
        sliding = default(True, "sliding_window_non_causal is absent; the trainer's default is false")
    else:
        sliding = Answer(not flag.value, flag.source)
    full = default(False, "the speculators trainer keeps full layers bidirectional, whatever the flag says")
    windows = _windows(layer, top, count, None, findings)
    return [LayerRule(window, full if window.value is None else sliding) for window in windows]


def _explicit_layers(dflash: Section, count: int) -> list[LayerRule] | None:
    """`dflash_config.layers`, this package's own unambiguous spelling: [{"window": W or null, "causal": bool}]."""
    entries = dflash.items("layers", dict, 'a list of {"window": integer or null, "causal": true or false}')
    if entries is None:
        return None
    if len(entries.value) != count:
        dflash.refuse("the list does not fit num_hidden_layers", "layers", f"{count} entries")
    rules = []
    for i, values in enumerate(entries.value):
        entry = Section(values, dflash.path, f"{dflash.dotted('layers')}.{i}.")
        causal = entry.boolean("causal")
        if causal is None:
            entry.missing("causal", "true or false")
        if "window" not in values:
            entry.missing("window", "an integer, or null for no limit")
        window = entry.integer("window", minimum=1)
        limit: Answer[int | None] = Answer(window.value if window else None, entry.source("window"))
        rules.append(LayerRule(limit, causal))
    return rules


def _layer_types(config: Section, other: Section, count: int) -> Answer[tuple[str, ...]] | None:
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
    unknown = sorted(set(types.value) - {FULL, SLIDING})
    if unknown:
        raise UserError(
            "unknown layer type",
            field=types.source.key,
            found=unknown[0][:80],
            needed=f"{FULL} or {SLIDING}",
            file=config.path,
        )
    return types


def _mentions_sliding(config: Section, dflash: Section) -> bool:
    return any(SLIDING in (section.values.get("layer_types") or ()) for section in (config, dflash))


def _window_size(config: Section, other: Section, findings: list[Finding]) -> Answer[int] | None:
    needed = "an integer >= 1, or no key at all for no window"
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


def _windows(
    config: Section, other: Section, count: int, swa: Answer[bool] | None, findings: list[Finding]
) -> list[Answer[int | None]]:
    size, types = _window_size(config, other, findings), _layer_types(config, other, count)
    enabled = config.boolean("use_sliding_window")
    sliding = _sliding_layers(config, types, swa, enabled, size, count, findings)
    if size is None and any(slides for slides, _ in sliding):
        reason = next(source for slides, source in sliding if slides)
        raise UserError(
            f"sliding layers without a window size ({reason})",
            needed="sliding_window = the window the drafter was trained with, at top level",
            file=config.path,
        )
    answers: list[Answer[int | None]] = []
    for slides, reason in sliding:
        if slides and size is not None:
            place = size.source
            answers.append(Answer(size.value, Source(place.file, place.key, f"because of {reason}")))
        else:
            answers.append(Answer(None, reason))
    return answers


def _sliding_layers(
    config: Section,
    types: Answer[tuple[str, ...]] | None,
    swa: Answer[bool] | None,
    enabled: Answer[bool] | None,
    size: Answer[int] | None,
    count: int,
    findings: list[Finding],
) -> Sequence[tuple[bool, Source]]:
    on = enabled is not None and enabled.value
    every_layer_swa = swa is not None and swa.value
    if types is not None and SLIDING in types.value:
        if not on:
            findings.append(_flag_ignored(enabled, types))
        place = types.source
        return [
            (kind == SLIDING, Source(place.file, f"{place.key}.{i}", kind))
            for i, kind in enumerate(types.value)
        ]
    if every_layer_swa and swa is not None:
        if types is not None:
            findings.append(_all_full_overruled(types))
        return [(True, swa.source)] * count
    if types is not None:
        if size is not None and on:
            findings.append(_window_unused(size, f"{types.source.key} has no sliding layer"))
        place = types.source
        return [(False, Source(place.file, f"{place.key}.{i}", FULL)) for i in range(count)]
    return _qwen3_layers(config, enabled, size, count, findings)


def _qwen3_layers(
    config: Section,
    enabled: Answer[bool] | None,
    size: Answer[int] | None,
    count: int,
    findings: list[Finding],
) -> Sequence[tuple[bool, Source]]:
    first = config.integer("max_window_layers")
    if enabled is None or not enabled.value or size is None:
        if size is not None and enabled is None:
            findings.append(
                _window_unused(size, "neither layer_types nor use_sliding_window nor use_swa asks for it")
            )
        reason = enabled.source if enabled else Source(rule="nothing asks for sliding layers")
        return [(False, reason)] * count
    first = first or default(QWEN3_MAX_WINDOW_LAYERS, "Qwen3Config's default for max_window_layers")
    if first.value >= count:
        findings.append(
            _window_unused(size, f"max_window_layers is {first.value}, the drafter has {count} layers")
        )
    rule = "Qwen3: layers from max_window_layers on are sliding"
    place = first.source
    reason = Source(place.file, place.key, f"{place.rule}; {rule}" if place.rule else rule)
    return [(i >= first.value, reason) for i in range(count)]


def _flag_ignored(enabled: Answer[bool] | None, types: Answer[tuple[str, ...]]) -> Finding:
    state = "is false" if enabled else "is missing"
    return Finding(
        "WARNING",
        "layers.window",
        f"use_sliding_window {state} beside sliding layer_types; the layers keep their window",
        f"{types.source.key} has {types.value.count(SLIDING)} sliding layers",
        "add use_sliding_window: true, or every reader that goes through Qwen3Config loses the window",
    )


def _all_full_overruled(types: Answer[tuple[str, ...]]) -> Finding:
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
