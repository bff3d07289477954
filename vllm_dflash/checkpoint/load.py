# SPDX-License-Identifier: Apache-2.0
"""From a checkpoint folder to a DraftConfig."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_dflash.checkpoint.attention_rule import LayerRule, native_rules, speculators_rules
from vllm_dflash.checkpoint.dimensions import resolve_dimensions
from vllm_dflash.checkpoint.draft_config import DraftConfig, DraftLayer, Rope, Source
from vllm_dflash.checkpoint.foreign import foreign_name
from vllm_dflash.checkpoint.json_file import read_json_object
from vllm_dflash.checkpoint.location import locate
from vllm_dflash.checkpoint.rope_fields import FULL, SLIDING, resolve_rope
from vllm_dflash.checkpoint.scales import resolve_scales
from vllm_dflash.checkpoint.section import Answer, Section, agree, default
from vllm_dflash.checkpoint.shapes import check_shapes, wanted_tensors
from vllm_dflash.checkpoint.taps import Taps, check_taps_exist, native_taps, speculators_taps
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.checkpoint.tensors import Tensors, read_tensors
from vllm_dflash.checkpoint.vocabulary import (
    MASK_EMBEDDING,
    check_head_fits_target,
    resolve_mask_token,
    resolve_vocabulary,
)
from vllm_dflash.errors import UserError


def load_draft_config(
    path: str | Path, *, target: TargetConfig | None = None, revision: str | None = None
) -> DraftConfig:
    """Read what a drafter checkpoint says: config.json and safetensors headers, no weights.

    Args:
        path: folder or hub id.
        target: when given, sizes, taps and vocabulary are checked against it, and the factors that its family
            puts on shared embeddings and logits are taken over.
        revision: of a hub id.

    Raises UserError for anything that cannot be read, contradicts itself, does not fit, or that no rule settles.
    """
    folder = locate(path, revision=revision)
    values = _read_config(folder)
    foreign = foreign_name(values)
    if foreign is not None:
        raise UserError(
            f"this is a {foreign} drafter; it is handed back to vLLM untouched", file=folder / "config.json"
        )
    return _resolve(values, folder, read_tensors(folder), target)


def is_foreign_draft(path: str | Path, *, revision: str | None = None) -> str | None:
    """ "DFlash2", "DSpark", "LiLiCorr", "XPress" ... when the checkpoint is one of these, else None."""
    return foreign_name(_read_config(locate(path, revision=revision)))


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        path.lstat()
    except FileNotFoundError:
        raise UserError(
            "the drafter has no config.json; `vllm-dflash recover` can rebuild it from the weights",
            file=folder,
        ) from None
    except OSError as error:
        raise UserError(f"cannot read config.json: {error.strerror}", file=folder) from None
    return read_json_object(path)


def _resolve(
    values: Mapping[str, Any], folder: Path, tensors: Tensors, target: TargetConfig | None
) -> DraftConfig:
    path = folder / "config.json"
    top, findings = Section(values, path), list(tensors.findings)
    speculators = _is_speculators(top)
    layer = top.section("transformer_layer_config") if speculators else top
    if layer is None:
        top.missing("transformer_layer_config", "the layer fields of a speculators checkpoint")
    dflash = (None if speculators else top.section("dflash_config")) or Section({}, path, "dflash_config.")
    extra = top if speculators else dflash
    size = resolve_dimensions(top, layer, tensors)
    count = size.num_hidden_layers.value
    rules = (
        speculators_rules(top, layer, count, findings)
        if speculators
        else native_rules(top, dflash, count, findings)
    )
    ropes = [
        resolve_rope(layer, FULL if rule.window.value is None else SLIDING, size.head_dim.value, findings)
        for rule in rules
    ]
    taps = speculators_taps(top, findings) if speculators else native_taps(top, dflash, findings)
    num_target_layers = _num_target_layers(top, taps, target)
    target_hidden = _target_hidden_size(top, tensors, len(taps.value), size.hidden_size, target)
    draft_vocab = agree(
        "draft_vocab_size", path, top.integer("draft_vocab_size", 1), dflash.integer("draft_vocab_size", 1)
    )
    vocabulary = resolve_vocabulary(layer, tensors, target, draft_vocab)
    if target is not None:
        findings += check_head_fits_target(path, vocabulary, target)
    scales = resolve_scales(
        layer, extra, tensors, target, vocabulary.own_lm_head.value, vocabulary.own_embed_tokens.value
    )
    quantization = _quantization(top, layer)
    sample_from_anchor = agree(
        "sample_from_anchor", path, dflash.boolean("sample_from_anchor"), top.boolean("sample_from_anchor")
    ) or default(False, "absent: the anchor predicts nothing")
    answers: dict[str, Answer[Any]] = {
        "format": default("speculators" if speculators else "native", "by the keys of config.json"),
        "tap_layer_ids": taps,
        "block_size": _block_size(path, dflash.integer("block_size"), top.integer("block_size")),
        "sample_from_anchor": sample_from_anchor,
        "mask_token_id": resolve_mask_token(
            path, vocabulary.vocab_size, dflash.integer("mask_token_id"), top.integer("mask_token_id")
        ),
        "mask_embedding_file": _mask_embedding(folder),
        "target_hidden_size": target_hidden,
        "num_target_layers": num_target_layers,
        "quantization": quantization,
    }
    answers |= size._asdict() | vocabulary._asdict() | scales._asdict()
    del answers["num_hidden_layers"]
    wanted = wanted_tensors(
        size, len(taps.value), target_hidden.value, vocabulary, scales.attention_sinks.value
    )
    check_shapes(tensors, wanted, count, quantization.value is not None, path)
    sources = {name: answer.source for name, answer in answers.items()} | _layer_sources(rules, ropes)
    return DraftConfig(
        path=folder,
        layers=tuple(
            DraftLayer(rule.window.value, rule.causal.value, rope.value)
            for rule, rope in zip(rules, ropes, strict=True)
        ),
        **{name: answer.value for name, answer in answers.items()},
        sources=sources,
        findings=tuple(findings),
        has_weights=bool(tensors.infos),
    )


def _is_speculators(top: Section) -> bool:
    kind = top.text("speculators_model_type")
    if kind is not None or "speculators_config" in top:
        if kind is None or kind.value != "dflash":
            top.refuse("this is not a DFlash drafter", "speculators_model_type", '"dflash"')
        return True
    names = top.strings("architectures")
    if "dflash_config" in top or (names is not None and any("DFlash" in name for name in names.value)):
        return False
    top.refuse("this is not a DFlash drafter", "architectures", "DFlashDraftModel, or a dflash_config")


def _num_target_layers(top: Section, taps: Taps, target: TargetConfig | None) -> Answer[int] | Answer[None]:
    written = top.integer("num_target_layers", 1)
    if written is not None:
        check_taps_exist(taps, written.value, "num_target_layers", top.path)
    if target is not None:
        check_taps_exist(taps, target.num_hidden_layers, str(target.path), top.path)
        if written is not None and written.value != target.num_hidden_layers:
            top.refuse(
                "the drafter is for another target",
                "num_target_layers",
                f"{target.num_hidden_layers} (the target's)",
            )
        return written or default(target.num_hidden_layers, "the target's num_hidden_layers")
    return written or default(None, "not written")


def _target_hidden_size(
    top: Section, tensors: Tensors, taps: int, hidden: Answer[int], target: TargetConfig | None
) -> Answer[int]:
    written, fc = top.integer("target_hidden_size", 1), tensors.infos.get("fc.weight")
    if written is None and fc is not None and len(fc.shape) == 2:
        if fc.shape[1] % taps or not fc.shape[1]:
            raise UserError(
                "fc does not fit the number of taps",
                field="fc.weight",
                found=list(fc.shape),
                needed=f"columns that are a multiple of {taps} taps",
                file=top.path.parent / fc.file,
            )
        written = Answer(fc.shape[1] // taps, Source(fc.file, "fc.weight", f"columns / {taps} taps"))
    answer = written or default(hidden.value, "the drafter's own hidden_size")
    if target is not None and answer.value != target.hidden_size:
        raise UserError(
            "the drafter is for another target",
            field="target_hidden_size",
            found=answer.value,
            needed=f"{target.hidden_size} (hidden_size of {target.path})",
            file=top.path,
        )
    return answer


def _block_size(path: Path, *places: Answer[int] | None) -> Answer[int]:
    block = agree("block_size", path, *places)
    if block is None:
        raise UserError(
            "block_size is missing", needed="the rows of a trained block, anchor included", file=path
        )
    if not 2 <= block.value <= 4096:
        raise UserError(
            "block_size is not usable",
            field=block.source.key,
            found=block.value,
            needed="at least 2: the anchor and one drafted row",
            file=path,
        )
    return block


def _quantization(top: Section, layer: Section) -> Answer[Any]:
    for section in (top, layer):
        for key in ("quantization_config", "compression_config"):
            found = section.section(key)
            if found is not None:
                return Answer(found.values, section.source(key))
    return default(None, "none is written")


def _mask_embedding(folder: Path) -> Answer[Path | None]:
    file = folder / MASK_EMBEDDING
    if file.is_file():
        return Answer(file, Source(MASK_EMBEDDING))
    return default(None, "the mask token's row of the embedding table")


def _layer_sources(rules: list[LayerRule], ropes: list[Answer[Rope]]) -> dict[str, Source]:
    sources = {}
    for i, (rule, rope) in enumerate(zip(rules, ropes, strict=True)):
        sources[f"layers.{i}.window"] = rule.window.source
        sources[f"layers.{i}.causal"] = rule.causal.source
        sources[f"layers.{i}.rope"] = rope.source
    return sources
