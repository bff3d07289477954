# SPDX-License-Identifier: Apache-2.0
"""The conditions that a figure must be read with."""

import os
import shlex
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vllm_dflash.bench.options import Options
from vllm_dflash.environment import collect, device_line

CHECKOUT = Path(__file__).resolve().parents[2]


def describe(options: Options) -> dict[str, Any]:
    """describe_run, and this benchmark's options."""
    return describe_run() | {
        "options": {name: str(v) if isinstance(v, Path) else v for name, v in asdict(options).items()}
    }


def describe_run() -> dict[str, Any]:
    """Date, command, commit, device, and everything `vllm-dflash env` shows."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": without_folders(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])),
        "commit": commit(),
        "device": device_line(),
        **collect(),
    }


def commit() -> str | None:
    """Short hash of the checkout that this package runs from, "+" behind it when files were changed.

    A copy without its history may say it in GIT_COMMIT.
    """
    hashed = _git("rev-parse", "--short=12", "HEAD")
    if not hashed:
        return os.environ.get("GIT_COMMIT")
    return hashed + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def without_folders(text: str) -> str:
    """The same text without this machine's own folder names, fit to be published."""
    for folder, short in ((f"{CHECKOUT}/", ""), (str(CHECKOUT), "."), (str(Path.home()), "~")):
        text = text.replace(folder, short)
    return text


def _git(*arguments: str) -> str | None:
    if not (CHECKOUT / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(CHECKOUT), *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
