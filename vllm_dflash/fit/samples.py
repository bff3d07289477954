# SPDX-License-Identifier: Apache-2.0
"""What the target says to some prompts, and the outputs of all its layers along the way, made once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from vllm_dflash.errors import UserError
from vllm_dflash.fit.loaded_target import LoadedTarget
from vllm_dflash.reference.target import Target
from vllm_dflash.train.generate import greedy_answers
from vllm_dflash.train.prompts import Prompt, heldout, read_jsonl

SLOT_FAMILIES = ("llama", "qwen2", "qwen3")  # greedy_answers runs these; others are decoded one by one
FLOAT32_BYTES = 2 * 2**30


@dataclass
class Samples:
    """Sequences of prompt and greedy answer.

    tokens: int64 [length] each; prompt_lengths: of each.
    features: of each, a layer's output [length, hidden] by its id, before any final norm; float32, or bfloat16 when
        all of them would take more than FLOAT32_BYTES.
    """

    tokens: list[torch.Tensor]
    prompt_lengths: list[int]
    features: list[dict[int, torch.Tensor]]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def feature_bytes(self) -> int:
        return sum(one.nbytes for layers in self.features for one in layers.values())

    @property
    def longest_context(self) -> int:
        """Most context positions that any drafted row can look back on."""
        return max(len(one) for one in self.tokens) - 1


def read_prompts(count: int, file: Path | None) -> list[Prompt]:
    """The first `count` prompts of a JSONL file, or that many built-in held-out ones.

    Raises UserError as `train.prompts.read_jsonl` does.
    """
    return heldout(count, 0) if file is None else read_jsonl(file)[:count]


def encode_prompts(prompts: Sequence[Prompt], target: LoadedTarget, answer_tokens: int) -> list[list[int]]:
    """Token ids in the target's chat template, or of the bare text when it has none.

    Raises UserError for a prompt that the template refuses, and for one that leaves no room for an answer.
    """
    positions = target.config.max_position_embeddings
    encoded = []
    for number, one in enumerate(prompts, 1):
        chat = [dict(turn) for turn in one.messages] or [{"role": "user", "content": one.prompt}]
        text = "\n".join(str(turn["content"]) for turn in chat)
        if getattr(target.tokenizer, "chat_template", None):
            try:
                text = target.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
            except Exception as error:  # a template is a program: it may raise anything
                raise UserError(f"prompt {number} does not fit the chat template ({error})") from None
            ids = target.tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            ids = target.tokenizer(text)["input_ids"]
        if not ids or (positions is not None and len(ids) + answer_tokens > positions):
            needed = f"1 to {positions - answer_tokens}" if positions is not None else "at least 1"
            raise UserError(f"prompt {number} has the wrong length", field="tokens", found=len(ids), needed=needed)
        encoded.append(list(ids))
    return encoded


@torch.no_grad()
def answer_prompts(target: LoadedTarget, prompts: Sequence[Sequence[int]], answer_tokens: int) -> list[list[int]]:
    """The target's greedy continuation of each prompt, at most `answer_tokens` ids, its end token included."""
    if target.config.model_type in SLOT_FAMILIES:
        found = dict(greedy_answers(target.model, prompts, answer_tokens, target.eos, slots=32))
        return [found[i] for i in range(len(prompts))]
    answers = []
    for prompt in tqdm(prompts, desc="answers", unit="answer"):
        ids = torch.tensor([list(prompt)], device=target.device)
        out = target.model.generate(ids, max_new_tokens=answer_tokens, do_sample=False, eos_token_id=list(target.eos))
        answers.append(out[0, len(prompt) :].tolist())
    return answers


@torch.no_grad()
def trace(
    target: LoadedTarget,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    taps: Sequence[int] | None = None,
) -> Samples:
    """Run the target once over each prompt and answer and keep the outputs of the layers in `taps`; None: of all.

    Sequences whose answer has fewer than two tokens have nothing to draft and are left out. Raises UserError when
    none is left.
    """
    kept = sorted(set(range(target.config.num_hidden_layers) if taps is None else taps))
    layers, hidden = len(kept), target.config.hidden_size
    whole = [([*p, *a], len(p)) for p, a in zip(prompts, answers, strict=True) if len(a) > 1]
    if not whole:
        raise UserError("the target answers none of the prompts with two tokens or more", needed="other prompts")
    size = 4 * layers * hidden * sum(len(ids) for ids, _ in whole)
    dtype = torch.float32 if size <= FLOAT32_BYTES else torch.bfloat16
    tapped = Target(target.model, kept)
    features = []
    for ids, _ in tqdm(whole, desc="target features", unit="answer"):
        found = tapped(torch.tensor([ids], device=target.device), logits_to_keep=1, use_cache=False)[1]
        outputs = found[0].unflatten(-1, (layers, hidden)).transpose(0, 1).to(dtype).contiguous()
        features.append(dict(zip(kept, outputs, strict=True)))
    return Samples([torch.tensor(ids) for ids, _ in whole], [length for _, length in whole], features)
