# SPDX-License-Identifier: Apache-2.0
"""Which keys a block row sees. The only statement of the attention rule in code; everything is tested against it."""

import torch
import torch.nn.functional as F

from vllm_dflash.checkpoint import DraftLayer


def visible_context(
    row_positions: torch.Tensor,
    anchor_positions: torch.Tensor,
    context_positions: torch.Tensor,
    layer: DraftLayer,
) -> torch.Tensor:
    """Context keys that each row sees: c < anchor and, in a windowed layer, p - c < window.

    Args:
        row_positions: [..., R] integer, position p of each row.
        anchor_positions: [..., R] integer, position of the anchor of the row's own block.
        context_positions: [..., S] integer, position c of each context key.

    Returns:
        [..., R, S] bool.
    """
    c = context_positions[..., None, :]
    seen = c < anchor_positions[..., :, None]
    if layer.window is not None:
        seen = seen & (row_positions[..., :, None] - c < layer.window)
    return seen


def visible_block(row_positions: torch.Tensor, anchor_positions: torch.Tensor, layer: DraftLayer) -> torch.Tensor:
    """Rows that each row sees: those of its own block; up to itself if causal, else within the window both ways.

    Args:
        row_positions: [..., R] integer.
        anchor_positions: [..., R] integer; rows with equal anchors form one block.

    Returns:
        [..., R, R] bool, query row first.
    """
    p, q = row_positions[..., :, None], row_positions[..., None, :]
    seen = anchor_positions[..., :, None] == anchor_positions[..., None, :]
    if layer.causal:
        seen = seen & (q <= p)
    if layer.window is not None:
        seen = seen & ((p - q).abs() < layer.window)
    return seen


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    visible: torch.Tensor,
    scale: float,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Softmax attention under a boolean mask, grouped-query, in the inputs' dtype.

    Args:
        query: [B, R, Hq, D]; key, value: [B, S, Hkv, D]; Hq a multiple of Hkv.
        visible: [B, R, S] bool; every row must see at least one key unless there are sinks.
        sinks: [Hq] logits of a key that every row sees and whose value is zero, or None.

    Returns:
        [B, R, Hq, D].
    """
    groups = query.shape[2] // key.shape[2]
    q = query.transpose(1, 2)
    k = key.transpose(1, 2).repeat_interleave(groups, dim=1)
    v = value.transpose(1, 2).repeat_interleave(groups, dim=1)
    if sinks is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible[:, None], scale=scale).transpose(1, 2)
    scores = (q.float() @ k.float().transpose(-1, -2)) * scale
    scores = scores.masked_fill(~visible[:, None], float("-inf"))
    sink = sinks.float().view(1, -1, 1, 1).expand(scores.shape[0], -1, scores.shape[2], 1)
    weights = torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1]
    return (weights.to(v.dtype) @ v).transpose(1, 2)
