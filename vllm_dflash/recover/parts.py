# SPDX-License-Identifier: Apache-2.0
"""The parts of a reading under the names that verdicts use: tap_layer_ids.0, layers.1.window, rope_theta, ..."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vllm_dflash.fit.reading import Reading


def part_of(name: str) -> Callable[[Reading], Any]:
    """Takes that part out of a reading, as a JSON value."""
    head, *rest = name.split(".")

    def take(reading: Reading) -> Any:
        if head == "tap_layer_ids":
            return reading.tap_layer_ids[int(rest[0])]
        if head == "layers":
            return getattr(reading.layers[int(rest[0])], rest[1])
        return reading.layers[0].rope.theta if head == "rope_theta" else getattr(reading, head)

    return take


def graft(reading: Reading, name: str, other: Reading) -> Reading:
    """`reading` with that part as in `other`, and what was searched together with it.

    A tap that another slot has is swapped with it; a window brings its layer's causality along; causality that of all
    layers and the block size.
    """
    head, *rest = name.split(".")
    if head == "tap_layer_ids":
        slot, taps = int(rest[0]), list(reading.tap_layer_ids)
        layer = other.tap_layer_ids[slot]
        if layer in taps:
            taps[taps.index(layer)] = taps[slot]
        taps[slot] = layer
        return replace(reading, tap_layer_ids=tuple(taps))
    if head == "layers" and rest[1] == "window":
        index, layers = int(rest[0]), list(reading.layers)
        layers[index] = replace(layers[index], window=other.layers[index].window, causal=other.layers[index].causal)
        return replace(reading, layers=tuple(layers))
    if head == "layers":
        flags = [one.causal for one in other.layers]
        rules = tuple(replace(one, causal=flag) for one, flag in zip(reading.layers, flags, strict=True))
        return replace(reading, layers=rules, block_size=other.block_size)
    if head == "rope_theta":
        ropes = [one.rope for one in other.layers]
        return replace(
            reading, layers=tuple(replace(one, rope=rope) for one, rope in zip(reading.layers, ropes, strict=True))
        )
    return replace(reading, **{head: getattr(other, head)})
