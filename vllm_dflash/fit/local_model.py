# SPDX-License-Identifier: Apache-2.0
"""A model folder with its weights in it, of a local path or a hub id."""

from pathlib import Path

from vllm_dflash.checkpoint.hub import fetch_model
from vllm_dflash.checkpoint.json_file import read_json_object
from vllm_dflash.checkpoint.location import is_hub_id, locate
from vllm_dflash.checkpoint.tensors import INDEX
from vllm_dflash.errors import UserError

SHOWN = 3


def local_model(path: str | Path, revision: str | None = None) -> Path:
    """Downloads what is missing when `path` is a hub id. Raises UserError when there is no such model."""
    return fetch_model(str(path), revision) if is_hub_id(path) else locate(path, revision=revision)


def check_weights(folder: Path, whose: str) -> None:
    """Raises UserError naming the safetensors files that are not in the folder."""
    wanted = {"model.safetensors"}
    if (folder / INDEX).is_file():
        shards = read_json_object(folder / INDEX).get("weight_map")
        wanted = {str(name) for name in shards.values()} if isinstance(shards, dict) else wanted
    elif any(file.is_file() for file in folder.glob("*.safetensors")):
        return
    missing = sorted(name for name in wanted if not (folder / name).is_file())
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise UserError(
            f"{whose} weights are not all here", field="weights", found=f"no {', '.join(missing[:SHOWN])}{more}",
            needed="the whole download", file=folder,
        )  # fmt: skip
