# SPDX-License-Identifier: Apache-2.0
"""What the target answers, kept on disk; and more of it, for as long as there is time, for the fields left open."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from vllm_dflash.errors import UserError
from vllm_dflash.fit.loaded_target import LoadedTarget
from vllm_dflash.fit.reading import Reading
from vllm_dflash.fit.samples import Samples, answer_prompts, encode_prompts, read_prompts, trace
from vllm_dflash.fit.score import Scorer
from vllm_dflash.recover.memo import Memo

TOGETHER = 24  # sequences scored side by side
BLOCKS = 64  # in each sequence: neighbours tell nearly the same
ROOM = 2**28  # bytes of projections for each part of the samples
FEATURE_BYTES = 2**31
FEWEST = 8  # sequences that are worth a look of their own


class Answers:
    """The target's answers to the prompts of a run, part by part."""

    def __init__(self, target: LoadedTarget, folder: Path, prompts: Path | None, answer_tokens: int) -> None:
        self.target, self.folder, self.prompts, self.answer_tokens = target, folder, prompts, answer_tokens
        self.pace: float | None = None

    def file(self, number: int) -> Path:
        return self.folder / (f"answers-{number}.json" if number else "answers.json")

    def part(
        self, number: int, first: int, count: int, taps: Sequence[int] | None = None
    ) -> tuple[int, Samples | None]:
        """Prompts taken from `first` on, at most `count`, or as many as the part on disk has; and their samples.

        Answers are kept; features are made again, which takes less time than reading them would.
        """
        file, start = self.file(number), time.monotonic()
        stored = json.loads(file.read_text()) if file.is_file() else None
        count = len(stored["prompts"]) if stored and number else count
        chosen = read_prompts(first + count, self.prompts)[first:]
        if not chosen:
            return 0, None
        prompts = encode_prompts(chosen, self.target, self.answer_tokens)
        fresh = stored is None or stored["prompts"] != prompts
        if stored is not None and not fresh:
            answers = stored["answers"]
        else:
            answers = answer_prompts(self.target, prompts, self.answer_tokens)
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps({"prompts": prompts, "answers": answers}))
            partial.replace(file)
        samples = trace(self.target, prompts, answers, taps)
        if fresh:
            self.pace = (time.monotonic() - start) / len(prompts)
        return len(chosen), samples


class Growing:
    """Evidence that first drafts more blocks in the samples that are there, then doubles the samples.

    deadline: time.monotonic() at which it ends. Only the taps of the readings that are compared are kept.
    """

    blocks = BLOCKS

    def __init__(self, memo: Memo, answers: Answers, samples: Samples, taken: int, deadline: float) -> None:
        self.memo, self.answers, self.first, self.taken, self.deadline = memo, answers, samples, taken, deadline
        self.memos: list[Memo] = []
        self.bytes, self.part = 0, 1
        self.seconds, self.rows = 0.0, 0  # spent on scores, and sequences scored by one reading in that time

    @property
    def sequences(self) -> int:
        return sum(len(one.scorer.samples) for one in self.memos)

    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def grow(self, readings: Sequence[Reading]) -> bool:
        if self.late():
            return False
        if not self.memos:
            self._add(self.first)
            return True
        taps = sorted({tap for one in readings for tap in one.tap_layer_ids})
        compared, before = len({one.key() for one in readings}), self.sequences
        while self.sequences < 2 * before and self.bytes < FEATURE_BYTES:
            count = min(2 * before - self.sequences, len(self.first))
            if not self.answers.file(self.part).is_file():
                count = min(count, self._affordable(compared, before))
            if self.late() or count < min(FEWEST, before, len(self.first)):
                break
            try:
                taken, samples = self.answers.part(self.part, self.taken, count, taps)
            except UserError as problem:
                tqdm.write(f"no more samples: {problem}", file=sys.stderr)
                break
            if samples is None:
                break
            self.taken, self.part = self.taken + taken, self.part + 1
            self.bytes += samples.feature_bytes
            self._add(samples)
        return self.sequences > before

    def _affordable(self, readings: int, scored: int) -> int:
        """More sequences that can be answered and scored in time, as far as it is known what that takes."""
        room, pace = self.deadline - time.monotonic(), self.seconds / max(self.rows, 1)
        room -= (self.sequences - scored) * readings * pace
        each = (self.answers.pace or 0.0) + readings * pace
        return max(0, int(room / each)) if each else len(self.first) * (room > 0)

    def _add(self, samples: Samples) -> None:
        scorer = self.memo.scorer
        more = Scorer(scorer.config, scorer.weights, samples, BLOCKS, TOGETHER, ROOM)
        self.memos.append(self.memo.beside(more, f"more{len(self.memos)}"))

    def table(self, reading: Reading) -> torch.Tensor:
        """float64 [sequences, draft tokens] on the CPU."""
        found = []
        for memo in self.memos:
            for group in range(memo.groups):
                computed, start = memo.computed, time.monotonic()
                found.append(memo.table(reading, group))
                if memo.computed > computed:
                    self.seconds, self.rows = self.seconds + time.monotonic() - start, self.rows + len(found[-1])
        return torch.cat(found)
