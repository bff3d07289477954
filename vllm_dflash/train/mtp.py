# SPDX-License-Identifier: Apache-2.0
"""Training an MTP head: every position drafts, unrolled as many steps as it will be asked for."""

import copy
from pathlib import Path
from typing import Any

import torch

from vllm_dflash.reference.target import Target
from vllm_dflash.train.batches import Batch, to_device
from vllm_dflash.train.export import save_weights
from vllm_dflash.train.method import StepResult, autocast, initialise, supervised_loss, top1
from vllm_dflash.train.mtp_layer import KeyValue, MtpLayer, step_visibility
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.target_model import FrozenTarget

PREFIX = "model.mtp_layers.0."


class MtpMethod:
    """Row t of a batch drafts for the anchor p = t + 1, the newest token that the target has not seen yet."""

    name = "mtp"

    def __init__(self, target: FrozenTarget, options: TrainOptions, rows: Any = None) -> None:
        self.frozen, self.options, self.rows = target, options, rows
        self.target = Target(target.model, (target.shape.layers - 1,))
        torch.manual_seed(options.seed)
        self.module = MtpLayer(target.shape)
        self.module.apply(initialise)
        self.module.final_layernorm.weight.data.copy_(self.target.final_norm_module.weight)
        self.module.to(target.device)
        self.draft_tokens = options.unroll
        self._serving: MtpLayer | None = None

    def residual(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens [B, S] -> the target's residual stream before its final norm, [B, S, hidden]."""
        with torch.no_grad():
            return self.target(tokens, logits_to_keep=1, use_cache=False)[1]

    def unroll(
        self, layer: MtpLayer, tokens: torch.Tensor, residual: torch.Tensor, teach: bool
    ) -> torch.Tensor:
        """Normed hidden states [B, S, K, hidden]; later steps read true tokens (teach) or own drafts."""
        width, dtype = tokens.shape[1], layer.final_layernorm.weight.dtype
        place = torch.arange(width, device=tokens.device).expand(tokens.shape)
        newest, previous = tokens.roll(-1, 1), residual.to(dtype)
        earlier: list[KeyValue] = []
        outputs = []
        for step in range(1, self.draft_tokens + 1):
            visible = step_visibility(step, width, tokens.device)
            embeddings = self.target.embed(newest).to(dtype)
            previous, key_value = layer(embeddings, place + step - 1, previous, earlier, visible)
            earlier.append(key_value)
            outputs.append(previous)
            if teach:
                newest = tokens.roll(-step - 1, 1)
            else:
                newest = top1(previous.flatten(0, 1), self.frozen.head_weight).view(tokens.shape)
        return torch.stack(outputs, dim=2)

    def step(self, batch: Batch, step: int) -> StepResult:
        self._serving = None
        width = batch.tokens.shape[1]
        ahead = torch.arange(width)[:, None] + 1 + torch.arange(1, self.draft_tokens + 1)
        labels = batch.tokens[:, ahead.clamp(max=width - 1)]
        asked = torch.arange(width) + 1 >= batch.prompt_lengths[:, None] - 1
        supervised = asked[..., None] & (ahead < batch.lengths[:, None, None])
        tokens = to_device(batch.tokens, self.frozen.device)
        residual = self.residual(tokens)
        with autocast(self.frozen.device):
            hidden = self.unroll(self.module, tokens, residual, teach=True)
        teacher = None
        if self.options.loss_target == "kl":
            states = self.target.final_norm_module(residual)
            sequence = torch.arange(len(labels))[:, None, None].expand(labels.shape)
            before = (ahead - 1).expand(labels.shape)
            teacher = states[sequence[supervised].to(tokens.device), before[supervised].to(tokens.device)]
        return supervised_loss(
            hidden.flatten(0, 1),
            labels.flatten(0, 1),
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
        tokens = batch.tokens.to(self.frozen.device)
        hidden = self.unroll(self._serving, tokens, self.residual(tokens), teach=False)
        out = top1(hidden.flatten(0, 2), self.frozen.head_weight).view(hidden.shape[:-1])
        return out.roll(1, 1).cpu()

    def save(self, out: Path) -> None:
        save_weights(self.module, out / "model.safetensors", PREFIX)

    def describe(self) -> dict[str, Any]:
        return {
            "layers": "one Qwen2 layer, causal, q/k/v bias",
            "unrolled_steps": self.draft_tokens,
            "parameters": sum(p.numel() for p in self.module.parameters()),
        }
