# SPDX-License-Identifier: Apache-2.0
"""One reading of a drafter: the fields of its config that no tensor shape can tell."""

import json
from dataclasses import asdict, dataclass, replace

from vllm_dflash.checkpoint import DraftConfig, DraftLayer
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.rope import inverse_frequencies


@dataclass(frozen=True)
class Reading:
    """Names and meaning are those of DraftConfig."""

    tap_layer_ids: tuple[int, ...]
    mask_token_id: int
    layers: tuple[DraftLayer, ...]
    block_size: int
    sample_from_anchor: bool = False

    @classmethod
    def of(cls, config: DraftConfig) -> "Reading":
        return cls(
            config.tap_layer_ids, config.mask_token_id, config.layers, config.block_size, config.sample_from_anchor
        )

    @property
    def draft_tokens(self) -> int:
        """Positions after the anchor that one pass predicts."""
        return self.block_size if self.sample_from_anchor else self.block_size - 1

    def key(self) -> str:
        """The same text for equal readings, in every process."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    def on(self, config: DraftConfig) -> DraftConfig:
        """`config` read this way."""
        return replace(
            config,
            tap_layer_ids=self.tap_layer_ids,
            mask_token_id=self.mask_token_id,
            layers=self.layers,
            block_size=self.block_size,
            sample_from_anchor=self.sample_from_anchor,
        )


def reread(drafter: Drafter, reading: Reading) -> None:
    """Make a loaded drafter follow `reading`; its weights stay."""
    drafter.config = reading.on(drafter.config)
    for layer, rule in zip(drafter.layers, reading.layers, strict=True):
        attention = layer.self_attn
        if attention.rule.rope != rule.rope:
            frequencies, attention.rope_factor = inverse_frequencies(
                rule.rope, drafter.config.max_position_embeddings, attention.head_dim
            )
            attention.frequencies = frequencies.to(attention.frequencies.device)
        attention.rule = rule
