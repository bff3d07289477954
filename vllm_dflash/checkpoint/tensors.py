# SPDX-License-Identifier: Apache-2.0
"""Which tensors a checkpoint folder holds, over all its safetensors files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.json_file import read_json_object
from vllm_dflash.checkpoint.safetensors_header import TensorInfo, read_safetensors_header
from vllm_dflash.errors import UserError

INDEX = "model.safetensors.index.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
SIDECARS = ("mask_embedding.pt", "training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth")
DOWNLOAD = "finish the download of the checkpoint"


@dataclass(frozen=True)
class Tensors:
    """Tensors by name (a leading "model." removed); `complete` is false when files are missing."""

    infos: Mapping[str, TensorInfo] = field(default_factory=dict)
    complete: bool = False
    findings: tuple[Finding, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.infos

    def shape(self, name: str) -> tuple[int, ...] | None:
        return self.infos[name].shape if name in self.infos else None

    def ending(self, suffix: str) -> list[str]:
        return [name for name in self.infos if name.endswith(suffix)]


def read_tensors(folder: Path) -> Tensors:
    """Headers of all safetensors files of a folder.

    A missing file is a finding (partial download), not an error. Raises UserError for a broken file, a tensor
    stored twice, an index that does not match its files, and weights that exist only as pickles.
    """
    names = _listing(folder)
    index = _read_index(folder) if INDEX in names else None
    wanted = (
        sorted(set(index.values()))
        if index is not None
        else sorted(n for n in names if n.endswith(".safetensors"))
    )
    missing = [name for name in wanted if name not in names]
    if not wanted:
        return _no_weights(folder, names)
    infos: dict[str, TensorInfo] = {}
    for name in wanted:
        if name not in missing:
            _merge(infos, read_safetensors_header(folder / name), folder)
    if index is not None:
        _check_index(index, infos, missing, folder)
    return Tensors(infos, not missing, tuple(_missing_shard(name, folder) for name in missing))


def _listing(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir() if entry.exists()}
    except OSError as error:
        raise UserError(f"cannot list {folder}: {error.strerror}", file=folder) from None


def _read_index(folder: Path) -> dict[str, str]:
    path = folder / INDEX
    weight_map = read_json_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise UserError(
            "the shard index has no usable weight_map", needed="{tensor name: file name}", file=path
        )
    for shard in set(weight_map.values()):
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise UserError(
                f"the shard index names {shard[:200]!r}",
                needed="a .safetensors file of the same folder",
                file=path,
            )
    return weight_map


def plain_name(name: str) -> str:
    return name.removeprefix("model.")


def _merge(infos: dict[str, TensorInfo], more: Mapping[str, TensorInfo], folder: Path) -> None:
    for name, info in more.items():
        other = infos.setdefault(plain_name(name), info)
        if other is not info:
            raise UserError(
                f"tensor {name[:200]!r} is stored twice: in {other.file} and in {info.file}", file=folder
            )


def _check_index(
    index: Mapping[str, str], infos: Mapping[str, TensorInfo], missing: list[str], folder: Path
) -> None:
    for name, shard in index.items():
        info = infos.get(plain_name(name))
        if shard not in missing and (info is None or info.file != shard):
            raise UserError(
                f"tensor {name[:200]!r} is not in {shard}, where the index puts it", file=folder / INDEX
            )


def _no_weights(folder: Path, names: set[str]) -> Tensors:
    pickles = sorted(n for n in names if n.endswith(PICKLE_SUFFIXES) and n not in SIDECARS)
    if pickles:
        raise UserError(
            f"the weights are a pickle ({pickles[0]}), which is not opened",
            needed="safetensors files",
            file=folder,
        )
    cause = "the checkpoint has no weights, so nothing could be checked against tensor shapes"
    return Tensors(
        findings=(Finding("WARNING", "weights", cause, f"no *.safetensors in {folder}", DOWNLOAD),)
    )


def _missing_shard(name: str, folder: Path) -> Finding:
    return Finding(
        "ERROR", "weights", f"the shard {name} is missing", f"{INDEX} names it, {folder} lacks it", DOWNLOAD
    )
