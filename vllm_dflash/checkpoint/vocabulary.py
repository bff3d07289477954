# SPDX-License-Identifier: Apache-2.0
"""Head, vocabulary and mask token of a drafter."""

from pathlib import Path
from typing import NamedTuple

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.checkpoint.section import Answer, Section, agree, default
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.checkpoint.tensors import Tensors
from vllm_dflash.errors import UserError

LARGEST_PADDING = 2048  # rows by which padded and plain vocabularies of one tokenizer differ (gpt-oss: 1090)


def largest_padding(vocab_size: int) -> int:
    return min(LARGEST_PADDING, vocab_size // 16)


class Vocabulary(NamedTuple):
    vocab_size: Answer[int]
    draft_vocab_size: Answer[int]
    has_d2t: Answer[bool]
    own_lm_head: Answer[bool]
    own_embed_tokens: Answer[bool]


def resolve_vocabulary(
    config: Section, tensors: Tensors, target: TargetConfig | None, draft_vocab: Answer[int] | None
) -> Vocabulary:
    """Sizes from the config, then from the tensors, then from the target.

    A draft vocabulary smaller by at most `largest_padding` rows without a map is the target's without
    padding (ids equal). Raises UserError for a smaller one without `d2t` or without its own head, and for
    a head whose rows differ from draft_vocab_size.
    """
    vocab = config.integer("vocab_size", 1) or _rows(tensors, "embed_tokens.weight")
    if vocab is None and target is not None:
        vocab = default(target.vocab_size, "the target's vocab_size")
    if vocab is None:
        config.missing("vocab_size", "the target's vocabulary size")
    head = _rows(tensors, "lm_head.weight")
    reduced = (
        draft_vocab or head or Answer(vocab.value, Source(rule="no draft_vocab_size: the whole vocabulary"))
    )
    if head is not None and head.value != reduced.value:
        raise UserError(
            "lm_head does not fit the draft vocabulary",
            field="lm_head.weight",
            found=f"{head.value} rows",
            needed=f"{reduced.value} rows ({reduced.source})",
            file=config.path,
        )
    padding = largest_padding(vocab.value)
    if reduced.value > vocab.value + padding:
        raise UserError(
            "the draft vocabulary is larger than the vocabulary",
            field="draft_vocab_size",
            found=reduced.value,
            needed=f"at most {vocab.value} ({vocab.source})",
            file=config.path,
        )
    d2t = _present(tensors, "d2t", reduced.value < vocab.value - padding)
    if tensors.complete and not d2t.value and reduced.value < vocab.value - padding:
        raise UserError(
            f"the head scores {reduced.value} of {vocab.value} tokens and no d2t tensor says which",
            field="d2t",
            found=None,
            needed="the tensor d2t (target id = row + d2t[row])",
            file=config.path,
        )
    if tensors.complete and d2t.value and head is None:
        raise UserError(
            "a reduced vocabulary needs a head of its own",
            needed=f"the tensor lm_head.weight with {reduced.value} rows",
            file=config.path,
        )
    return Vocabulary(
        vocab,
        reduced,
        d2t,
        _present(tensors, "lm_head.weight", d2t.value),
        _present(tensors, "embed_tokens.weight", False),
    )


def _rows(tensors: Tensors, name: str) -> Answer[int] | None:
    shape = tensors.shape(name)
    return Answer(shape[0], Source(tensors.infos[name].file, name, "rows")) if shape else None


def _present(tensors: Tensors, name: str, otherwise: bool) -> Answer[bool]:
    if name in tensors:
        return Answer(True, Source(tensors.infos[name].file, name))
    if tensors.complete:
        return default(False, f"there is no tensor {name}")
    return default(otherwise, "the weights are not all there; assumed from the config")


def resolve_mask_token(path: Path, vocab: Answer[int], *places: Answer[int] | None) -> Answer[int]:
    """Id of the mask token. Raises UserError when it is missing or outside the vocabulary."""
    mask = agree("mask_token_id", path, *places)
    if mask is None:
        raise UserError(
            "mask_token_id is missing", needed="dflash_config.mask_token_id = the mask of training", file=path
        )
    if mask.value >= vocab.value:
        raise UserError(
            "the mask token is outside the vocabulary",
            field=mask.source.key,
            found=mask.value,
            needed=f"an id below {vocab.value} ({vocab.source})",
            file=path,
        )
    return mask
