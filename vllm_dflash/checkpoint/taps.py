# SPDX-License-Identifier: Apache-2.0
"""Which target layers feed the drafter, in zero-based counting whatever the checkpoint counts in.

Native `target_layer_ids` are tap ids. `aux_hidden_state_layer_ids` (speculators),
`eagle_aux_hidden_state_layer_ids` and `dflash_config.layer_ids` (EAGLE's counting: the state before layer i)
are tap ids + 1.
"""

from pathlib import Path

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.section import Answer, Brief, Section, agree
from vllm_dflash.errors import UserError

Taps = Answer[tuple[int, ...]]


def native_taps(config: Section, dflash: Section, findings: list[Finding]) -> Taps:
    """Taps of a native config. Raises UserError when no key gives them: guesses fit few drafters."""
    taps = agree(
        "the tap layer ids",
        config.path,
        dflash.integers("target_layer_ids"),
        config.integers("target_layer_ids"),
        _shifted(config.integers("eagle_aux_hidden_state_layer_ids")),
        _shifted(dflash.integers("layer_ids")),
    )
    if taps is None:
        dflash.missing("target_layer_ids", "the zero-based target layers that the drafter was trained on")
    return _checked(taps, config.path, findings)


def speculators_taps(top: Section, findings: list[Finding]) -> Taps:
    """Taps of a speculators config."""
    taps = _shifted(top.integers("aux_hidden_state_layer_ids"))
    if taps is None:
        top.missing("aux_hidden_state_layer_ids", "the target layers the drafter was trained on, plus 1 each")
    return _checked(taps, top.path, findings)


def check_taps_exist(taps: Taps, layers: int, where: str, path: Path) -> None:
    beyond = [tap for tap in taps.value if tap >= layers]
    if beyond:
        raise UserError(
            f"tap {beyond[0]} is past the last layer of the target ({where}: {layers} layers)",
            field=taps.source.key,
            found=list(taps.value),
            needed=f"tap ids below {layers}; another target, or ids counted from 1?",
            file=path,
        )


def _shifted(ids: Taps | None) -> Taps | None:
    if ids is None:
        return None
    source = Source(ids.source.file, ids.source.key, "stored as tap id + 1")
    return Answer(tuple(i - 1 for i in ids.value), source)


def _checked(taps: Taps, path: Path, findings: list[Finding]) -> Taps:
    values = taps.value
    if not values or min(values) < 0 or max(values) > 2**20 or len(set(values)) != len(values):
        counting = f" ({taps.source.rule})" if taps.source.rule else ""
        raise UserError(
            f"the tap layer ids are not usable{counting}",
            field=taps.source.key,
            found=Brief(list(values)),
            needed="at least one, none negative, none twice",
            file=path,
        )
    if list(values) != sorted(values):
        findings.append(
            Finding(
                "WARNING",
                "tap_layer_ids",
                "the taps are not in ascending order; their order is that of the columns of fc",
                f"{taps.source}: {list(values)}",
                "stock vLLM concatenates taps in layer order: permute the columns of fc and sort the ids",
            )
        )
    return taps
