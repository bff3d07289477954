# SPDX-License-Identifier: Apache-2.0
"""A record of what a folder was made from and what was written to it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

MANIFEST_NAME = "dflash_manifest.json"
_EDGE_BYTES = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """One written file: `bytes` long, `sha256` of all of it, `edges` = SHA-256 of its first and last MiB."""

    bytes: int
    sha256: str
    edges: str


@dataclass(frozen=True)
class Manifest:
    """`inputs` decide whether a folder is up to date; `files` decide whether it is intact."""

    inputs: dict[str, str | int | None]
    files: dict[str, FileRecord]


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_EDGE_BYTES):
            digest.update(block)
    return digest.hexdigest()


def write_manifest(folder: Path, inputs: dict[str, str | int | None]) -> Manifest:
    """Records every file in `folder` (not its sub-folders) in `dflash_manifest.json`."""
    files = {p.name: _record(p) for p in sorted(folder.iterdir()) if p.is_file() and p.name != MANIFEST_NAME}
    manifest = Manifest(inputs, files)
    (folder / MANIFEST_NAME).write_text(json.dumps(asdict(manifest), indent=2, sort_keys=True) + "\n")
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """The folder's manifest, or None when it is missing or unreadable."""
    try:
        raw = json.loads((folder / MANIFEST_NAME).read_text())
        files = {name: FileRecord(**record) for name, record in raw["files"].items()}
        return Manifest(dict(raw["inputs"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def first_fault(folder: Path, inputs: dict[str, str | int | None], full: bool = False) -> str | None:
    """Why `folder` cannot be used as the product of `inputs`, or None when it can.

    Args:
        full: hash every byte. Otherwise a file over 2 MiB is checked by its size and its first and last MiB.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return f"{MANIFEST_NAME} is missing or unreadable"
    for key in sorted(inputs.keys() | manifest.inputs.keys()):
        if manifest.inputs.get(key) != inputs.get(key):
            return f"{key} was {manifest.inputs.get(key)}, now {inputs.get(key)}"
    for name, record in manifest.files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != record.bytes:
            return f"{name} has {path.stat().st_size} bytes, not {record.bytes}"
        if _edges_of(path) != record.edges or (full and sha256_of(path) != record.sha256):
            return f"{name} has changed"
    return None


def _record(path: Path) -> FileRecord:
    return FileRecord(path.stat().st_size, sha256_of(path), _edges_of(path))


def _edges_of(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as stream:
        digest = hashlib.sha256(stream.read(_EDGE_BYTES))
        stream.seek(max(_EDGE_BYTES, size - _EDGE_BYTES))
        digest.update(stream.read())
    return digest.hexdigest()
