# SPDX-License-Identifier: Apache-2.0
"""One multi-token-prediction layer, computed as vLLM's MiMo MTP computes it.

Parameters are named as in a MiMo checkpoint below `model.mtp_layers.0.`. Embedding and head are the target's.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from vllm_dflash.reference.attention import attention
from vllm_dflash.reference.drafter import RMSNorm
from vllm_dflash.reference.rope import inverse_frequencies, rotate
from vllm_dflash.train.target_model import TargetShape

KeyValue = tuple[torch.Tensor, torch.Tensor]


class MtpAttention(nn.Module):
    """Qwen2 attention: biases on q, k and v, none on the output, no head norms."""

    frequencies: torch.Tensor

    def __init__(self, shape: TargetShape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = shape.heads, shape.kv_heads, shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, self.heads * self.head_dim)
        self.k_proj = nn.Linear(shape.hidden, self.kv_heads * self.head_dim)
        self.v_proj = nn.Linear(shape.hidden, self.kv_heads * self.head_dim)
        self.o_proj = nn.Linear(self.heads * self.head_dim, shape.hidden, bias=False)
        frequencies, self.rope_factor = inverse_frequencies(shape.rope, shape.max_positions)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, earlier: Sequence[KeyValue], visible: torch.Tensor
    ) -> tuple[torch.Tensor, KeyValue]:
        query = self._turned(self.q_proj(x), self.heads, positions)
        key = self._turned(self.k_proj(x), self.kv_heads, positions)
        value = self.v_proj(x).unflatten(-1, (self.kv_heads, self.head_dim))
        keys = torch.cat([*(k for k, _ in earlier), key], dim=1)
        values = torch.cat([*(v for _, v in earlier), value], dim=1)
        out = attention(query, keys, values, visible, self.head_dim**-0.5)
        return self.o_proj(out.flatten(-2)), (key, value)

    def _turned(self, x: torch.Tensor, heads: int, positions: torch.Tensor) -> torch.Tensor:
        return rotate(x.unflatten(-1, (heads, self.head_dim)), positions, self.frequencies, self.rope_factor)


class MtpMLP(nn.Module):
    def __init__(self, shape: TargetShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.down_proj = nn.Linear(shape.mlp, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class MtpLayer(nn.Module):
    def __init__(self, shape: TargetShape) -> None:
        super().__init__()
        hidden, eps = shape.hidden, shape.norm_eps
        self.token_layernorm = RMSNorm(hidden, eps)
        self.hidden_layernorm = RMSNorm(hidden, eps)
        self.input_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.input_layernorm = RMSNorm(hidden, eps)
        self.self_attn = MtpAttention(shape)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = MtpMLP(shape)
        self.final_layernorm = RMSNorm(hidden, eps)

    def forward(
        self,
        embeddings: torch.Tensor,
        positions: torch.Tensor,
        previous: torch.Tensor,
        earlier: Sequence[KeyValue],
        visible: torch.Tensor,
    ) -> tuple[torch.Tensor, KeyValue]:
        """One draft step at every position.

        Args:
            embeddings: [B, S, hidden] of the newest token; zeroed where positions == 0.
            positions: [B, S] of the query: t in the first step, one more in each later step.
            previous: [B, S, hidden], in the first step the target's residual stream before its final norm at
                t, later this layer's own output.
            earlier: key and value [B, S, kv_heads, head_dim] of the steps before this one.
            visible: [1, S, (1 + len(earlier)) * S] bool, see `step_visibility`.

        Returns:
            [B, S, hidden] after final_layernorm, ready for the head; this step's key and value.
        """
        embeddings = embeddings * (positions != 0)[..., None]
        x = self.input_proj(
            torch.cat([self.hidden_layernorm(previous), self.token_layernorm(embeddings)], dim=-1)
        )
        attended, key_value = self.self_attn(self.input_layernorm(x), positions, earlier, visible)
        x = x + attended
        x = x + self.mlp(self.post_attention_layernorm(x))
        return self.final_layernorm(x), key_value


def step_visibility(step: int, width: int, device: torch.device) -> torch.Tensor:
    """Keys that the query of draft step `step` (from 1) sees, [1, S, step * S] bool.

    The query that started at position t sees the first step's keys up to t and, of each later step, only the
    key that its own draft left: in the served KV cache those stand at t + 1, t + 2, ...
    """
    first = torch.ones(width, width, dtype=torch.bool, device=device).tril()
    own = torch.eye(width, dtype=torch.bool, device=device)
    return torch.cat([first] + [own] * (step - 1), dim=1)[None]
