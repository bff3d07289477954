# SPDX-License-Identifier: Apache-2.0
"""The target's own greedy answers, many at a time: fixed slots, refilled as answers end.

The target's Hugging Face forward runs unchanged; only its attention function is ours. It keeps keys and values in
one preallocated buffer a layer, a row a slot, so that slots of different lengths advance together.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import AttentionInterface

ROUND = 32
STEPS_BETWEEN_REFILLS = 16


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
        self.visible = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))

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
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query [n, Hq, T, D], key and value [n, Hkv, T, D] of the new tokens -> [n, T, Hq, D]. T is 1 when decoding."""
    keys, values = slots.layer(module.layer_idx, key)
    if slots.rows is not None:
        keys[slots.rows, :, : key.shape[2]] = key
        values[slots.rows, :, : key.shape[2]] = value
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=True)
        return out.transpose(1, 2), None
    every = torch.arange(key.shape[0], device=key.device)
    keys[every, :, slots.positions] = key[:, :, 0]
    values[every, :, slots.positions] = value[:, :, 0]
    width = slots.visible.shape[1]
    grouped = query.view(query.shape[0], key.shape[1], -1, query.shape[3])
    mask = slots.visible[:, None, None, :].expand(-1, grouped.shape[1], grouped.shape[2], -1)
    out = F.scaled_dot_product_attention(grouped, keys[:, :, :width], values[:, :, :width], mask, scale=scaling)
    return out.reshape(query.shape).transpose(1, 2), None


AttentionInterface.register("fixed_slots", slots_attention)


@torch.no_grad()
def greedy_answers(
    model: Any, prompts: Sequence[Sequence[int]], max_new: int, eos: Sequence[int], slots: int
) -> Iterator[tuple[int, list[int]]]:
    """Greedy continuation of every prompt by the target itself.

    Args:
        model: Hugging Face causal LM with the pluggable attention interface (Llama, Qwen2, Qwen3 types).
        prompts: token ids, any lengths; max_new: most new tokens; eos: ids that end an answer (kept in it).
        slots: sequences decoded together.

    Yields:
        (prompt index, answer ids) as answers end, in no fixed order.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation("fixed_slots")
    try:
        yield from _decode(model, prompts, max_new, torch.tensor(sorted(eos)), slots)
    finally:
        model.set_attn_implementation(before)


def _decode(
    model: Any, prompts: Sequence[Sequence[int]], max_new: int, eos: torch.Tensor, count: int
) -> Iterator[tuple[int, list[int]]]:
    weight = model.get_input_embeddings().weight
    device, dtype = weight.device, weight.dtype
    decoder, head, eos = model.get_decoder(), model.get_output_embeddings(), eos.to(device)
    count = min(count, len(prompts))
    room = max(map(len, prompts)) + max_new
    slots = Slots(count, -(-room // ROUND) * ROUND)
    owner = [-1] * count
    longest = [0] * count
    cached = torch.zeros(count, dtype=torch.long, device=device)
    made = torch.zeros(count, dtype=torch.long, device=device)
    answers = torch.zeros(count, max_new, dtype=torch.long, device=device)
    done = torch.ones(count, dtype=torch.bool, device=device)
    waiting = iter(range(len(prompts)))
    tokens, bar = 0, tqdm(total=len(prompts), desc="answers", unit="answer", smoothing=0.05)

    def record(rows: torch.Tensor, next_token: torch.Tensor) -> None:
        answers[rows, made[rows].clamp(max=max_new - 1)] = next_token
        made[rows] += 1
        done[rows] = torch.isin(next_token, eos) | (made[rows] >= max_new)

    while True:
        ended = done.tolist()
        harvest = [i for i, flag in enumerate(ended) if flag and owner[i] >= 0]
        for i, row, length in zip(harvest, answers[harvest].tolist(), made[harvest].tolist(), strict=True):
            yield owner[i], row[:length]
            tokens += length
            owner[i] = -1
        bar.update(len(harvest))
        bar.set_postfix_str(f"{tokens / max(bar.format_dict['elapsed'], 1e-3):,.0f} tokens/s")
        filled = []
        for i in (i for i, one in enumerate(owner) if one < 0):
            if (prompt := next(waiting, None)) is None:
                break
            owner[i], longest[i] = prompt, len(prompts[prompt])
            filled.append(i)
        for start in range(0, len(filled), 512):
            rows = torch.tensor(filled[start : start + 512], device=device)
            texts = [prompts[owner[i]] for i in filled[start : start + 512]]
            lengths = torch.tensor([len(text) for text in texts], device=device)
            padded = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
            for line, text in enumerate(texts):
                padded[line, : len(text)] = torch.tensor(text)
            slots.rows = rows
            hidden = decoder(input_ids=padded.to(device), use_cache=False, slots=slots).last_hidden_state
            last = hidden[torch.arange(len(texts), device=device), lengths - 1]
            cached[rows], made[rows] = lengths, 0
            record(rows, head(last).argmax(-1))
        active = [i for i, one in enumerate(owner) if one >= 0]
        if not active:
            break
        if len(active) <= slots.count // 2:
            kept = torch.tensor(active, device=device)
            slots.keep(kept)
            owner, longest = [owner[i] for i in active], [longest[i] for i in active]
            cached, made, answers, done = cached[kept], made[kept], answers[kept], done[kept]
        for _ in range(STEPS_BETWEEN_REFILLS):
            longest = [min(length + 1, room) for length in longest]
            slots.look_at(cached, max(longest), dtype)
            last = answers.gather(1, (made - 1).clamp(0)[:, None])
            hidden = decoder(
                input_ids=last, position_ids=cached[:, None], use_cache=False, slots=slots
            ).last_hidden_state
            next_token = head(hidden[:, 0]).argmax(-1)
            live = ~done
            answers.scatter_(1, made.clamp(max=max_new - 1)[:, None], torch.where(
                live, next_token, answers.gather(1, made.clamp(max=max_new - 1)[:, None])[:, 0])[:, None])  # fmt: skip
            made += live
            cached += live
            done |= torch.isin(next_token, eos) | (made >= max_new)
    bar.close()
