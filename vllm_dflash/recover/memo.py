# SPDX-License-Identifier: Apache-2.0
"""Scores on disk: an interrupted search, started again, finds what it had and goes on to the same result."""

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from vllm_dflash.errors import UserError
from vllm_dflash.fit.reading import Reading
from vllm_dflash.fit.score import Scorer


class Memo:
    """`table` answers from the file in `folder` or asks the scorer and writes the answer down.

    Raises UserError when the folder holds the state of another run.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], scorer: Scorer) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.scorer, self.file = scorer, folder / "scores.jsonl"
        self.known: dict[str, torch.Tensor] = {}
        self.name, self._new = "", [0]
        check_identity(folder, identity)
        if self.file.is_file():
            whole = self.file.read_text(encoding="utf-8").rpartition("\n")[0]
            self.file.write_text(whole + "\n" if whole else "", encoding="utf-8")
            for line in whole.splitlines():
                entry = json.loads(line)
                self.known[entry["reading"]] = torch.tensor(entry["scores"], dtype=torch.float64)

    @property
    def groups(self) -> int:
        return self.scorer.groups

    @property
    def computed(self) -> int:
        """Tables that the scorers of this run were asked for."""
        return self._new[0]

    def beside(self, scorer: Scorer, name: str) -> "Memo":
        """The same file for other samples; `name` tells them apart."""
        other = copy.copy(self)
        other.scorer, other.name = scorer, f"/{name}"
        return other

    def table(self, reading: Reading, group: int) -> torch.Tensor:
        """float64 [sequences of the group, draft tokens], nats; see Scorer.table."""
        return self._remember(f"{_digest(reading)}{self.name}/{group}", lambda: self.scorer.table(reading, group))

    def falls(self, reading: Reading, group: int) -> torch.Tensor:
        """float64 [sequences of the group, draft tokens - 1], nats; see Scorer.falls."""
        return self._remember(f"{_digest(reading)}{self.name}/{group}/falls", lambda: self.scorer.falls(reading, group))

    def _remember(self, key: str, score: Callable[[], torch.Tensor]) -> torch.Tensor:
        if key not in self.known:
            found = self.known[key] = score().double()
            self._new[0] += 1
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"reading": key, "scores": found.tolist()}) + "\n")
        return self.known[key]


def _digest(reading: Reading) -> str:
    return hashlib.sha256(reading.key().encode()).hexdigest()[:24]


def check_identity(folder: Path, identity: dict[str, Any]) -> None:
    """Write what this run is into a new folder; refuse a folder of another run."""
    file = folder / "identity.json"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(identity, indent=2) + "\n")
        return
    try:
        found = json.loads(file.read_text())
    except ValueError:
        found = None
    if found != identity:
        names = sorted(k for k in identity if not isinstance(found, dict) or found.get(k) != identity[k])
        raise UserError(
            f"this folder holds the state of another run; {', '.join(names) or 'its format'} differ",
            needed="another --out, or delete it", file=folder,
        )  # fmt: skip
