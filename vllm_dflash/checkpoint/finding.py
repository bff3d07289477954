# SPDX-License-Identifier: Apache-2.0
"""Something worth telling about a drafter that could be read."""

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ERROR", "WARNING", "NOTE"]


@dataclass(frozen=True)
class Finding:
    """One observation, for `doctor` and for the log at start.

    level: ERROR will not serve, or serves something else than was trained; WARNING may; NOTE informs.
    field: the field it is about ("layers.0.window").
    cause: what is the matter, in one sentence.
    evidence: the values seen, with their place.
    remedy: what to do about it.
    """

    level: Level
    field: str
    cause: str
    evidence: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)
