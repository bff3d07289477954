# SPDX-License-Identifier: Apache-2.0
"""From weights to a checkpoint with a config: facts, samples, search, verdicts, files."""

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from vllm_dflash import __version__
from vllm_dflash.checkpoint import DraftConfig, Tensors, load_target_config, read_tensors
from vllm_dflash.checkpoint.json_file import read_json_object
from vllm_dflash.errors import UserError
from vllm_dflash.fit.compare import per_sequence
from vllm_dflash.fit.draft_weights import load_draft_weights
from vllm_dflash.fit.loaded_target import load_target
from vllm_dflash.fit.local_model import check_weights, local_model
from vllm_dflash.fit.mask_candidates import mask_candidates
from vllm_dflash.fit.reading import Reading
from vllm_dflash.fit.score import Scorer
from vllm_dflash.recover.block_size import find_block_size
from vllm_dflash.recover.candidates import Space, candidate_ropes
from vllm_dflash.recover.facts import read_facts
from vllm_dflash.recover.gather import Answers, Growing
from vllm_dflash.recover.known import read_known, sidecar_mask_token
from vllm_dflash.recover.memo import Memo, check_identity
from vllm_dflash.recover.refine import refine
from vllm_dflash.recover.search import around, search
from vllm_dflash.recover.verdict import Verdict, judge_all, limited
from vllm_dflash.recover.write import NOTE_KEY, config_values, note, read_as, write_checkpoint
from vllm_dflash.train.target_model import pick_device


@dataclass(frozen=True)
class Options:
    """drafter, target: folders or hub ids; revision: of the drafter.

    samples: prompts answered; answer_tokens: most tokens of each; anchors: blocks drafted in each answer.
    minutes: from the start, after which no more samples are made for fields that the search leaves open.
    """

    drafter: str | Path
    target: str | Path
    out: Path
    prompts: Path | None = None
    samples: int = 48
    answer_tokens: int = 256
    anchors: int = 16
    ignore_config: bool = False
    revision: str | None = None
    device: str = "auto"
    minutes: float = 8.0

    def __post_init__(self) -> None:
        for name, least in (("samples", 2), ("answer_tokens", 8), ("anchors", 1), ("minutes", 0)):
            if not getattr(self, name) >= least:
                flag = f"--{name.replace('_', '-')}"
                raise UserError("bad option", field=flag, found=getattr(self, name), needed=f"at least {least}")


@dataclass(frozen=True)
class Recovered:
    config: DraftConfig
    verdicts: tuple[Verdict, ...]
    computed: int
    """readings scored in this run, one a group of samples; the others came from the state of an earlier one"""


def recover(options: Options) -> Recovered:
    """Write OUT/config.json beside the drafter's weights.

    Raises UserError for bad input, before the target is loaded where that is possible.
    """
    deadline = time.monotonic() + 60 * options.minutes
    source = local_model(options.drafter, options.revision)
    if options.out.resolve() == source.resolve():
        raise UserError("the result needs a folder of its own", field="--out", found=str(options.out))
    target_config = load_target_config(options.target)
    check_weights(source, "the drafter's")
    tensors = read_tensors(source)
    facts = read_facts(tensors, target_config, source)
    partial = _partial(source, options.ignore_config)
    known = read_known(partial, source / "config.json", facts.layers, facts.head_dim)
    if known.mask_token_id is None:
        known = replace(known, mask_token_id=sidecar_mask_token(source))
    ropes = candidate_ropes(known, target_config, facts.head_dim)
    space = Space(known, target_config.num_hidden_layers, facts.taps, facts.layers, (0,), ropes, 0)
    base = read_as(config_values(space.start(), facts, target_config, partial), source, tensors, target_config)
    device = pick_device(options.device)
    state = options.out / "state"
    identity = _identity(options, source, tensors, partial)
    try:
        check_identity(state, identity)
    except OSError as error:
        raise UserError(f"cannot write there ({error.strerror})", field="--out", found=str(options.out)) from None
    target = load_target(options.target, device)
    answers = Answers(target, state, options.prompts, options.answer_tokens)
    taken, samples = answers.part(0, 0, options.samples)
    assert samples is not None
    space = replace(space, masks=mask_candidates(target), context=samples.longest_context)
    memo = Memo(state, identity, Scorer(base, load_draft_weights(base, target), samples, options.anchors))
    reading, verdicts = _search(memo, space)
    evidence = Growing(memo, answers, samples, taken, deadline)
    reading, verdicts = _refine(memo, space, reading, verdicts, evidence)
    about = {
        "sequences": len(samples),
        "tokens": sum(map(len, samples.tokens)),
        "longest_context": samples.longest_context,
        "anchors_a_sequence": options.anchors,
        "sequences_for_open_fields": evidence.sequences,
    }
    score = float(per_sequence(memo, reading, memo.groups, reading.draft_tokens).nanmean())
    values = config_values(reading, facts, target_config, partial)
    values[NOTE_KEY] = note(verdicts, facts, about, round(score, 4))
    config = write_checkpoint(options.out, source, values, target_config, reading)
    return Recovered(config, tuple(verdicts), memo.computed)


def _search(memo: Memo, space: Space) -> tuple[Reading, list[Verdict]]:
    def block_size(reading: Reading, groups: int) -> Reading:
        if space.known.block_size is not None:
            return reading
        return replace(reading, block_size=find_block_size(memo, reading, groups).size)

    with tqdm(desc="search", unit="contest") as bar:

        def tick(field: str, round_: int) -> None:
            bar.set_postfix_str(f"round {round_ + 1}, {field}, {memo.computed} scores")
            bar.update()

        reading = search(memo, space, block_size, tick)
        return reading, _judge(memo, space, reading)


def _judge(memo: Memo, space: Space, reading: Reading) -> list[Verdict]:
    block = None if space.known.block_size is not None else find_block_size(memo, reading, memo.groups)
    return judge_all(space, reading, around(memo, space, reading), block)


def _refine(
    memo: Memo, space: Space, reading: Reading, verdicts: list[Verdict], evidence: Growing
) -> tuple[Reading, list[Verdict]]:
    with tqdm(desc="open fields", unit="field") as bar:

        def tick(field: str, look: int) -> None:
            bar.set_postfix_str(f"look {look}, {field}, {evidence.sequences} sequences, {memo.computed} scores")
            bar.update()

        refined, found = refine(reading, verdicts, evidence, tick)
    rest = verdicts if refined == reading else _judge(memo, space, refined)
    return refined, [limited(found[one.name], space) if one.name in found else one for one in rest]


def _partial(source: Path, ignore: bool) -> dict[str, Any]:
    file = source / "config.json"
    return {} if ignore or not file.exists() else read_json_object(file)


def _identity(options: Options, source: Path, tensors: Tensors, partial: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for stored scores to count."""
    digest = hashlib.sha256()
    for name in sorted({info.file for info in tensors.infos.values()}):
        with open(source / name, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    prompts = "builtin" if options.prompts is None else hashlib.sha256(options.prompts.read_bytes()).hexdigest()[:16]
    return {
        "version": __version__,
        "drafter": digest.hexdigest()[:16],
        "target": Path(str(options.target)).name,
        "prompts": prompts,
        "config": hashlib.sha256(json.dumps(partial, sort_keys=True).encode()).hexdigest()[:16],
        **{name: getattr(options, name) for name in ("samples", "answer_tokens", "anchors")},
    }
