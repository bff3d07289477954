# SPDX-License-Identifier: Apache-2.0
"""The target's own greedy answers, many at a time: fixed slots, refilled as answers end.

The target's Hugging Face forward runs unchanged; only its attention function is ours. It keeps keys and
values in one preallocated buffer a layer, a row a slot: slots of different lengths advance together.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import AttentionInterface

from vllm_dflash.errors import UserError

ROUND = 32
STEPS_BETWEEN_REFILLS = 16
PREFILL_ROWS = 512


class Slots:
    """Keys and values of all slots. `rows` are the slots of a prefill, None while decoding."""

    def __init__(self, count: int, length: int) -> None:
        self.count, self.length = count, length
        self.keys: dict[int, torch.Tensor] = {}
        self.values: dict[int, torch.Tensor] = {}
        self.rows: torch.Tensor | None = None
        self.positions = torch.empty(0, dtype=torch.long)
        self.visible = torch.empty(0)

    def layer(self, index: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if index not in self.keys:
            shape = (self.count, like.shape[1], self.length, like.shape[3])
            self.keys[index], self.values[index] = like.new_zeros(shape), like.new_zeros(shape)
        return self.keys[index], self.values[index]

    def look_at(self, positions: torch.Tensor, longest: int, dtype: torch.dtype) -> None:
        """Decode mode: slot i holds positions[i] tokens and its next one is about to be written."""
        width = min(-(-longest // ROUND) * ROUND, self.length)
        seen = torch.arange(width, device=positions.device) <= positions[:, None]
        self.rows, self.positions = None, positions
        self.visible = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(
            ~seen, float("-inf")
        )

    def keep(self, rows: torch.Tensor) -> None:
        self.count = len(rows)
        for store in (self.keys, self.values):
            for index in store:
                store[index] = store[index][rows]


def slots_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    slots: Slots,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query [n, Hq, T, D], key, value [n, Hkv, T, D] of new tokens -> [n, T, Hq, D]; T is 1 when decoding."""
    if sliding_window is not None and slots.length > sliding_window:
        raise UserError(
            "answers are generated with full attention", field="sliding_window", found=sliding_window,
            needed=f"at least {slots.length}, the longest prompt with its answer",
        )  # fmt: skip
    keys, values = slots.layer(module.layer_idx, key)
    if slots.rows is not None:
        keys[slots.rows, :, : key.shape[2]] = key
        values[slots.rows, :, : key.shape[2]] = value
        out = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
        return out.transpose(1, 2), None
    every = torch.arange(key.shape[0], device=key.device)
    keys[every, :, slots.positions] = key[:, :, 0]
    values[every, :, slots.positions] = value[:, :, 0]
    width = slots.visible.shape[1]
    grouped = query.view(query.shape[0], key.shape[1], -1, query.shape[3])
    mask = slots.visible[:, None, None, :].expand(-1, grouped.shape[1], grouped.shape[2], -1)
    out = F.scaled_dot_product_attention(
        grouped, keys[:, :, :width], values[:, :, :width], mask, scale=scaling
    )
    return out.reshape(query.shape).transpose(1, 2), None


AttentionInterface.register("fixed_slots", slots_attention)


@torch.no_grad()
def greedy_answers(
    model: Any,
    prompts: Sequence[Sequence[int]],
    max_new: int,
    eos: Sequence[int],
    slots: int,
    until: float | None = None,
) -> Iterator[tuple[int, list[int]]]:
    """Greedy continuation of every prompt by the target itself.

    Args:
        model: Hugging Face causal LM with the pluggable attention interface (Llama, Qwen2, Qwen3 types).
        prompts: token ids, any lengths; max_new: most new tokens; eos: ids that end an answer (kept in it).
        slots: sequences decoded together; until: stop at this time.monotonic(), leaving the rest unanswered.

    Yields:
        (prompt index, answer ids) as answers end, in no fixed order.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation("fixed_slots")
    bar = tqdm(total=len(prompts), desc="answers", unit="answer", smoothing=0.05)
    try:
        decoder = SlotDecoder(model, prompts, max_new, eos, slots)
        while until is None or time.monotonic() < until:
            for index, ids in decoder.harvest():
                bar.update()
                yield index, ids
            bar.set_postfix_str(f"{decoder.tokens / max(bar.format_dict['elapsed'], 1e-3):,.0f} tokens/s")
            decoder.refill()
            if not decoder.compact():
                break
            for _ in range(STEPS_BETWEEN_REFILLS):
                decoder.advance()
    finally:
        bar.close()
        model.set_attn_implementation(before)


class SlotDecoder:
    """A row a slot: its prompt (owner, -1 when free), tokens cached, tokens made, the answer so far, ended.

    The host looks at the device only in `harvest`, so that launches run ahead.
    """

    def __init__(
        self, model: Any, prompts: Sequence[Sequence[int]], max_new: int, eos: Sequence[int], count: int
    ) -> None:
        weight = model.get_input_embeddings().weight
        self.device, self.dtype = weight.device, weight.dtype
        self.decoder, self.head = model.get_decoder(), model.get_output_embeddings()
        self.prompts, self.max_new = prompts, max_new
        self.eos = torch.tensor(sorted(eos), device=self.device)
        self.room = max(map(len, prompts)) + max_new
        count = min(count, len(prompts))
        self.slots = Slots(count, -(-self.room // ROUND) * ROUND)
        self.owner, self.longest = [-1] * count, [0] * count
        self.cached = torch.zeros(count, dtype=torch.long, device=self.device)
        self.made = torch.zeros_like(self.cached)
        self.answers = torch.zeros(count, max_new, dtype=torch.long, device=self.device)
        self.done = torch.ones(count, dtype=torch.bool, device=self.device)
        self.waiting = iter(range(len(prompts)))
        self.tokens = 0

    def harvest(self) -> list[tuple[int, list[int]]]:
        """Answers that have ended; their slots become free."""
        ended = [i for i, flag in enumerate(self.done.tolist()) if flag and self.owner[i] >= 0]
        rows, lengths = self.answers[ended].tolist(), self.made[ended].tolist()
        found = [(self.owner[i], row[:n]) for i, row, n in zip(ended, rows, lengths, strict=True)]
        for i in ended:
            self.owner[i] = -1
        self.tokens += sum(lengths)
        return found

    def refill(self) -> None:
        """Give free slots the next prompts: prefill them and make their first token."""
        free = (i for i, owner in enumerate(self.owner) if owner < 0)
        filled = []
        for i, prompt in zip(free, self.waiting, strict=False):
            self.owner[i], self.longest[i] = prompt, len(self.prompts[prompt])
            filled.append(i)
        for start in range(0, len(filled), PREFILL_ROWS):
            self._prefill(filled[start : start + PREFILL_ROWS])

    def _prefill(self, filled: list[int]) -> None:
        texts = [self.prompts[self.owner[i]] for i in filled]
        padded = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
        for line, text in enumerate(texts):
            padded[line, : len(text)] = torch.tensor(text)
        rows = torch.tensor(filled, device=self.device)
        lengths = torch.tensor([len(text) for text in texts], device=self.device)
        self.slots.rows = rows
        hidden = self.decoder(
            input_ids=padded.to(self.device), use_cache=False, slots=self.slots
        ).last_hidden_state
        token = self.head(hidden[torch.arange(len(texts), device=self.device), lengths - 1]).argmax(-1)
        self.cached[rows], self.made[rows] = lengths, 1
        self.answers[rows, 0] = token
        self.done[rows] = torch.isin(token, self.eos) | (self.max_new == 1)

    def compact(self) -> bool:
        """Drop free slots once half of them are free; False when all are."""
        active = [i for i, owner in enumerate(self.owner) if owner >= 0]
        if active and len(active) <= self.slots.count // 2:
            kept = torch.tensor(active, device=self.device)
            self.slots.keep(kept)
            self.owner, self.longest = [self.owner[i] for i in active], [self.longest[i] for i in active]
            self.cached, self.made = self.cached[kept], self.made[kept]
            self.answers, self.done = self.answers[kept], self.done[kept]
        return bool(active)

    def advance(self) -> None:
        """One more token in every slot whose answer has not ended."""
        self.longest = [min(length + 1, self.room) for length in self.longest]
        self.slots.look_at(self.cached, max(self.longest), self.dtype)
        last = self.answers.gather(1, (self.made - 1).clamp(min=0)[:, None])
        hidden = self.decoder(
            input_ids=last, position_ids=self.cached[:, None], use_cache=False, slots=self.slots
        ).last_hidden_state
        token, live = self.head(hidden[:, 0]).argmax(-1), ~self.done
        place = self.made.clamp(max=self.max_new - 1)[:, None]
        kept = torch.where(live, token, self.answers.gather(1, place)[:, 0])
        self.answers.scatter_(1, place, kept[:, None])
        self.made += live
        self.cached += live
        self.done |= torch.isin(token, self.eos) | (self.made >= self.max_new)
