# SPDX-License-Identifier: Apache-2.0
"""The table as a picture."""

from collections.abc import Sequence
from pathlib import Path

from vllm_dflash.bench.rows import Row


def plot(rows: Sequence[Row], title: str, file: Path) -> None:
    """Tokens/s of each running request, with the spread of the repeats, and acceptance by position.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    measured = [row for row in rows if row.tokens_per_s is not None]
    labels = list(dict.fromkeys(row.label for row in measured))
    counts = list(dict.fromkeys(row.concurrency for row in measured))
    colours = {label: f"C{i}" for i, label in enumerate(labels)}
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), gridspec_kw={"width_ratios": [3, 2]})
    width = 0.8 / max(1, len(labels))
    for row in measured:
        assert row.tokens_per_s is not None
        at = counts.index(row.concurrency) + (labels.index(row.label) - (len(labels) - 1) / 2) * width
        spread = row.tokens_per_s
        share = 1 / (row.concurrency or 1)
        error = [[(spread.middle - spread.low) * share], [(spread.high - spread.middle) * share]]
        left.bar(at, spread.middle * share, width * 0.92, yerr=error, capsize=2, color=colours[row.label])
        if row.speed_up is not None and row.speed_up != 1:
            text = f"{row.speed_up:.2f}x"
            left.annotate(text, (at, spread.high * share), ha="center", va="bottom", fontsize=8)
    left.set_xticks(range(len(counts)), [str(c) for c in counts])
    left.set_xlabel("requests running")
    left.set_ylabel("tokens/s of each request (bar: median, line: min to max)")
    left.margins(y=0.12)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in colours.values()]
    left.legend(handles, labels, fontsize=8)
    for row in measured:
        if row.rate_by_position and row.concurrency == counts[0]:
            positions = range(1, len(row.rate_by_position) + 1)
            label = f"{row.label}, length {row.acceptance_length or 0:.2f}"
            right.plot(positions, row.rate_by_position, "o-", color=colours[row.label], label=label)
    right.set_ylim(0, 1)
    right.set_xlabel("position in the draft")
    right.set_ylabel(f"accepted share ({counts[0] if counts else '-'} running)")
    right.grid(alpha=0.3)
    if right.lines:
        right.legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)
