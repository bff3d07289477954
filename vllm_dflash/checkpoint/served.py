# SPDX-License-Identifier: Apache-2.0
"""What vLLM's draft model cannot run, with this plugin or without: the engine refuses it, `doctor` foretells it."""

from collections.abc import Iterator
from dataclasses import dataclass

from vllm_dflash.checkpoint.draft_config import DraftConfig

SILU = ("silu", "swish")  # two names of one function


@dataclass(frozen=True)
class Refusal:
    """field: of DraftConfig. needed: the value that would be served. remedy: what the user can do."""

    field: str
    cause: str
    found: object
    needed: str
    remedy: str


def refusals(config: DraftConfig) -> Iterator[Refusal]:
    """Whatever the target. Empty for a drafter that can be served."""
    if config.hidden_act not in SILU:
        yield Refusal(
            "hidden_act", "vLLM's draft layers know one activation", config.hidden_act, SILU[0],
            "if the drafter was trained with silu, write that; else it needs another engine",
        )  # fmt: skip
    if config.quantization is not None and list(config.tap_layer_ids) != sorted(config.tap_layer_ids):
        yield Refusal(
            "tap_layer_ids",
            "the taps of a quantised drafter must be in ascending order, the order in which vLLM concatenates them",
            list(config.tap_layer_ids), str(sorted(config.tap_layer_ids)),
            "use the unquantised weights, or quantise them again with taps and columns of fc sorted alike",
        )  # fmt: skip
    if config.sample_from_anchor:
        yield Refusal(
            "sample_from_anchor", "vLLM's DFlash samples from the mask rows only", True, "False",
            "this drafter needs another engine",
        )  # fmt: skip
