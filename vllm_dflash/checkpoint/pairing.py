# SPDX-License-Identifier: Apache-2.0
"""Does a drafter fit its target: taps, widths, head and vocabulary."""

from pathlib import Path

from vllm_dflash.checkpoint.dimensions import Dimensions
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.section import Answer
from vllm_dflash.checkpoint.taps import Taps, check_taps_exist
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.checkpoint.vocabulary import Vocabulary, largest_padding
from vllm_dflash.errors import UserError


def check_pair(
    target: TargetConfig,
    path: Path,
    taps: Taps,
    num_target_layers: Answer[int] | None,
    target_hidden: Answer[int],
    size: Dimensions,
    vocabulary: Vocabulary,
) -> list[Finding]:
    """Raises UserError, with both numbers, when the drafter cannot draft for this target."""
    check_taps_exist(taps, target.num_hidden_layers, str(target.path), path)
    layers = target.num_hidden_layers
    if num_target_layers is not None and num_target_layers.value != layers:
        needed = f"{layers} (num_hidden_layers)"
        _refuse("has another number of layers", num_target_layers, needed, target, path)
    if target_hidden.value != target.hidden_size:
        needed = f"{target.hidden_size} (hidden_size)"
        _refuse("has features of another width", target_hidden, needed, target, path, "target_hidden_size")
    borrows = [
        name
        for name, own in (("embeddings", vocabulary.own_embed_tokens), ("head", vocabulary.own_lm_head))
        if not own.value
    ]
    if borrows and size.hidden_size.value != target.hidden_size:
        needed = f"{target.hidden_size}, because the drafter borrows the target's {' and '.join(borrows)}"
        _refuse("has another hidden size", size.hidden_size, needed, target, path)
    return _check_vocabulary(vocabulary, target, path)


def _check_vocabulary(vocabulary: Vocabulary, target: TargetConfig, path: Path) -> list[Finding]:
    """Ids must be the target's; padding rows may differ."""
    difference = abs(vocabulary.vocab_size.value - target.vocab_size)
    if difference > largest_padding(target.vocab_size):
        needed = f"{target.vocab_size} (vocab_size)"
        _refuse("has another vocabulary", vocabulary.vocab_size, needed, target, path, "vocab_size")
    if not difference:
        return []
    evidence = f"drafter {vocabulary.vocab_size.value}, target {target.vocab_size}"
    cause = "the vocabularies differ by padding rows"
    return [Finding("NOTE", "vocab_size", cause, evidence, "nothing to do")]


def _refuse(
    problem: str, answer: Answer[int], needed: str, target: TargetConfig, path: Path, field: str = ""
) -> None:
    raise UserError(
        f"the drafter is for another target: {target.path} {problem}",
        field=answer.source.key or field,
        found=answer.value,
        needed=needed,
        file=path,
    )
