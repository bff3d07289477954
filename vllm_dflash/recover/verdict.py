# SPDX-License-Identifier: Apache-2.0
"""What is said about each field in the end: its value, who gave it, by what margin, and what it could be instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_dflash.fit.compare import Ranked, still_open
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.block_size import BlockEvidence
from vllm_dflash.recover.candidates import JOINT, Space
from vllm_dflash.recover.parts import part_of

HARMLESS = 0.002  # nats a row: candidates this close draft alike


@dataclass(frozen=True)
class Verdict:
    """origin: "tensors", "config", "target", "search" or "habit" (undecided, the usual value of those left).

    margin and error: nats a row that the best other value is behind, and its standard error; None if not searched.
    others: values that are not excluded. ranking: (value, nats behind the best, standard error), best first.
    """

    name: str
    value: Any
    origin: str
    margin: float | None = None
    error: float | None = None
    runner_up: Any = None
    others: tuple[Any, ...] = ()
    note: str = ""
    ranking: tuple[tuple[Any, float, float], ...] = field(default=(), repr=False)
    rivals: tuple[Reading, ...] = field(default=(), repr=False)

    @property
    def decided(self) -> bool:
        return self.origin != "habit"


def judge(name: str, ranked: Sequence[Ranked], chosen: Reading, value: Callable[[Reading], Any]) -> Verdict:
    """From a field's last ranking; candidates are grouped by `value`, the best of a group stands for it.

    A value is open when one of its candidates is; see `still_open`.
    """
    best: dict[str, Ranked] = {}
    for one in ranked:
        best.setdefault(repr(value(one.reading)), one)
    mine = repr(value(chosen))
    others = [one for key, one in best.items() if key != mine]
    if not others:
        return Verdict(name, value(chosen), "search")
    left = {repr(value(one.reading)): one for one in reversed(still_open(ranked)) if repr(value(one.reading)) != mine}
    nearest = max(others, key=lambda one: (one.count, one.behind))
    own = best[mine]
    note = (
        "those left draft alike"
        if left and all(abs(one.behind - own.behind) < HARMLESS for one in left.values())
        else ""
    )
    return Verdict(
        name,
        value(chosen),
        "habit" if left else "search",
        round(own.behind - nearest.behind, 5),
        round(nearest.error or own.error, 5),
        value(nearest.reading),
        tuple(value(one.reading) for one in reversed(left.values())),
        note,
        tuple((value(one.reading), round(one.behind, 5), round(one.error, 5)) for one in best.values()),
        tuple(one.reading for one in reversed(left.values())),
    )


def judge_all(
    space: Space, reading: Reading, rankings: dict[str, list[Ranked]], block: BlockEvidence | None
) -> list[Verdict]:
    """A verdict for every field of `Reading`, taps slot by slot, window and causality layer by layer."""
    known, found = space.known, []

    def settled(name: str, value: Any, known_value: Any, origin: str = "tensors") -> None:
        found.append(Verdict(name, value, "config" if known_value is not None else origin))

    for slot, tap in enumerate(reading.tap_layer_ids):
        name = f"tap_layer_ids.{slot}"
        if name in rankings:
            found.append(judge(name, rankings[name], reading, part_of(name)))
        else:
            settled(name, tap, known.tap_layer_ids)
    if "mask_token_id" in rankings:
        found.append(judge("mask_token_id", rankings["mask_token_id"], reading, part_of("mask_token_id")))
    else:
        settled("mask_token_id", reading.mask_token_id, known.mask_token_id)
    for i, layer in enumerate(reading.layers):
        ranked = rankings.get(f"layers.{i}")
        for part, given in (("window", known.windows), ("causal", known.causal)):
            name = f"layers.{i}.{part}"
            if ranked is None or given is not None:
                settled(name, getattr(layer, part), given)
            else:
                evidence = ranked if part == "window" else rankings[JOINT]
                verdict = judge(name, evidence, reading, part_of(name))
                found.append(limited(verdict, space))
    theta = reading.layers[0].rope.theta
    if "rope" in rankings:
        found.append(judge("rope_theta", rankings["rope"], reading, part_of("rope_theta")))
    else:
        settled("rope_theta", theta, known.rope)
    if "sample_from_anchor" in rankings:
        ranked = rankings["sample_from_anchor"]
        found.append(judge("sample_from_anchor", ranked, reading, part_of("sample_from_anchor")))
    else:
        settled("sample_from_anchor", reading.sample_from_anchor, known.sample_from_anchor)
    found.append(_block(reading, block, rankings.get(JOINT, ())))
    return found


def limited(verdict: Verdict, space: Space) -> Verdict:
    """No window up to the longest context is better than none: a longer one would look the same."""
    if verdict.value is not None or not verdict.name.endswith(".window"):
        return verdict
    note = f"none, or longer than the {space.context} positions of these samples"
    return replace(verdict, note="; ".join(filter(None, (note, verdict.note))))


def _block(reading: Reading, block: BlockEvidence | None, joint: Sequence[Ranked]) -> Verdict:
    """By the first positions; among those left, by the step past the block; open while causality leaves it open."""
    if block is None:
        return Verdict("block_size", reading.block_size, "config")
    first = judge("block_size", block.ranked, reading, part_of("block_size"))
    steps = sorted(block.steps.items(), key=lambda item: -item[1][0])
    note = "fall past the block in excess of its neighbours': " + ", ".join(
        f"{size} {excess:+.3f}±{error:.3f}" for size, (excess, error) in steps[:4]
    )
    left = () if block.clear_step else tuple(size for size in block.left if size != reading.block_size)
    if not block.clear_step and any(_all_causal(one.reading) for one in still_open(joint)):
        left = left or tuple(size for size in block.steps if size != reading.block_size)
        note += "; with all layers causal, which is not excluded, any size would do"
        return replace(first, origin="habit", others=left, note=note)
    return replace(first, origin="search" if block.decided else "habit", others=left, note=note)


def _all_causal(reading: Reading) -> bool:
    return all(layer.causal for layer in reading.layers)
