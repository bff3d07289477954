# SPDX-License-Identifier: Apache-2.0
"""Window and causality of each draft layer, from the fields of either format.

Native causality: `is_causal`, then `dflash_config.causal`, then sliding = causal and full = non-causal (z-lab
dflash 0.1.0, vLLM 0.28+); layers that slide because of `use_swa` are non-causal (MiMo).
Speculators causality: full layers are bidirectional, `sliding_window_non_causal` decides the others and
is false by default; windows come from `transformer_layer_config` (speculators trainer).
"""

from typing import NamedTuple

from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.section import Answer, Section, default
from vllm_dflash.checkpoint.windows import resolve_windows, says_sliding

STOCK_KEYS = ("layer_types", "sliding_window", "use_swa", "swa_window_size", "causal")


class LayerRule(NamedTuple):
    window: Answer[int | None]
    causal: Answer[bool]


def native_rules(config: Section, dflash: Section, count: int, findings: list[Finding]) -> list[LayerRule]:
    """Rules of `count` layers of a native (z-lab) config. Raises UserError where no rule settles a field."""
    explicit = _explicit_layers(dflash, count)
    if explicit is not None:
        for key in STOCK_KEYS:
            dflash.raw(key)
        return explicit
    use_swa = dflash.boolean("use_swa")
    swa = use_swa is not None and use_swa.value
    windows = resolve_windows(config, dflash, count, swa, findings)
    overrides = [answer for answer in (config.boolean("is_causal"), dflash.boolean("causal")) if answer]
    if overrides:
        override = overrides[0]
        if override.value != overrides[-1].value:
            findings.append(_causal_overruled(override, overrides[-1]))
        return [LayerRule(window, override) for window in windows]
    if swa and not says_sliding(config, dflash):
        rule = default(False, "use_swa layers see the whole block")
        return [LayerRule(window, rule) for window in windows]
    by_type = {
        True: default(True, "no is_causal, no dflash_config.causal: sliding layers are causal"),
        False: default(False, "no is_causal, no dflash_config.causal: full layers see the whole block"),
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
    windows = resolve_windows(layer, _fallback(top, layer, findings), count, False, findings)
    if any(window.value is not None for window in windows):
        findings.append(_counted_from_the_anchor())
    return [LayerRule(window, full if window.value is None else sliding) for window in windows]


def _fallback(top: Section, layer: Section, findings: list[Finding]) -> Section:
    """Window fields that stand at top level only; those that also stand in transformer_layer_config lose."""
    keys = [key for key in ("layer_types", "sliding_window") if key in top]
    ignored = [key for key in keys if key in layer and top.raw(key) != layer.values[key]]
    if ignored:
        findings.append(
            Finding(
                "WARNING",
                "layers.window",
                "fields at top level differ from transformer_layer_config and are ignored, as in training",
                f"{top.path.name}: {', '.join(ignored)}",
                "delete them at top level",
            )
        )
    return Section({key: top.raw(key) for key in keys if key not in layer}, top.path)


def _counted_from_the_anchor() -> Finding:
    return Finding(
        "NOTE",
        "layers.window",
        "the speculators trainer counts the window from the anchor, servers from each row",
        "a row of the block sees up to block_size - 1 fewer context positions than in training",
        "nothing to do; it matters only beyond the window, and little",
    )


def _causal_overruled(first: Answer[bool], second: Answer[bool]) -> Finding:
    cause = f"{first.source.key} and {second.source.key} differ; the first is taken"
    evidence = f"{first.source} = {first.value}, {second.source} = {second.value}"
    return Finding("WARNING", "layers.causal", cause, evidence, f"delete {second.source.key}")


def _explicit_layers(dflash: Section, count: int) -> list[LayerRule] | None:
    """`dflash_config.layers`, our own unambiguous spelling: [{"window": W or null, "causal": bool}, ...]."""
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
