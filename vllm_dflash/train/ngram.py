# SPDX-License-Identifier: Apache-2.0
"""The control: a drafter that only copies what the text has said before (prompt lookup)."""

import numpy as np


def ngram_drafts(tokens: np.ndarray, first: int, k: int, longest: int = 3) -> np.ndarray:
    """Prompt-lookup drafts at every anchor of one sequence.

    At anchor p the longest suffix (1 to `longest` tokens) of tokens[: p + 1] that occurs earlier there is
    looked up, its earliest occurrence wins, and the up to k tokens that followed it are the draft; this is
    the rule of vLLM's n-gram speculation.

    Args:
        tokens: integer [S]; first: the first anchor; k: drafts wanted.

    Returns:
        int64 [S, k], row p for anchor p; -1 where there is no draft.
    """
    drafts = np.full((len(tokens), k), -1, dtype=np.int64)
    text = tokens.tolist()
    ends: dict[tuple[int, ...], int] = {}
    for p in range(len(text)):
        suffixes = [tuple(text[p + 1 - n : p + 1]) for n in range(longest, 0, -1) if p + 1 >= n]
        if p >= first:
            end = next((ends[s] for s in suffixes if s in ends), None)
            if end is not None:
                followed = text[end + 1 : min(end + 1 + k, p + 1)]
                drafts[p, : len(followed)] = followed
        for suffix in suffixes:
            ends.setdefault(suffix, p)
    return drafts
