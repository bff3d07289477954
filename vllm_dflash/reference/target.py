# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face target model seen as DFlash sees it: embedding, taps, logits."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class Target(nn.Module):
    """Wraps a Hugging Face causal LM. Batch is the leading dimension throughout.

    tap_layer_ids: zero-based layers; the tap of layer i is its output, `hidden_states[i + 1]` in Hugging Face's
        counting. The last layer's output is taken before the final norm, by a hook, because Hugging Face
        reports it after the norm.
    """

    def __init__(self, model: Any, tap_layer_ids: Sequence[int]) -> None:
        super().__init__()
        self.model: Any = model
        self.tap_layer_ids = tuple(tap_layer_ids)
        decoder = model.get_decoder()
        self.final_norm_module = decoder.norm
        self._taps: dict[int, torch.Tensor] = {}
        for index in self.tap_layer_ids:
            decoder.layers[index].register_forward_hook(self._remember(index))

    def _remember(self, index: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            self._taps[index] = output[0] if isinstance(output, tuple) else output

        return hook

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """[..., N] -> [..., N, hidden], without any scale that the target's own forward adds."""
        return nn.functional.embedding(token_ids, self.model.get_input_embeddings().weight)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., hidden] after the final norm -> [..., vocabulary] logits."""
        return self.model.get_output_embeddings()(hidden)

    def forward(self, token_ids: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """One forward pass.

        Args:
            token_ids: [B, N]; kwargs go to the model (attention_mask, past_key_values, position_ids, ...).

        Returns:
            logits [B, N, vocabulary] (or of the rows asked for with logits_to_keep),
            taps [B, N, n_taps * hidden] concatenated in the order of tap_layer_ids, and the model's cache.
        """
        out = self.model(token_ids, **kwargs)
        taps = torch.cat([self._taps[i] for i in self.tap_layer_ids], dim=-1)
        self._taps.clear()
        return out.logits, taps, out.past_key_values
