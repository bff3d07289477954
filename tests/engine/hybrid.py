# SPDX-License-Identifier: Apache-2.0
"""What the reference drafts along the tokens that an engine on a recurrent target produced.

A recurrent state cannot be cropped, so `reference.decode.generate` does not serve such a target. Its taps at a position
depend on earlier tokens only, so one pass over prompt and output gives the features of every step.
"""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.reference.decode import Context, draft
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target

HERE = Path(__file__).parent


def accepted(drafted: Sequence[int], following: Sequence[int]) -> int:
    """Leading draft tokens that the engine's output confirms."""
    count = 0
    for ours, theirs in zip(drafted, following, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


@torch.inference_mode()
def reference_logits(
    target_folder: Path, drafter_folder: Path, prompt: list[int], tokens: list[int], drafts: list[list[int]]
) -> list[torch.Tensor]:
    """The reference drafter's logits [k, vocabulary] at each step of an engine, in fp32 from its bf16 weights."""
    config = load_draft_config(drafter_folder)
    model = AutoModelForCausalLM.from_pretrained(target_folder, dtype=torch.float32)
    target, drafter = Target(model, config.tap_layer_ids), Drafter.load(config)
    _, taps, _ = target(torch.tensor([[*prompt, *tokens]]))
    context, done, logits = Context(drafter), 0, []
    for proposed in drafts:
        if done >= len(tokens):
            break
        context.extend(taps[:, context.length : len(prompt) + done])
        logits.append(draft(drafter, target, context, tokens[done], len(proposed)).float())
        done += 1 + accepted(proposed, tokens[done + 1 :])
    return logits


def gaps(logits: list[torch.Tensor], drafts: list[list[int]]) -> list[list[float]]:
    """For each draft token of each step: how far its logit is below that of the reference's choice."""
    return [
        (rows.max(1).values - rows.gather(1, torch.tensor(proposed)[:, None])[:, 0]).tolist()
        for rows, proposed in zip(logits, drafts, strict=False)
    ]


def disagreements(logits: list[torch.Tensor], drafts: list[list[int]], slack: float) -> int:
    """Draft tokens that are not the reference's choice by more than `slack` (in logits)."""
    return sum(gap > slack for step in gaps(logits, drafts) for gap in step)


@torch.inference_mode()
def target_gap(target_folder: Path, prompt: list[int], tokens: list[int], other: list[int]) -> float:
    """How far apart (in logits) the target holds the first two tokens that differ; 0 where none does."""
    at = next((i for i, (a, b) in enumerate(zip(tokens, other, strict=True)) if a != b), None)
    if at is None:
        return 0.0
    model = AutoModelForCausalLM.from_pretrained(target_folder, dtype=torch.float32)
    row = model(torch.tensor([[*prompt, *tokens[:at]]])).logits[0, -1].float()
    return float((row[tokens[at]] - row[other[at]]).abs())


def engine_path(runner: str) -> dict[str, str]:
    """Environment of an engine on the CPU: torchvision's names, and on V2 Triton's interpreter."""
    if find_spec("torchvision") is not None:
        return {}
    folders = [HERE / "torchvision_cpu", *([HERE / "triton_cpu"] if runner == "V2" else [])]
    return {"PYTHONPATH": ":".join([*map(str, folders), os.environ.get("PYTHONPATH", "")])}
