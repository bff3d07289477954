# SPDX-License-Identifier: Apache-2.0
"""Saving a run half way, and going on from there as if it had never stopped."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vllm_dflash.errors import UserError


def save_state(
    out: Path,
    step: int,
    seconds: float,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    identity: dict[str, Any],
) -> None:
    """Write OUT/state/last.pt.

    The order of data, the anchors and the learning rate follow from the step: no generator state is needed.
    """
    folder = out / "state"
    folder.mkdir(exist_ok=True)
    state = {
        "step": step,
        "seconds": seconds,
        "identity": json.dumps(identity, sort_keys=True),
        "module": module.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(state, folder / "partial.pt")
    (folder / "partial.pt").replace(folder / "last.pt")


def load_state(
    out: Path, module: nn.Module, optimizer: torch.optim.Optimizer, identity: dict[str, Any]
) -> tuple[int, float]:
    """Restore module and optimizer; returns steps done and seconds spent.

    Raises:
        UserError: no checkpoint, or one of a run with other options (each difference is named).
    """
    file = out / "state" / "last.pt"
    check_resume(out, identity)
    device = next(module.parameters()).device
    state = torch.load(file, map_location=device, weights_only=True)
    module.load_state_dict(state["module"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["seconds"]


def check_resume(out: Path, identity: dict[str, Any]) -> None:
    """Raises UserError unless OUT holds a checkpoint made with the same options."""
    file = out / "state" / "last.pt"
    if not file.is_file():
        raise UserError("nothing to resume", field="resume", found=str(file), needed="a checkpoint")
    stored = torch.load(file, map_location="cpu", weights_only=True, mmap=True)["identity"]
    before, now = json.loads(stored), json.loads(json.dumps(identity, sort_keys=True))
    different = {key: (before.get(key), now[key]) for key in now if before.get(key) != now[key]}
    if different:
        text = ", ".join(f"{key} was {old!r}, is {new!r}" for key, (old, new) in sorted(different.items()))
        raise UserError(f"the run to resume had other options: {text}", file=file)
