# SPDX-License-Identifier: Apache-2.0
"""From the sections of a checkpoint to a DraftConfig: every field asked of the rule that settles it."""

from typing import Any

from vllm_dflash.checkpoint.attention_rule import LayerRule, native_rules, speculators_rules
from vllm_dflash.checkpoint.dimensions import resolve_dimensions
from vllm_dflash.checkpoint.draft_config import DraftConfig, DraftLayer, Rope, Source
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.mask_embedding import NAME as MASK_EMBEDDING
from vllm_dflash.checkpoint.mask_embedding import read_mask_embedding
from vllm_dflash.checkpoint.pairing import check_pair
from vllm_dflash.checkpoint.raw import RawCheckpoint
from vllm_dflash.checkpoint.rope_fields import resolve_rope, speculators_rope
from vllm_dflash.checkpoint.scales import resolve_scales
from vllm_dflash.checkpoint.section import Answer, agree, default
from vllm_dflash.checkpoint.shapes import check_shapes, wanted_tensors
from vllm_dflash.checkpoint.taps import check_taps_exist, native_taps, speculators_taps
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.checkpoint.vocabulary import resolve_mask_token, resolve_vocabulary
from vllm_dflash.checkpoint.windows import FULL, SLIDING
from vllm_dflash.errors import UserError

LARGEST_BLOCK = 4096
TRAINING_KEYS = ("num_anchors", "loss_decay_gamma", "backbone_rotary_base", "projector_type", "mask_token")


def resolve(raw: RawCheckpoint, target: TargetConfig | None) -> DraftConfig:
    """Raises UserError where fields contradict each other, do not fit, or no rule settles one."""
    top, dflash, path, findings = raw.top, raw.dflash, raw.path, list(raw.tensors.findings)
    size = resolve_dimensions(top, raw.layer, raw.tensors)
    rules = _rules(raw, size.num_hidden_layers.value, findings)
    ropes = _ropes(raw, rules, size.head_dim.value, findings)
    taps = speculators_taps(top, findings) if raw.speculators else native_taps(top, dflash, findings)
    num_target_layers = agree(
        "num_target_layers", path, top.integer("num_target_layers", 1), dflash.integer("num_target_layers", 1)
    )
    if num_target_layers is not None:
        check_taps_exist(taps, num_target_layers.value, num_target_layers.source.key, path)
    target_hidden = _target_hidden_size(raw, len(taps.value), size.hidden_size)
    draft_vocab = agree(
        "draft_vocab_size", path, top.integer("draft_vocab_size", 1), dflash.integer("draft_vocab_size", 1)
    )
    vocabulary = resolve_vocabulary(raw.layer, raw.tensors, target, draft_vocab)
    mask = resolve_mask_token(
        path, vocabulary.vocab_size, dflash.integer("mask_token_id"), top.integer("mask_token_id")
    )
    if target is not None:
        findings += check_pair(target, path, taps, num_target_layers, target_hidden, size, vocabulary)
    scales = resolve_scales(raw, target, vocabulary)
    quantization = _quantization(raw)
    wanted = wanted_tensors(
        size, len(taps.value), target_hidden.value, vocabulary, scales.attention_sinks.value
    )
    quantized = quantization.value is not None
    unknown = check_shapes(raw.tensors, wanted, size.num_hidden_layers.value, quantized, path)
    findings += _unknown_tensors(unknown)
    layers_of_target: Answer[Any] = num_target_layers or default(None, "not written")
    if num_target_layers is None and target is not None:
        layers_of_target = default(target.num_hidden_layers, "the target's num_hidden_layers")
    answers: dict[str, Answer[Any]] = {
        "format": default("speculators" if raw.speculators else "native", "by the keys of config.json"),
        "tap_layer_ids": taps,
        "block_size": _block_size(raw),
        "sample_from_anchor": _sample_from_anchor(raw),
        "mask_token_id": mask,
        "mask_embedding_file": _mask_embedding(raw, mask.value, size.hidden_size.value),
        "target_hidden_size": target_hidden,
        "num_target_layers": layers_of_target,
        "quantization": quantization,
    }
    answers |= size._asdict() | vocabulary._asdict() | scales._asdict()
    del answers["num_hidden_layers"]
    return DraftConfig(
        path=raw.folder,
        layers=tuple(
            DraftLayer(rule.window.value, rule.causal.value, rope.value)
            for rule, rope in zip(rules, ropes, strict=True)
        ),
        **{name: answer.value for name, answer in answers.items()},
        sources={name: answer.source for name, answer in answers.items()} | _layer_sources(rules, ropes),
        findings=(*findings, *_unread_keys(raw)),
        has_weights=bool(raw.tensors.infos),
    )


def _rules(raw: RawCheckpoint, count: int, findings: list[Finding]) -> list[LayerRule]:
    if raw.speculators:
        return speculators_rules(raw.top, raw.layer, count, findings)
    return native_rules(raw.top, raw.dflash, count, findings)


def _ropes(
    raw: RawCheckpoint, rules: list[LayerRule], head_dim: int, findings: list[Finding]
) -> list[Answer[Rope]]:
    if raw.speculators:
        return [speculators_rope(raw.layer, head_dim, findings)] * len(rules)
    kinds = [FULL if rule.window.value is None else SLIDING for rule in rules]
    return [resolve_rope(raw.layer, kind, head_dim, findings) for kind in kinds]


def _target_hidden_size(raw: RawCheckpoint, taps: int, hidden: Answer[int]) -> Answer[int]:
    written, fc = raw.top.integer("target_hidden_size", 1), raw.tensors.infos.get("fc.weight")
    if written is not None:
        return written
    if fc is None or len(fc.shape) != 2:
        return default(hidden.value, "the drafter's own hidden_size")
    if fc.shape[1] % taps or not fc.shape[1]:
        raise UserError(
            "fc does not fit the number of taps",
            field="fc.weight",
            found=list(fc.shape),
            needed=f"columns that are a multiple of {taps} taps",
            file=raw.folder / fc.file,
        )
    return Answer(fc.shape[1] // taps, Source(fc.file, "fc.weight", f"columns / {taps} taps"))


def _block_size(raw: RawCheckpoint) -> Answer[int]:
    block = agree("block_size", raw.path, raw.dflash.integer("block_size"), raw.top.integer("block_size"))
    if block is None:
        raw.top.missing("block_size", "the rows of a trained block, anchor included")
    if not 2 <= block.value <= LARGEST_BLOCK:
        raise UserError(
            "block_size is not usable",
            field=block.source.key,
            found=block.value,
            needed=f"2 to {LARGEST_BLOCK}: the anchor and at least one drafted row",
            file=raw.path,
        )
    return block


def _sample_from_anchor(raw: RawCheckpoint) -> Answer[bool]:
    key = "sample_from_anchor"
    written = agree(key, raw.path, raw.dflash.boolean(key), raw.top.boolean(key))
    return written or default(False, "absent: the anchor predicts nothing")


def _quantization(raw: RawCheckpoint) -> Answer[Any]:
    for section in (raw.top, raw.layer):
        for key in ("quantization_config", "compression_config"):
            found = section.section(key)
            if found is not None:
                return Answer(found.values, section.source(key))
    return default(None, "none is written")


def _mask_embedding(raw: RawCheckpoint, mask_token_id: int, hidden: int) -> Answer[Any]:
    file = raw.folder / MASK_EMBEDDING
    if not file.is_file():
        return default(None, "the mask token's row of the embedding table")
    read_mask_embedding(file, mask_token_id, hidden)
    return Answer(file, Source(MASK_EMBEDDING, "embedding"))


def _unknown_tensors(names: list[str]) -> list[Finding]:
    if not names:
        return []
    shown = ", ".join(name[:60] for name in names[:4]) + (" ..." if len(names) > 4 else "")
    cause = f"{len(names)} tensors belong to no part of a DFlash drafter and are not used"
    remedy = "check that this is a DFlash drafter and not a relative with more heads"
    return [Finding("WARNING", "weights", cause, shown, remedy)]


def _unread_keys(raw: RawCheckpoint) -> list[Finding]:
    unread = [key for key in raw.dflash.unread() if key.rpartition(".")[2] not in TRAINING_KEYS]
    if not unread:
        return []
    cause = "keys of dflash_config that no rule reads"
    shown = ", ".join(repr(key[:60]) for key in unread[:6])
    return [Finding("NOTE", "dflash_config", cause, shown, "nothing to do if they only concern training")]


def _layer_sources(rules: list[LayerRule], ropes: list[Answer[Rope]]) -> dict[str, Source]:
    sources = {}
    for i, (rule, rope) in enumerate(zip(rules, ropes, strict=True)):
        sources[f"layers.{i}.window"] = rule.window.source
        sources[f"layers.{i}.causal"] = rule.causal.source
        sources[f"layers.{i}.rope"] = rope.source
    return sources
