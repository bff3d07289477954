# SPDX-License-Identifier: Apache-2.0
"""Files and tensor headers of a hub repository, through huggingface_hub (imported only when needed)."""

from pathlib import Path

from vllm_dflash.checkpoint.safetensors_header import TensorInfo
from vllm_dflash.errors import UserError

SIDE_FILES = ("mask_embedding.pt",)
MODEL_FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", *SIDE_FILES)
NO_CONFIG = "has no config.json; that of a drafter can be rebuilt from its weights: `vllm-dflash recover`"


def fetch_small_files(repository: str, revision: str | None) -> Path:
    """Snapshot folder of a repository with config.json and side files present. Raises UserError otherwise."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        config = hf_hub_download(repository, "config.json", revision=revision)
        for name in SIDE_FILES:
            try:
                hf_hub_download(repository, name, revision=revision)
            except (EntryNotFoundError, LocalEntryNotFoundError):
                continue
    except Exception as error:
        raise UserError(explain_hub_error(error, repository, revision)) from None
    return Path(config).parent


def fetch_model(repository: str, revision: str | None = None) -> Path:
    """Snapshot folder with weights, tokenizer and whatever config there is; what is cached is not fetched again.

    Raises UserError when it cannot be fetched. Offline, older releases of huggingface_hub return what an interrupted
    download left: the caller checks that no file is missing.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(MODEL_FILES)))
    except Exception as error:
        raise UserError(explain_hub_error(error, repository, revision)) from None


def fetch_headers(repository: str, revision: str | None) -> dict[str, TensorInfo] | None:
    """Tensors of a repository whose weights are not downloaded, by range requests; None when that fails."""
    from huggingface_hub import HfApi

    try:
        files = HfApi().get_safetensors_metadata(repository, revision=revision).files_metadata
        return {
            name: TensorInfo(info.dtype, tuple(info.shape), file)
            for file, metadata in files.items()
            for name, info in metadata.tensors.items()
        }
    except Exception:  # offline, no safetensors, an old server: the caller goes on without shapes and says so
        return None


def explain_hub_error(error: Exception, repository: str, revision: str | None) -> str:
    """One sentence for a failed download, with what to do."""
    from huggingface_hub import errors

    at = f"{repository} (revision {revision})" if revision else repository
    if isinstance(error, errors.GatedRepoError):
        return f"{at} is gated: accept its licence on its page, then `hf auth login` or set HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{at} is neither a local folder nor a repository that you can see; check the name, or log in"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{at}: there is no such revision"
    if isinstance(error, (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled)):
        if _has_no_config(repository, revision):
            return f"{at} {NO_CONFIG}"
        if _is_cached(repository):
            remedy = f"finish the download with `hf download {repository}`"
            return f"only a part of {at} is in the hub cache, and the hub cannot be reached (offline?); {remedy}"
        return f"{at} is no local folder, is not in the hub cache, and the hub cannot be reached (offline?)"
    if isinstance(error, errors.EntryNotFoundError):
        return f"{at} {NO_CONFIG}"
    return f"{at} could not be fetched: {type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _is_cached(repository: str) -> bool:
    """Whether any file of any revision is."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    snapshots = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repository, repo_type="model"), "snapshots")
    return next(snapshots.glob("*/*"), None) is not None


def _has_no_config(repository: str, revision: str | None) -> bool:
    """Whether the hub said so on an earlier visit, which the cache remembers."""
    from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache

    return try_to_load_from_cache(repository, "config.json", revision=revision) is _CACHED_NO_EXIST
