# SPDX-License-Identifier: Apache-2.0
"""A drafter's weights with what it borrows from its target: embedding, head, and the map between vocabularies."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.checkpoint.mask_embedding import read_mask_embedding
from vllm_dflash.checkpoint.tensors import plain_name
from vllm_dflash.errors import UserError
from vllm_dflash.fit.loaded_target import LoadedTarget
from vllm_dflash.fit.local_model import check_weights
from vllm_dflash.reference.drafter import Drafter


@dataclass
class DraftWeights:
    """drafter: its layers. embedding: [vocabulary, hidden]. head: [draft vocabulary, hidden].

    token_of_row: int64 [draft vocabulary], target id of each head row; row_of_token: int64 [vocabulary], -1 without.
    mask: [hidden] from mask_embedding.pt, or None. It stands in the embedding table: scaled like its other rows.
    """

    drafter: Drafter
    embedding: torch.Tensor
    head: torch.Tensor
    token_of_row: torch.Tensor
    row_of_token: torch.Tensor
    mask: torch.Tensor | None
    config: DraftConfig

    @property
    def vocabulary(self) -> int:
        return len(self.row_of_token)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """[...] -> [..., hidden], scaled as the drafter wants it."""
        return torch.nn.functional.embedding(tokens, self.embedding) * self.config.embed_scale

    def mask_vector(self, token: int) -> torch.Tensor:
        """[hidden]: what a mask row enters with."""
        return (self.embedding[token] if self.mask is None else self.mask) * self.config.embed_scale

    def shape_logits(self, logits: torch.Tensor) -> torch.Tensor:
        logits, cap = logits * self.config.logit_scale, self.config.logit_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)


def load_draft_weights(config: DraftConfig, target: LoadedTarget) -> DraftWeights:
    """Weights in the target's precision, on its device.

    Raises UserError when they are missing, quantised, or of a kind that the reference cannot run.
    """
    folder = Path(config.path)
    check_weights(folder, "the drafter's")
    if config.quantization is not None:
        raise UserError("a quantised drafter cannot be run here", needed="its unquantised weights", file=folder)
    for field, unusual in (("value_scale", config.value_scale != 1.0), ("hidden_act", config.hidden_act != "silu")):
        if unusual:
            raise UserError(
                "the reference does not run such a drafter", field=field, found=getattr(config, field), file=folder
            )
    reference, device = target.model.get_input_embeddings().weight, target.device
    drafter = Drafter.load(config, reference.dtype).to(device).requires_grad_(False)
    extra = _extra(folder)
    head = extra.get("lm_head.weight", target.model.get_output_embeddings().weight).to(device, reference.dtype)
    embedding = extra.get("embed_tokens.weight", reference).to(device, reference.dtype)
    rows = torch.arange(head.shape[0], device=device)
    token_of_row = rows + extra["d2t"].to(device).long() if config.has_d2t else rows
    row_of_token = torch.full((max(target.config.vocab_size, len(embedding), len(head)),), -1, device=device)
    row_of_token[token_of_row] = rows
    mask = None
    if config.mask_embedding_file is not None:
        mask = read_mask_embedding(config.mask_embedding_file, config.mask_token_id, config.hidden_size)
        mask = mask.to(device, reference.dtype)
    return DraftWeights(drafter, embedding, head, token_of_row, row_of_token, mask, config)


def _extra(folder: Path) -> dict[str, torch.Tensor]:
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            if plain_name(name) in ("lm_head.weight", "embed_tokens.weight", "d2t"):
                found[plain_name(name)] = tensor
    return found
