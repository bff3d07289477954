# SPDX-License-Identifier: Apache-2.0
"""`doctor --probe`: run the pair through the reference, as the config is read and as it might be misread.

The reference shares no code with the engine or with vLLM. What it accepts is what a right engine accepts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.doctor.alternatives import Other, alternatives
from vllm_dflash.doctor.probe_result import Alternative, Probe, Rates
from vllm_dflash.errors import UserError
from vllm_dflash.fit.acceptance import acceptance
from vllm_dflash.fit.compare import difference, per_sequence
from vllm_dflash.fit.draft_weights import load_draft_weights
from vllm_dflash.fit.loaded_target import load_target
from vllm_dflash.fit.mask_candidates import mask_candidates
from vllm_dflash.fit.reading import Reading
from vllm_dflash.fit.samples import Samples, answer_prompts, encode_prompts, read_prompts, trace
from vllm_dflash.fit.score import Scorer

CLEARLY = 3.0  # standard errors: dozens of readings are tried
MATTERS = 0.03  # nats a row
ANCHORS = 24
MOST_MASKS = 32
MASKS_SHOWN = 3
SAME = 5e-4  # nats a row: embeddings of tokens that were never trained hardly differ


def probe(
    config: DraftConfig,
    target: str | Path,
    *,
    prompts: int,
    file: Path | None,
    answer_tokens: int,
    device: torch.device,
) -> Probe:
    """Answer prompts with the target, then draft along the answers.

    Args:
        prompts: how many, of `file` (JSONL) or of the built-in ones; answer_tokens: most tokens of an answer.

    Raises UserError for fewer than two prompts, weights that are missing, and models that the reference cannot run.
    """
    if prompts < 2:
        raise UserError("too few prompts", field="--probe-prompts", found=prompts, needed="at least 2")
    loaded = load_target(target, device)
    weights = load_draft_weights(config, loaded)
    encoded = encode_prompts(read_prompts(prompts, file), loaded, answer_tokens)
    samples = trace(loaded, encoded, answer_prompts(loaded, encoded, answer_tokens))
    scorer = Scorer(config, weights, samples, ANCHORS)
    reading = Reading.of(config)
    masks = mask_candidates(loaded)[:MOST_MASKS] if config.mask_embedding_file is None else ()
    others = list(alternatives(reading, loaded.config, masks, samples.longest_context))
    windows = [layer.window for layer in config.layers if layer.window is not None]
    return Probe(
        prompts=len(samples),
        longest_context=samples.longest_context,
        draft_tokens=reading.draft_tokens,
        log_likelihood=float(per_sequence(scorer, reading, scorer.groups, reading.draft_tokens).nanmean()),
        rates=_rates(scorer, reading),
        floor=_floor(samples),
        alternatives=_judge(scorer, reading, others),
        windows_judged=all(window < samples.longest_context for window in windows),
    )


def is_clear(one: Alternative) -> bool:
    """Better by more than chance and by enough to matter."""
    value, error = one.better
    return value > max(CLEARLY * error, MATTERS)


def _judge(scorer: Scorer, reading: Reading, others: Sequence[Other]) -> tuple[Alternative, ...]:
    """Best first; mask tokens that make no difference as one, of the others the best few."""
    found, same = [], []
    for other in others:
        judged = Alternative(other.field, other.name, other.change, difference(scorer, other.reading, reading))
        if other.field == "mask_token_id" and max(map(abs, judged.better)) < SAME:
            same.append(judged)
            continue
        rates = _rates(scorer, other.reading) if is_clear(judged) else None
        found.append(replace(judged, rates=rates))
    found.sort(key=lambda one: -one.better[0])
    masks = [one for one in found if one.field == "mask_token_id"][MASKS_SHOWN:]
    if same:
        found.append(_one_of_all(same))
    return tuple(sorted((one for one in found if one not in masks), key=lambda one: -one.better[0]))


def _one_of_all(same: Sequence[Alternative]) -> Alternative:
    shown = ", ".join(one.change for one in same[:MASKS_SHOWN])
    more = f" and {len(same) - MASKS_SHOWN} more" if len(same) > MASKS_SHOWN else ""
    return replace(same[0], name=f"mask token{'s' * (len(same) > 1)} {shown}{more}")


def _rates(scorer: Scorer, reading: Reading) -> Rates:
    found = acceptance(scorer, reading)
    return Rates(found.steps, found.length, found.by_position)


def _floor(samples: Samples) -> float:
    counts: Counter[int] = Counter()
    for tokens, start in zip(samples.tokens, samples.prompt_lengths, strict=True):
        counts.update(tokens[start + 1 :].tolist())
    return max(counts.values()) / max(counts.total(), 1)
