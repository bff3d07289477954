# SPDX-License-Identifier: Apache-2.0
"""The embedding and head that a drafter uses: its own where its checkpoint has them, else its target's."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.checkpoint.mask_embedding import read_mask_embedding
from vllm_dflash.checkpoint.tensors import plain_name
from vllm_dflash.reference.target import Target


class Vocabulary:
    """Takes the target's place in `decode.draft`.

    Own tensors: embed_tokens.weight [vocabulary, hidden]; lm_head.weight [draft vocabulary, hidden]; d2t
    [draft vocabulary], what to add to a head row to get its token; mask_embedding.pt [hidden].
    """

    def __init__(self, config: DraftConfig, target: Target) -> None:
        self.config, self.target = config, target
        self.own: dict[str, torch.Tensor] = {}
        for file in sorted(Path(config.path).glob("*.safetensors")):
            self.own |= {plain_name(name): tensor for name, tensor in load_file(file).items()}
        self.mask: torch.Tensor | None = None
        if config.mask_embedding_file is not None:
            self.mask = read_mask_embedding(config.mask_embedding_file, config.mask_token_id, config.hidden_size)

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """[..., N] -> [..., N, hidden], unscaled."""
        table = self.own.get("embed_tokens.weight")
        embedded = self.target.embed(token_ids) if table is None else nn.functional.embedding(token_ids, table)
        if self.mask is None:
            return embedded
        return torch.where((token_ids == self.config.mask_token_id)[..., None], self.mask.to(embedded.dtype), embedded)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> logits [..., vocabulary]; minus infinity for tokens that the draft vocabulary lacks."""
        weight = self.own.get("lm_head.weight")
        if weight is None:
            return self.target.head(hidden)
        logits = hidden @ weight.to(hidden.dtype).T
        if "d2t" not in self.own:
            return logits
        tokens = torch.arange(weight.shape[0]) + self.own["d2t"].long()
        spread = logits.new_full((*logits.shape[:-1], self.config.vocab_size), float("-inf"))
        spread[..., tokens] = logits
        return spread
