# SPDX-License-Identifier: Apache-2.0
"""Where a checkpoint lies: a local folder, or the cache folder of a hub id."""

import os
import re
from pathlib import Path

from vllm_dflash.checkpoint.hub import fetch_small_files
from vllm_dflash.errors import UserError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def is_hub_id(path: str | Path) -> bool:
    """Whether `path` is to be looked up on the hub: no such file here, and it looks like owner/name."""
    try:
        return not os.path.lexists(path) and HUB_ID.fullmatch(str(path)) is not None
    except ValueError:
        return False


def locate(path: str | Path, *, revision: str | None = None) -> Path:
    """Local folder of a checkpoint. Raises UserError when there is none or it cannot be fetched.

    A hub id is looked up through huggingface_hub, which honours HF_HUB_OFFLINE and its cache; only
    config.json and small side files are downloaded.
    """
    if is_hub_id(path):
        return fetch_small_files(str(path), revision)
    try:
        if Path(path).is_dir():
            return Path(path)
        exists = os.path.lexists(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot open {str(path)[:200]!r}: {error}") from None
    problem = "not a checkpoint folder" if exists else "no such folder"
    raise UserError(problem, field="path", found=str(path)[:200], needed="a folder or a hub id")
