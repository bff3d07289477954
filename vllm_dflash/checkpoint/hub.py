# SPDX-License-Identifier: Apache-2.0
"""Small files and tensor headers of a hub repository, through huggingface_hub (imported only when needed)."""

from pathlib import Path

from vllm_dflash.checkpoint.safetensors_header import TensorInfo
from vllm_dflash.errors import UserError

SIDE_FILES = ("mask_embedding.pt",)


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
        return f"{at} is no local folder, is not in the hub cache, and the hub cannot be reached (offline?)"
    if isinstance(error, errors.EntryNotFoundError):
        return f"{at} has no config.json; download the weights and rebuild it with `vllm-dflash recover`"
    return f"{at} could not be fetched: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
