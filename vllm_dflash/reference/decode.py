# SPDX-License-Identifier: Apache-2.0
"""DFlash speculative decoding, batch 1: the oracle for the engine and the kernels (arXiv 2602.06036, section 3).

One step: draft a block from the anchor and the context's features, verify it with one target pass, keep the longest
accepted prefix plus one token of the target's own, turn the newly accepted positions' taps into context K/V.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import torch
from transformers import DynamicCache

from vllm_dflash.reference.drafter import Drafter, KeyValue
from vllm_dflash.reference.sampling import Sampler, greedy, verify_greedy, verify_sampled
from vllm_dflash.reference.target import Target
from vllm_dflash.reference.vocabulary import Vocabulary


@dataclass
class Generation:
    """tokens: what was generated, prompt excluded. drafts, accepted: of each step. drafted: draft tokens a step.

    `acceptance_histogram[i]` counts the steps that accepted exactly i draft tokens.
    """

    tokens: list[int] = field(default_factory=list)
    drafts: list[list[int]] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    drafted: int = 0

    @property
    def acceptance_length(self) -> float:
        """Accepted draft tokens + 1 a step, the mean over steps."""
        return 1 + sum(self.accepted) / max(1, len(self.accepted))

    @property
    def acceptance_histogram(self) -> list[int]:
        return [self.accepted.count(i) for i in range(self.drafted + 1)]

    @property
    def acceptance_by_position(self) -> list[float]:
        """Share of steps in which draft position i (from 0) was accepted."""
        steps = max(1, len(self.accepted))
        return [sum(a > i for a in self.accepted) / steps for i in range(self.drafted)]


class Context:
    """K/V of every draft layer for the positions that the target has confirmed."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.length = 0
        self.key_values: list[KeyValue] = []

    def extend(self, taps: torch.Tensor) -> None:
        """Append the next positions. taps: [1, N, n_taps * target_hidden]."""
        positions = torch.arange(self.length, self.length + taps.shape[1], device=taps.device)[None]
        fresh = self.drafter.context_key_value(self.drafter.fuse(taps), positions)
        if self.key_values:
            fresh = [
                (torch.cat([old[0], new[0]], 1), torch.cat([old[1], new[1]], 1))
                for old, new in zip(self.key_values, fresh, strict=True)
            ]
        self.key_values = fresh
        self.length += taps.shape[1]


def draft(drafter: Drafter, target: Target | Vocabulary, context: Context, anchor: int, k: int) -> torch.Tensor:
    """Logits [k, vocabulary] of the k mask rows behind the anchor, which stands at position context.length.

    target: gives embedding and head; a Vocabulary where the drafter has some of its own.
    """
    config = drafter.config
    device = drafter.fc.weight.device
    block = torch.tensor([[anchor] + [config.mask_token_id] * k], device=device)
    positions = torch.arange(context.length, context.length + k + 1, device=device)[None]
    anchors = torch.full_like(positions, context.length)
    visible = drafter.visibility(positions, anchors, torch.arange(context.length, device=device)[None])
    embeddings = target.embed(block).to(drafter.fc.weight.dtype) * config.embed_scale
    hidden = drafter(embeddings, positions, context.key_values, visible)
    return drafter.score(target.head(hidden[0, 1:]))


@torch.inference_mode()
def generate(
    target: Target,
    drafter: Drafter,
    prompt: Sequence[int],
    *,
    k: int,
    max_tokens: int,
    stop: Collection[int] = (),
    sampler: Sampler | None = None,
    draft_override: Callable[[list[int]], list[int]] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Generation:
    """Decode one sequence.

    Args:
        prompt: token ids.
        k: draft tokens a step.
        max_tokens: most tokens to generate; stop: token ids that end generation (the token is kept).
        sampler: None decodes greedily; else draws from its temperature distribution, exactly distributed as the
            target alone (rejection sampling with the residual distribution).
        vocabulary: embedding and head of the drafter where they are not the target's.
        draft_override: gives the draft tokens instead of the drafter (greedy only), from the sequence so far.

    Returns:
        The tokens and, for every step, how many draft tokens the target accepted (before max_tokens cuts).
    """
    out = Generation(drafted=k)
    context = Context(drafter)
    cache = DynamicCache()
    device = drafter.fc.weight.device
    logits, taps, cache = target(torch.tensor([list(prompt)], device=device), past_key_values=cache)
    context.extend(taps)
    choose = greedy if sampler is None else sampler.draw
    out.tokens.append(choose(logits[0, -1]))
    while len(out.tokens) < max_tokens and out.tokens[-1] not in stop:
        anchor = out.tokens[-1]
        draft_logits = draft(drafter, vocabulary or target, context, anchor, k)
        if sampler is None:
            proposed = draft_logits.argmax(-1).tolist()
            if draft_override is not None:
                proposed = draft_override([*prompt, *out.tokens])
        else:
            proposed = [sampler.draw(row) for row in draft_logits]
        logits, taps, cache = target(torch.tensor([[anchor, *proposed]], device=device), past_key_values=cache)
        if sampler is None:
            accepted, following = verify_greedy(proposed, logits[0])
        else:
            accepted, following = verify_sampled(proposed, draft_logits, logits[0], sampler)
        if accepted < k:
            cache.crop(accepted - k)
        context.extend(taps[:, : accepted + 1])
        out.drafts.append(proposed)
        out.accepted.append(accepted)
        for token in [*proposed[:accepted], following]:
            out.tokens.append(token)
            if token in stop or len(out.tokens) == max_tokens:
                break
    return out
