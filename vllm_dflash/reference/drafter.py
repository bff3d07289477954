# SPDX-License-Identifier: Apache-2.0
"""The DFlash draft model in plain torch (arXiv 2602.06036, Qwen3-type layers of the released drafters)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from transformers.activations import ACT2FN

from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.reference.attention import attention, visible_block, visible_context
from vllm_dflash.reference.rope import inverse_frequencies, rotate

KeyValue = tuple[torch.Tensor, torch.Tensor]


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed.to(x.dtype) * self.weight


class Attention(nn.Module):
    """Queries from the block; keys and values from the context features and from the block."""

    frequencies: torch.Tensor

    def __init__(self, config: DraftConfig, index: int) -> None:
        super().__init__()
        self.rule, self.value_scale = config.layers[index], config.value_scale
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        bias, hidden = config.attention_bias, config.hidden_size
        self.q_proj = nn.Linear(hidden, self.heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.head_dim, hidden, bias=bias)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.attention_sink_bias = nn.Parameter(torch.zeros(self.heads)) if config.attention_sinks else None
        frequencies, self.rope_factor = inverse_frequencies(
            self.rule.rope, config.max_position_embeddings, self.head_dim
        )
        self.register_buffer("frequencies", frequencies, persistent=False)

    def _heads(self, x: torch.Tensor, count: int) -> torch.Tensor:
        return x.unflatten(-1, (count, self.head_dim))

    def _rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return rotate(x, positions, self.frequencies, self.rope_factor, self.rule.rope.is_neox_style)

    def key_value(self, x: torch.Tensor, positions: torch.Tensor) -> KeyValue:
        """x [B, N, hidden], positions [B, N] -> key, value [B, N, kv_heads, head_dim]; key normed and rotated."""
        key = self.k_norm(self._heads(self.k_proj(x), self.kv_heads))
        value = self._heads(self.v_proj(x), self.kv_heads) * self.value_scale
        return self._rotate(key, positions), value

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, context: KeyValue, visible: torch.Tensor
    ) -> torch.Tensor:
        query = self._rotate(self.q_norm(self._heads(self.q_proj(x), self.heads)), positions)
        key, value = (torch.cat(pair, dim=1) for pair in zip(context, self.key_value(x, positions), strict=True))
        out = attention(query, key, value, visible, self.head_dim**-0.5, self.attention_sink_bias)
        return self.o_proj(out.flatten(-2))


class MLP(nn.Module):
    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.activation = ACT2FN[config.hidden_act]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: DraftConfig, index: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, index)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, context: KeyValue, visible: torch.Tensor
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), positions, context, visible)
        return x + self.mlp(self.post_attention_layernorm(x))


class Drafter(nn.Module):
    """Parameter names are those of the released checkpoints (native format). Embedding and head are the target's."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(config.tap_layer_ids) * config.target_hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers: Any = nn.ModuleList(Layer(config, i) for i in range(len(config.layers)))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def fuse(self, taps: torch.Tensor) -> torch.Tensor:
        """Concatenated taps [..., n_taps * target_hidden] -> context features [..., hidden]."""
        return self.hidden_norm(self.fc(taps))

    def context_key_value(self, features: torch.Tensor, positions: torch.Tensor) -> list[KeyValue]:
        """features [B, S, hidden], positions [B, S] -> per layer (key, value) [B, S, kv_heads, head_dim]."""
        return [layer.self_attn.key_value(features, positions) for layer in self.layers]

    def visibility(
        self, row_positions: torch.Tensor, anchor_positions: torch.Tensor, context_positions: torch.Tensor
    ) -> list[torch.Tensor]:
        """Per layer [B, R, S + R] bool: which context keys and block rows each row sees (see reference.attention)."""
        return [
            torch.cat(
                [
                    visible_context(row_positions, anchor_positions, context_positions, rule),
                    visible_block(row_positions, anchor_positions, rule),
                ],
                dim=-1,
            )
            for rule in self.config.layers
        ]

    def score(self, logits: torch.Tensor) -> torch.Tensor:
        """What the head says, with the drafter's own scale and soft cap: [..., vocabulary], same shape."""
        logits = logits * self.config.logit_scale
        cap = self.config.logit_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def forward(
        self,
        embeddings: torch.Tensor,
        positions: torch.Tensor,
        context: Sequence[KeyValue],
        visible: Sequence[torch.Tensor],
    ) -> torch.Tensor:
        """Hidden states of the block rows, ready for the head.

        Args:
            embeddings: [B, R, hidden], anchor and mask embeddings, times `config.embed_scale`.
            positions: [B, R] integer.
            context: per layer, from `context_key_value`.
            visible: per layer, from `visibility`.

        Returns:
            [B, R, hidden], after the final norm.
        """
        x = embeddings
        for layer, key_value, seen in zip(self.layers, context, visible, strict=True):
            x = layer(x, positions, key_value, seen)
        return self.norm(x)

    @classmethod
    def load(cls, config: DraftConfig, dtype: torch.dtype = torch.float32) -> "Drafter":
        """Read the weights beside `config.path`; own heads and vocabulary maps are left to the caller."""
        drafter = cls(config)
        weights: dict[str, torch.Tensor] = {}
        for file in sorted(Path(config.path).glob("*.safetensors")):
            weights |= load_file(file)
        wanted = drafter.state_dict().keys()
        drafter.load_state_dict(
            {n.removeprefix("model."): w for n, w in weights.items() if n.removeprefix("model.") in wanted}
        )
        return drafter.to(dtype).eval()
