# SPDX-License-Identifier: Apache-2.0
"""Open a drafter checkpoint, local or on the hub."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_dflash.checkpoint.draft_config import DraftConfig
from vllm_dflash.checkpoint.foreign import foreign_name
from vllm_dflash.checkpoint.hub import fetch_headers
from vllm_dflash.checkpoint.json_file import read_json_object
from vllm_dflash.checkpoint.location import is_hub_id, locate
from vllm_dflash.checkpoint.raw import open_raw
from vllm_dflash.checkpoint.resolve import resolve
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.checkpoint.tensors import Tensors, plain_name, read_tensors
from vllm_dflash.errors import UserError


def load_draft_config(
    path: str | Path, *, target: TargetConfig | None = None, revision: str | None = None
) -> DraftConfig:
    """Read what a drafter checkpoint says: config.json and safetensors headers, no weights.

    Args:
        path: folder or hub id.
        target: when given, sizes, taps and vocabulary are checked against it, and the factors that its family
            puts on shared embeddings and logits are taken over.
        revision: of a hub id.

    Raises UserError for anything that cannot be read, contradicts itself, does not fit, or that no rule
    settles.
    """
    folder = locate(path, revision=revision)
    values = _read_config(folder)
    foreign = foreign_name(values)
    if foreign is not None:
        raise UserError(
            f"this is a {foreign} drafter; it is handed back to vLLM untouched", file=folder / "config.json"
        )
    return resolve(open_raw(values, folder, _tensors(path, folder, revision)), target)


def is_foreign_draft(path: str | Path, *, revision: str | None = None) -> str | None:
    """Name of the relative of DFlash that a checkpoint is ("DFlash2", "DSpark", "XPress", ...), or None."""
    return foreign_name(read_draft_json(path, revision=revision))


def read_draft_json(path: str | Path, *, revision: str | None = None) -> dict[str, Any]:
    """The raw config.json of a drafter. Raises UserError when there is none or it is not a JSON object."""
    return _read_config(locate(path, revision=revision))


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        path.lstat()
    except FileNotFoundError:
        remedy = "`vllm-dflash recover` can rebuild it from the weights"
        raise UserError(f"the drafter has no config.json; {remedy}", file=folder) from None
    except OSError as error:
        raise UserError(f"cannot read config.json: {error.strerror}", file=folder) from None
    return read_json_object(path)


def _tensors(path: str | Path, folder: Path, revision: str | None) -> Tensors:
    tensors = read_tensors(folder)
    if tensors.complete or not is_hub_id(path):
        return tensors
    infos = fetch_headers(str(path), revision)
    if infos is None:
        return tensors
    return replace(tensors, infos={plain_name(n): i for n, i in infos.items()}, complete=True, findings=())
