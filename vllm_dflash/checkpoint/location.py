# SPDX-License-Identifier: Apache-2.0
"""Where a checkpoint lies: a local folder, or a hub id fetched into the local cache (small files only)."""

import os
import re
from pathlib import Path

from vllm_dflash.errors import UserError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
SMALL_FILES = (
    "mask_embedding.pt",
    "model.safetensors.index.json",
    "tokenizer_config.json",
    "generation_config.json",
)


def locate(path: str | Path, *, revision: str | None = None) -> Path:
    """Local folder of a checkpoint. Raises UserError when there is none or it cannot be fetched.

    A hub id is looked up through huggingface_hub, which honours HF_HUB_OFFLINE and its cache; only config.json and
    small side files are downloaded.
    """
    folder = Path(path)
    try:
        is_folder, exists = folder.is_dir(), os.path.lexists(folder)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot open {str(path)[:200]!r}: {error}") from None
    if is_folder:
        return folder
    if exists:
        raise UserError("not a checkpoint folder", field="path", found=str(path)[:200], needed="a folder")
    if not HUB_ID.fullmatch(str(path)):
        raise UserError("no such folder", field="path", found=str(path)[:200], needed="a folder or a hub id")
    return fetch_small_files(str(path), revision)


def fetch_small_files(repository: str, revision: str | None) -> Path:
    """Snapshot folder of a hub repository, with config.json and side files present."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        config = hf_hub_download(repository, "config.json", revision=revision)
    except Exception as error:
        raise UserError(explain_hub_error(error, repository, revision)) from None
    for name in SMALL_FILES:
        try:
            hf_hub_download(repository, name, revision=revision)
        except (EntryNotFoundError, LocalEntryNotFoundError):
            continue
        except Exception as error:
            raise UserError(explain_hub_error(error, repository, revision)) from None
    return Path(config).parent


def explain_hub_error(error: Exception, repository: str, revision: str | None) -> str:
    """One sentence for a failed download, with what to do."""
    from huggingface_hub import errors

    at = f"{repository} (revision {revision})" if revision else repository
    if isinstance(error, errors.GatedRepoError):
        return f"{at} is gated: accept its licence on its hub page, then log in with `hf auth login` or set HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{at} is neither a local folder nor a repository you can see; check the name, log in if it is private"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{at}: there is no such revision"
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"{at} is not in the local cache and the hub cannot be reached (offline?); download it first"
    if isinstance(error, errors.EntryNotFoundError):
        return f"{at} has no config.json; `vllm-dflash recover` can rebuild one from downloaded weights"
    return f"{at} could not be fetched: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
