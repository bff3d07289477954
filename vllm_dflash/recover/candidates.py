# SPDX-License-Identifier: Apache-2.0
"""What to try for each field that neither tensors nor config settle, and which of equals trainers usually choose."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from vllm_dflash.checkpoint import DraftLayer, Rope, TargetConfig
from vllm_dflash.checkpoint.rope_fields import resolve_rope
from vllm_dflash.checkpoint.section import Section
from vllm_dflash.checkpoint.windows import FULL
from vllm_dflash.errors import UserError
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.known import Known
from vllm_dflash.train.options import tap_layers

JOINT = "causality and block_size"
USUAL_BLOCKS = (4, 8, 16, 32)
JOINT_BLOCKS = (4, 5, 6, 8, 10, 12, 16, 24, 32)
MOST_JOINT_LAYERS = 3
THETAS = (1e4, 5e4, 1e5, 5e5, 1e6, 5e6, 1e7, 1e8)
SMALLEST_WINDOW = 4
FIRST_BLOCK = 8


@dataclass(frozen=True)
class Field:
    """One coordinate of the search.

    options: readings that differ from the given one in this field only. value: the field in JSON types.
    habit: rank among equals, smaller is more usual.
    """

    name: str
    options: Callable[[Reading], list[Reading]]
    value: Callable[[Reading], object]
    habit: Callable[[Reading], int]


@dataclass(frozen=True)
class Space:
    """All that is tried. masks: ids with the most usual first. context: most positions a row can look back on."""

    known: Known
    target_layers: int
    taps: int
    layers: int
    masks: tuple[int, ...]
    ropes: tuple[Rope, ...]
    context: int

    def start(self) -> Reading:
        """Taps spread over the whole target, full bidirectional layers, the target's rope."""
        spread = tuple(round(i * (self.target_layers - 1) / max(self.taps - 1, 1)) for i in range(self.taps))
        known = self.known
        return Reading(
            known.tap_layer_ids or spread,
            self.masks[0] if known.mask_token_id is None else known.mask_token_id,
            tuple(DraftLayer(self.windows(i)[0], self.causal(i)[0], self.ropes[0]) for i in range(self.layers)),
            known.block_size or FIRST_BLOCK,
            bool(known.sample_from_anchor),
        )

    def windows(self, layer: int) -> tuple[int | None, ...]:
        if self.known.windows is not None:
            return (self.known.windows[layer],)
        if self.known.window_size is not None:
            return (None, self.known.window_size)
        sizes = sorted({unit << shift for unit in (2, 3) for shift in range(24)})
        return (None, *(size for size in sizes if SMALLEST_WINDOW <= size <= self.context))

    def causal(self, layer: int) -> tuple[bool, ...]:
        return (False, True) if self.known.causal is None else (self.known.causal[layer],)

    def patterns(self, reading: Reading) -> list[Reading]:
        """All layers alike, or all but the last: where the search of single layers starts from."""
        found = []
        windows = self.windows(0) if self.known.windows is None else (None,)
        for window in (one for one in windows if one is None or len(windows) < 3 or one & (one - 1) == 0):
            for causal in (False, True):
                for last_full in (False, True):
                    rules = [(window, causal)] * self.layers
                    if last_full:
                        rules[-1] = (None, False)
                    layers = tuple(self._allowed(i, w, c, reading.layers[i]) for i, (w, c) in enumerate(rules))
                    found.append(replace(reading, layers=layers))
        return found

    def joint(self) -> Field | None:
        """Causality of the layers together with the block size: with a wrong one of them the other looks wrong too."""
        if self.known.causal is not None:
            return None

        def value(reading: Reading) -> object:
            return [[layer.causal for layer in reading.layers], reading.block_size]

        def habit(reading: Reading) -> int:
            unusual = sum(layer.causal != (layer.window is not None) for layer in reading.layers)
            return 2 * unusual + (reading.block_size not in USUAL_BLOCKS)

        return Field(JOINT, self._joint, value, habit)

    def _joint(self, reading: Reading) -> list[Reading]:
        """Where all layers are causal the first positions do not depend on the block size: then it stays."""
        blocks = JOINT_BLOCKS if self.known.block_size is None else (reading.block_size,)
        now = tuple(layer.causal for layer in reading.layers)
        if self.layers <= MOST_JOINT_LAYERS:
            rules = list(product(*(self.causal(i) for i in range(self.layers))))
        else:
            flipped = [tuple(flag != (i == j) for j, flag in enumerate(now)) for i in range(self.layers)]
            usual = tuple(layer.window is not None for layer in reading.layers)
            rules = [now, usual, (True,) * self.layers, (False,) * self.layers, *flipped]
        rules = [rule for rule in rules if all(flag in self.causal(i) for i, flag in enumerate(rule))]
        return [
            replace(
                reading,
                block_size=block,
                layers=tuple(replace(one, causal=flag) for one, flag in zip(reading.layers, rule, strict=True)),
            )
            for rule in dict.fromkeys(rules)
            for block in dict.fromkeys((reading.block_size, *(() if all(rule) else blocks)))
        ]

    def _allowed(self, index: int, window: int | None, causal: bool, old: DraftLayer) -> DraftLayer:
        return replace(
            old,
            window=window if window in self.windows(index) else old.window,
            causal=causal if causal in self.causal(index) else old.causal,
        )

    def fields(self) -> Iterator[Field]:
        """Those that are searched; block size has its own rule."""
        if self.known.mask_token_id is None:
            yield Field(
                "mask_token_id", self._masks, lambda r: r.mask_token_id, lambda r: self.masks.index(r.mask_token_id)
            )
        if self.known.tap_layer_ids is None:
            for slot in range(self.taps):
                yield self._tap_field(slot)
        for index in range(self.layers):
            if len(self.windows(index)) * len(self.causal(index)) > 1:
                yield self._layer_field(index)
        if self.known.rope is None:
            yield Field(
                "rope", self._ropes, lambda r: r.layers[0].rope.theta, lambda r: self.ropes.index(r.layers[0].rope)
            )
        if self.known.sample_from_anchor is None:
            yield Field(
                "sample_from_anchor", self._anchors, lambda r: r.sample_from_anchor, lambda r: r.sample_from_anchor
            )

    def _masks(self, reading: Reading) -> list[Reading]:
        return [replace(reading, mask_token_id=token) for token in self.masks]

    def _ropes(self, reading: Reading) -> list[Reading]:
        return [
            replace(reading, layers=tuple(replace(one, rope=rope) for one in reading.layers)) for rope in self.ropes
        ]

    def _anchors(self, reading: Reading) -> list[Reading]:
        return [replace(reading, sample_from_anchor=flag) for flag in (False, True)]

    def _tap_field(self, slot: int) -> Field:
        """Slot `slot` from each layer; a layer that another slot has is swapped with it."""
        usual = tap_layers("auto", self.target_layers, self.taps)

        def options(reading: Reading) -> list[Reading]:
            found = []
            for layer in range(self.target_layers):
                taps = list(reading.tap_layer_ids)
                if layer in taps:
                    taps[taps.index(layer)] = taps[slot]
                taps[slot] = layer
                found.append(replace(reading, tap_layer_ids=tuple(taps)))
            return found

        def habit(reading: Reading) -> int:
            return len(usual) != self.taps or reading.tap_layer_ids[slot] != usual[slot]

        return Field(f"tap_layer_ids.{slot}", options, lambda r: r.tap_layer_ids[slot], habit)

    def _layer_field(self, index: int) -> Field:
        def options(reading: Reading) -> list[Reading]:
            found = []
            for window in self.windows(index):
                for causal in self.causal(index):
                    layers = list(reading.layers)
                    layers[index] = replace(layers[index], window=window, causal=causal)
                    found.append(replace(reading, layers=tuple(layers)))
            return found

        def habit(reading: Reading) -> int:
            """The last layer full, the others with one window, a power of 2; sliding layers causal, full ones not."""
            layer, last = reading.layers[index], index == self.layers - 1
            others = {one.window for i, one in enumerate(reading.layers[:-1]) if i != index and one.window}
            window = layer.window is not None if last or not others else layer.window not in others
            odd = layer.window is not None and layer.window & (layer.window - 1) != 0
            return 4 * window + 2 * (layer.causal != (layer.window is not None)) + odd

        return Field(f"layers.{index}", options, lambda r: [r.layers[index].window, r.layers[index].causal], habit)


def candidate_ropes(known: Known, target: TargetConfig, head_dim: int) -> tuple[Rope, ...]:
    """The target's own rope first, then plain ones."""
    if known.rope is not None:
        return (known.rope,)
    text = target.raw.get("text_config", target.raw)
    ropes = []
    try:
        own = resolve_rope(Section(text, target.path / "config.json"), FULL, head_dim, []).value
        ropes = [own, Rope(own.theta, head_dim)]
    except UserError:
        pass
    ropes += [Rope(theta, head_dim) for theta in ((target.rope_theta or THETAS[0]), *THETAS)]
    return tuple(rope for i, rope in enumerate(ropes) if rope not in ropes[:i])
