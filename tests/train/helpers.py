# SPDX-License-Identifier: Apache-2.0
"""Drafting as a server does it: one request, one block, nothing batched."""

import torch

from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.train.dflash import DFlashMethod
from vllm_dflash.train.draft_shape import write_draft_config
from vllm_dflash.train.mtp import MtpMethod
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.target_model import FrozenTarget

MASK = 4


def method(options: TrainOptions, target: FrozenTarget) -> DFlashMethod:
    options.out.mkdir(exist_ok=True)
    return DFlashMethod(write_draft_config(options, target.shape, MASK, options.out), target, options)


def block_alone(drafter: Drafter, made: DFlashMethod, tokens: torch.Tensor, anchor: int) -> torch.Tensor:
    """Hidden states of one block; the target is run on tokens before the anchor only. [block, hidden]."""
    block = made.config.block_size
    context = torch.arange(anchor)[None]
    taps, _ = made.features(tokens[None, :anchor])
    positions, anchor_of = anchor + torch.arange(block)[None], torch.full((1, block), anchor)
    ids = torch.tensor([[int(tokens[anchor])] + [made.config.mask_token_id] * (block - 1)])
    return drafter(
        made.target.embed(ids),
        positions,
        drafter.context_key_value(drafter.fuse(taps), context),
        drafter.visibility(positions, anchor_of, context),
    )[0]


def draft_one_by_one(made: MtpMethod, tokens: torch.Tensor, anchor: int, steps: int) -> list[int]:
    """Drafts after tokens[: anchor + 1], as a server makes them: the target has seen tokens[:anchor]."""
    layer = made.module
    residual = made.residual(tokens[None, :anchor])
    embeddings = made.target.embed(tokens[None, 1 : anchor + 1])
    seen = torch.ones(anchor, anchor, dtype=torch.bool).tril()[None]
    hidden, cache = layer(embeddings, torch.arange(anchor)[None], residual, [], seen)
    previous, drafts = hidden[:, -1:], []
    for step in range(steps):
        drafts.append(int(made.target.head(previous[0, 0]).argmax()))
        if step == steps - 1:
            break
        position = torch.tensor([[anchor + step]])
        everything = torch.ones(1, 1, cache[0].shape[1] + 1, dtype=torch.bool)
        embeddings = made.target.embed(torch.tensor([drafts[-1:]]))
        previous, new = layer(embeddings, position, previous, [cache], everything)
        cache = (torch.cat([cache[0], new[0]], 1), torch.cat([cache[1], new[1]], 1))
    return drafts
