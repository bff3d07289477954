# SPDX-License-Identifier: Apache-2.0
"""Training a DFlash drafter: many blocks of a sequence side by side, each seeing what it sees when served."""

import copy
from pathlib import Path
from typing import Any

import torch

from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target
from vllm_dflash.train.batches import Batch, draw_anchors, to_device
from vllm_dflash.train.export import save_weights
from vllm_dflash.train.method import StepResult, autocast, initialise, supervised_loss, top1
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.target_model import FrozenTarget

ANCHORS_AT_ONCE = 64


def block_rows(anchors: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row positions and the anchor of each row: [B, N] -> two of [B, N * block]."""
    positions = anchors[..., None] + torch.arange(block, device=anchors.device)
    return positions.flatten(1), anchors.repeat_interleave(block, dim=1)


def block_tokens(tokens: torch.Tensor, anchors: torch.Tensor, block: int, mask_token: int) -> torch.Tensor:
    """Input ids of the rows, [B, N * block]: the true token at each anchor, then masks."""
    rows = torch.full((*anchors.shape, block), mask_token, device=tokens.device)
    rows[..., 0] = tokens.gather(1, anchors)
    return rows.flatten(1)


class DFlashMethod:
    name = "dflash"

    def __init__(
        self, config: DraftConfig, target: FrozenTarget, options: TrainOptions, rows: Any = None
    ) -> None:
        self.config, self.frozen, self.options, self.rows = config, target, options, rows
        last = (target.shape.layers - 1,) if options.loss_target == "kl" else ()
        self.target = Target(target.model, config.tap_layer_ids + last)
        torch.manual_seed(options.seed)
        self.module = Drafter(config)
        self.module.apply(initialise)
        self.module.norm.weight.data.copy_(self.target.final_norm_module.weight)
        self.module.to(target.device)
        self.draft_tokens = config.block_size - 1
        self._serving: Drafter | None = None

    def features(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """tokens [B, S] -> taps [B, S, n_taps * hidden]; for KL also the last hidden states, normed."""
        with torch.no_grad():
            taps = self.target(tokens, logits_to_keep=1, use_cache=False)[1]
            if self.options.loss_target == "ce":
                return taps, None
            hidden = self.frozen.shape.hidden
            return taps[..., :-hidden], self.target.final_norm_module(taps[..., -hidden:])

    def hidden(
        self, drafter: Drafter, tokens: torch.Tensor, taps: torch.Tensor, anchors: torch.Tensor
    ) -> torch.Tensor:
        """Normed hidden states of all rows, [B, N, block, hidden]; anchors [B, N], distinct in a sequence."""
        place = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
        positions, anchor_of = block_rows(anchors, self.config.block_size)
        visible = drafter.visibility(positions, anchor_of, place)
        rows = block_tokens(tokens, anchors, self.config.block_size, self.config.mask_token_id)
        embeddings = self.target.embed(rows).to(drafter.norm.weight.dtype) * self.config.embed_scale
        context = drafter.context_key_value(drafter.fuse(taps.to(drafter.norm.weight.dtype)), place)
        out = drafter(embeddings, positions, context, visible)
        return out.unflatten(1, (anchors.shape[1], self.config.block_size))

    def step(self, batch: Batch, step: int) -> StepResult:
        self._serving = None
        anchors, valid = draw_anchors(batch, self.options.anchors, self.options.seed, step)
        ahead = anchors[..., None] + torch.arange(1, self.config.block_size)
        supervised = valid[..., None] & (ahead < batch.lengths[:, None, None])
        labels = batch.tokens.gather(1, ahead.clamp(max=batch.tokens.shape[1] - 1).flatten(1))
        device = self.frozen.device
        tokens = to_device(batch.tokens, device)
        taps, states = self.features(tokens)
        teacher = None
        if states is not None:
            sequence = torch.arange(len(ahead))[:, None, None].expand(ahead.shape)
            teacher = states[sequence[supervised].to(device), (ahead[supervised] - 1).to(device)]
        with autocast(device):
            hidden = self.hidden(self.module, tokens, taps, to_device(anchors, device))
        return supervised_loss(
            hidden[:, :, 1:].flatten(0, 1),
            labels.view(-1, self.draft_tokens),
            supervised.flatten(0, 1),
            self.frozen.head_weight,
            self.options,
            teacher,
            self.rows,
        )

    @torch.no_grad()
    def drafts(self, batch: Batch) -> torch.Tensor:
        if self._serving is None:
            self._serving = copy.deepcopy(self.module).to(self.frozen.head_weight.dtype).eval()
        device, width = self.frozen.device, batch.tokens.shape[1]
        tokens = batch.tokens.to(device)
        taps, _ = self.features(tokens)
        out = torch.zeros(*tokens.shape, self.draft_tokens, dtype=torch.long, device=device)
        for start in range(int(batch.prompt_lengths.min()) - 1, width, ANCHORS_AT_ONCE):
            here = torch.arange(start, min(start + ANCHORS_AT_ONCE, width), device=device)
            hidden = self.hidden(self._serving, tokens, taps, here.expand(len(tokens), -1))[:, :, 1:]
            out[:, here] = top1(hidden.flatten(0, 2), self.frozen.head_weight).view(hidden.shape[:-1])
        return out.cpu()

    def save(self, out: Path) -> None:
        save_weights(self.module, out / "model.safetensors")

    def describe(self) -> dict[str, Any]:
        return {
            "layers": self.config.describe_layers(),
            "taps": list(self.config.tap_layer_ids),
            "block_size": self.config.block_size,
            "mask_token_id": self.config.mask_token_id,
            "parameters": sum(p.numel() for p in self.module.parameters()),
        }
