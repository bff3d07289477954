# SPDX-License-Identifier: Apache-2.0
"""The demo's target and drafter, made once and checked on every use."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from vllm_dflash.demo.gguf_source import checked_sha256, locate_gguf
from vllm_dflash.demo.manifest import first_fault
from vllm_dflash.demo.target import Variant, prepare_target, target_inputs
from vllm_dflash.errors import UserError

CACHE_VARIABLE = "VLLM_DFLASH_CACHE"
DRAFTER_FOLDER = "demo/drafter"
MTP_FILE = "demo/mtp/model.safetensors"
TRAIN_DEMO = "scripts/train_demo.sh demo"

_FOLDERS: dict[Variant, str] = {"llama": "smollm2-135m-instruct", "mimo": "smollm2-135m-instruct-mimo"}
_UNFINISHED, _REPLACED = ".unfinished-", ".replaced-"


@dataclass(frozen=True)
class DemoPair:
    """Folders that vLLM can load: the target, the same target with an MTP head, and the DFlash drafter."""

    target: Path
    mtp_target: Path
    drafter: Path


def default_cache() -> Path:
    """`$VLLM_DFLASH_CACHE`, or `~/.cache/vllm-draft-demo`.

    Not a path with "dflash" in it: vLLM (0.32, 0.33) takes a draft model under such a path for a DFlash drafter
    whatever method was asked for, and for MTP the target is the draft model.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/vllm-draft-demo").expanduser()


def default_repo() -> Path:
    """The checkout that holds this package when it has a folder `demo`, else the current folder."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "demo").is_dir() else Path.cwd()


def prepare_pair(
    cache: Path | None = None, repo: Path | None = None, *, full_check: bool = False
) -> DemoPair:
    """Makes, or finds and checks, everything that the demo needs.

    Args:
        cache: where targets go; default `default_cache()`.
        repo: holds `demo/drafter` and `demo/mtp/model.safetensors`; default `default_repo()`.
        full_check: hash every byte of a target that is already there.

    Raises:
        UserError: something is missing (says which command makes it), damaged, or cannot be written.
    """
    root = repo or default_repo()
    drafter, mtp = root / DRAFTER_FOLDER, root / MTP_FILE
    if not (drafter / "config.json").is_file() or not (drafter / "model.safetensors").is_file():
        raise UserError(f"the demo drafter is missing: `{TRAIN_DEMO}` makes it", file=drafter)
    if not mtp.is_file():
        raise UserError(f"the demo MTP head is missing: `{TRAIN_DEMO}` makes it", file=mtp)
    target = cached_target("llama", cache=cache, full_check=full_check)
    mtp_target = cached_target("mimo", mtp, cache=cache, full_check=full_check)
    return DemoPair(target, mtp_target, drafter)


def cached_target(
    variant: Variant, mtp: Path | None = None, *, cache: Path | None = None, full_check: bool = False
) -> Path:
    """The target folder in the cache, made again when its inputs changed or a file in it did.

    Two processes may call this at once: one works, the other waits. A folder appears only when complete.
    """
    root = cache or default_cache()
    folder = root / _FOLDERS[variant]
    gguf = locate_gguf()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _only_process(root):
            fault = first_fault(folder, target_inputs(checked_sha256(gguf), variant, mtp), full_check)
            if fault is None:
                return folder
            if folder.exists():
                print(f"making {folder} again: {fault}", file=sys.stderr)
            _remove_leftovers(root)
            unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=root))
            prepare_target(unfinished / folder.name, variant, mtp, gguf=gguf)
            _replace(folder, unfinished / folder.name)
            _remove_leftovers(root)
    except OSError as error:
        raise UserError(f"cannot write the demo target: {error.strerror or error}", file=folder) from error
    return folder


@contextmanager
def _only_process(root: Path) -> Iterator[None]:
    lock = FileLock(root / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"waiting for another process that is preparing {root}", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _replace(folder: Path, finished: Path) -> None:
    if folder.exists():
        folder.rename(Path(tempfile.mkdtemp(prefix=_REPLACED, dir=folder.parent)) / folder.name)
    finished.rename(folder)


def _remove_leftovers(root: Path) -> None:
    for prefix in (_UNFINISHED, _REPLACED):
        for leftover in root.glob(f"{prefix}*"):
            shutil.rmtree(leftover, ignore_errors=True)
