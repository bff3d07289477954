# SPDX-License-Identifier: Apache-2.0
"""Names, dtypes and shapes of the tensors in a safetensors file, from its header; no weights are read.

Layout (safetensors format): 8 bytes little-endian header length n, n bytes of JSON
{name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {str: str}}, then the data, which the
offsets must cover without gaps or overlaps.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from vllm_dflash.checkpoint.json_file import parse_object
from vllm_dflash.checkpoint.section import Brief
from vllm_dflash.errors import UserError

LARGEST_HEADER_BYTES = 100_000_000  # the format's own limit
DTYPE_BITS = (
    {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
    | dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8)
    | dict.fromkeys(("U16", "I16", "F16", "BF16"), 16)
    | dict.fromkeys(("U32", "I32", "F32"), 32)
    | dict.fromkeys(("U64", "I64", "F64", "C64"), 64)
)


@dataclass(frozen=True)
class TensorInfo:
    """One stored tensor: safetensors dtype name ("BF16"), shape, and the name of its file."""

    dtype: str
    shape: tuple[int, ...]
    file: str


def read_safetensors_header(path: Path) -> dict[str, TensorInfo]:
    """Tensor name -> TensorInfo. Raises UserError for anything that is not a whole, consistent file."""
    try:
        with open(path, "rb") as file:
            header, data_bytes = _read_header(file, path)
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"cannot read {path.name}: {getattr(error, 'strerror', None) or error}", file=path
        ) from None
    header.pop("__metadata__", None)
    spans = sorted(_span(name, entry, path) for name, entry in header.items())
    position = 0
    for begin, end, name in spans:
        if begin != position:
            _bad(path, f"tensor {name[:200]!r} starts at byte {begin}, the one before it ends at {position}")
        position = end
    if position != data_bytes:
        problem = "truncated" if position > data_bytes else "longer than its header says"
        _bad(path, f"the file is {problem}: {data_bytes} bytes of data, the header describes {position}")
    return {
        name: TensorInfo(entry["dtype"], tuple(entry["shape"]), path.name) for name, entry in header.items()
    }


def _read_header(file: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    if start[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        _bad(path, "this is a pickle (torch.save), not safetensors; convert it, pickles are not opened")
    if len(start) < 8:
        _bad(path, f"the file is truncated: {size} bytes")
    length = int.from_bytes(start, "little")
    if length > LARGEST_HEADER_BYTES:
        _bad(path, f"the header claims {length} bytes, more than the format allows ({LARGEST_HEADER_BYTES})")
    if length > size - 8:
        _bad(path, f"the file is truncated: the header claims {length} bytes, {max(size - 8, 0)} are there")
    data = file.read(length)
    return parse_object(data, path, f"the header of {path.name}"), size - 8 - length


def _span(name: str, entry: Any, path: Path) -> tuple[int, int, str]:
    label = repr(name[:200])
    if not isinstance(entry, dict):
        _bad(path, f"tensor {label} is described by {Brief(entry)!r}")
    dtype: Any
    shape: Any
    offsets: Any
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        _bad(path, f"tensor {label} has the unknown dtype {Brief(dtype)!r}")
    if not _sizes(shape) or len(shape) > 16:
        _bad(path, f"tensor {label} has the shape {Brief(shape)!r}")
    if not _sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        _bad(path, f"tensor {label} has the data_offsets {Brief(offsets)!r}")
    begin, end = offsets
    if math.prod(shape) * DTYPE_BITS[dtype] != (end - begin) * 8:
        _bad(path, f"tensor {label} of {dtype} {Brief(shape)!r} does not fill its {end - begin} bytes")
    return begin, end, name


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**63 for v in value)


def _bad(path: Path, problem: str) -> NoReturn:
    raise UserError(f"{path.name} is not a usable safetensors file: {problem}", file=path)
