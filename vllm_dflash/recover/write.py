# SPDX-License-Identifier: Apache-2.0
"""The recovered checkpoint: config.json with its provenance, beside the weights as they were."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm_dflash import __version__
from vllm_dflash.checkpoint import DraftConfig, TargetConfig, Tensors, load_draft_config, native_config_dict
from vllm_dflash.checkpoint.mask_embedding import NAME as MASK_EMBEDDING
from vllm_dflash.checkpoint.raw import open_raw
from vllm_dflash.checkpoint.resolve import resolve
from vllm_dflash.checkpoint.tensors import INDEX
from vllm_dflash.errors import UserError
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.facts import Facts
from vllm_dflash.recover.verdict import Verdict

NOTE_KEY = "vllm_dflash_recover"
POSITIONS = 32768
SAID_BY_LAYERS = ("use_sliding_window", "max_window_layers", "sliding_window", "layer_types")


def config_values(reading: Reading, facts: Facts, target: TargetConfig, partial: Mapping[str, Any]) -> dict[str, Any]:
    """config.json in native format; what a partial native config says stays, windows in our spelling."""
    values = native_config_dict(
        layers=reading.layers,
        tap_layer_ids=reading.tap_layer_ids,
        block_size=reading.block_size,
        mask_token_id=reading.mask_token_id,
        hidden_size=facts.hidden_size,
        intermediate_size=facts.intermediate_size,
        num_attention_heads=facts.num_attention_heads,
        num_key_value_heads=facts.num_key_value_heads,
        head_dim=facts.head_dim,
        rms_norm_eps=float(target.raw.get("text_config", target.raw).get("rms_norm_eps", 1e-6)),
        vocab_size=facts.vocab_size,
        num_target_layers=target.num_hidden_layers,
        target_hidden_size=target.hidden_size,
        max_position_embeddings=target.max_position_embeddings or POSITIONS,
        dtype=facts.dtype,
        attention_bias=facts.attention_bias,
    )
    if facts.draft_vocab_size is not None:
        values["draft_vocab_size"] = facts.draft_vocab_size
    values["dflash_config"]["sample_from_anchor"] = reading.sample_from_anchor
    if "transformer_layer_config" in partial:
        return values
    dflash = partial.get("dflash_config")
    kept = {k: v for k, v in partial.items() if v is not None and k not in ("dflash_config", *SAID_BY_LAYERS)}
    for flat in ("rope_theta", "rope_scaling", "rope_parameters"):
        if flat in kept:
            values.pop("rope_parameters", None)
    inner = {k: v for k, v in dflash.items() if v is not None} if isinstance(dflash, dict) else {}
    return values | kept | {"dflash_config": values["dflash_config"] | inner}


def read_as(values: Mapping[str, Any], folder: Path, tensors: Tensors, target: TargetConfig) -> DraftConfig:
    """What a reader would make of these values beside these weights. Raises UserError where it would."""
    return resolve(open_raw(values, folder, tensors), target)


def note(verdicts: Sequence[Verdict], facts: Facts, samples: Mapping[str, Any], score: float | None) -> dict[str, Any]:
    """The provenance that goes into config.json."""
    fields = {}
    for one in verdicts:
        entry: dict[str, Any] = {"value": one.value, "from": one.origin, "decided": one.decided}
        if one.margin is not None:
            entry |= {"margin": one.margin, "standard_error": one.error, "runner_up": one.runner_up}
        if one.others:
            entry["not_excluded"] = list(one.others[:16])
        if one.note:
            entry["note"] = one.note
        fields[one.name] = entry
    return {
        "version": __version__,
        "unit": "mean log-likelihood in nats of the target's tokens, a drafted row",
        "from_tensors": [name for name in Facts.__dataclass_fields__ if getattr(facts, name) is not None],
        "from_target": ["rms_norm_eps", "max_position_embeddings", "num_target_layers", "target_hidden_size"],
        "samples": dict(samples),
        "log_likelihood": score,
        "fields": fields,
    }


def write_checkpoint(
    out: Path, source: Path, values: Mapping[str, Any], target: TargetConfig, wanted: Reading
) -> DraftConfig:
    """Link (or copy) the weights into `out`, write config.json, read the result back.

    Raises UserError when `out` cannot be written, and when the result does not read as `wanted`.
    """
    names = [f.name for f in source.iterdir() if f.suffix == ".safetensors" or f.name in (INDEX, MASK_EMBEDDING)]
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in names:
            place(source / name, out / name)
        partial = out / "config.json.partial"
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        partial.replace(out / "config.json")
    except OSError as error:
        raise UserError(f"cannot write there ({error.strerror})", field="--out", found=str(out)) from None
    config = load_draft_config(out, target=target)
    read = Reading.of(config)
    if read != wanted:
        raise UserError(
            "the partial config and the recovered fields read differently together", found=read, field="config.json",
            needed=f"{wanted}; --ignore-config searches everything", file=out,
        )  # fmt: skip
    return config


def place(source: Path, goal: Path) -> None:
    """A hard link, or a copy across file systems."""
    if goal.exists() and goal.samefile(source):
        return
    goal.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), goal)
    except OSError:
        shutil.copy2(source, goal)
