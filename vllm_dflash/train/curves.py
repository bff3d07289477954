# SPDX-License-Identifier: Apache-2.0
"""The loss log as a picture."""

import json
from pathlib import Path


def plot_curves(log: Path, picture: Path, title: str) -> None:
    """Over steps: loss and learning rate on the left, acceptance by position and its length on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [line["step"] for line in lines]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.plot(steps, [line["loss"] for line in lines], color="tab:blue")
    left.set(xlabel="step", ylabel="weighted loss (nats)", title=f"{title}: training loss")
    rate = left.twinx()
    rate.plot(steps, [line["lr"] for line in lines], color="tab:gray", linewidth=0.8, linestyle="--")
    rate.set_ylabel("learning rate")
    for position in range(len(lines[0]["acceptance"]) if lines else 0):
        right.plot(
            steps, [line["acceptance"][position] for line in lines], linewidth=0.9, label=str(position + 1)
        )
    right.set(
        xlabel="step",
        ylabel="share of drafts that stand",
        title="acceptance on training batches",
        ylim=(0, 1),
    )
    if lines:
        right.legend(title="position", fontsize=7, ncols=2)
    length = right.twinx()
    length.plot(steps, [line["acceptance_length"] for line in lines], color="black", linewidth=1.2)
    length.set_ylabel("acceptance length (black)")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
