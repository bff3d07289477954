# SPDX-License-Identifier: Apache-2.0
"""Other readings of a drafter's config: the mistakes that writers and servers make."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from vllm_dflash.checkpoint import DraftLayer, TargetConfig
from vllm_dflash.fit.reading import Reading

COMMON_THETAS = (1e4, 1e6, 1e7)
COMMON_WINDOWS = tuple(2**power for power in range(4, 16))


class Other(NamedTuple):
    """field of DraftConfig, name for people, what config.json would have to say, and the reading."""

    field: str
    name: str
    change: str
    reading: Reading


def alternatives(reading: Reading, target: TargetConfig, masks: Sequence[int], context: int) -> Iterator[Other]:
    """Without masks already tried; windows that no context of these samples reaches are left alone."""
    yield from _taps(reading, target.num_hidden_layers)
    yield from _windows(reading, context)
    yield from _lost_windows(reading, context)
    yield from _causality(reading)
    yield from _thetas(reading, target)
    flipped = not reading.sample_from_anchor
    name = f"the anchor row {'predicts' if flipped else 'does not predict'}"
    yield Other("sample_from_anchor", name, str(flipped).lower(), replace(reading, sample_from_anchor=flipped))
    for token in masks:
        if token != reading.mask_token_id:
            yield Other("mask_token_id", f"mask token {token}", str(token), replace(reading, mask_token_id=token))


def _taps(reading: Reading, layers: int) -> Iterator[Other]:
    for shift, words in ((1, "one layer later"), (-1, "one layer earlier")):
        taps = tuple(tap + shift for tap in reading.tap_layer_ids)
        if min(taps) >= 0 and max(taps) < layers:
            shown = ", ".join(map(str, taps))
            yield Other("tap_layer_ids", f"every tap {words}", f"[{shown}]", replace(reading, tap_layer_ids=taps))
    if list(reading.tap_layer_ids) != sorted(reading.tap_layer_ids):
        taps = tuple(sorted(reading.tap_layer_ids))
        yield Other("tap_layer_ids", "taps in layer order", str(list(taps)), replace(reading, tap_layer_ids=taps))


def _windows(reading: Reading, context: int) -> Iterator[Other]:
    if any(layer.window is not None and layer.window < context for layer in reading.layers):
        layers = tuple(replace(layer, window=None) for layer in reading.layers)
        yield Other("layers.window", "no sliding windows", "full_attention everywhere", replace(reading, layers=layers))


def _lost_windows(reading: Reading, context: int) -> Iterator[Other]:
    """A config without windows may have lost them: all layers, or all but the last, sliding and causal or not."""
    if any(layer.window is not None for layer in reading.layers):
        return
    last = len(reading.layers) - 1
    for window in (one for one in COMMON_WINDOWS if one < context):
        for kept, words in ((last, "all layers but the last"), (None, "all layers"))[not last :]:
            for causal in (True, False):
                layers = tuple(
                    one if i == kept else replace(one, window=window, causal=causal)
                    for i, one in enumerate(reading.layers)
                )
                kind = "causal" if causal else "bidirectional"
                name = f"{words} sliding ({kind}, window {window})"
                change = f"sliding_attention ({kind}, sliding_window {window}) in {words}"
                yield Other("layers.window", name, change, replace(reading, layers=layers))


def _causality(reading: Reading) -> Iterator[Other]:
    kinds: tuple[tuple[str, Callable[[DraftLayer], bool]], ...] = (
        ("all layers", lambda layer: True),
        ("sliding layers", lambda layer: layer.window is not None),
        ("full layers", lambda layer: layer.window is None),
    )
    seen = {reading.layers}
    for kind, chosen in kinds:
        layers = tuple(replace(one, causal=one.causal != chosen(one)) for one in reading.layers)
        if layers not in seen:
            seen.add(layers)
            change = ", ".join("causal" if layer.causal else "bidirectional" for layer in layers)
            yield Other("layers.causal", f"causality of {kind} flipped", change, replace(reading, layers=layers))


def _thetas(reading: Reading, target: TargetConfig) -> Iterator[Other]:
    now = {layer.rope.theta for layer in reading.layers}
    for theta in dict.fromkeys((target.rope_theta or COMMON_THETAS[0], *COMMON_THETAS)):
        if now != {theta}:
            layers = tuple(replace(one, rope=replace(one.rope, theta=theta)) for one in reading.layers)
            yield Other("layers.rope", f"rope theta {theta:g}", f"{theta:g}", replace(reading, layers=layers))
