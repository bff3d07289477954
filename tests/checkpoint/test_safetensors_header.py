# SPDX-License-Identifier: Apache-2.0
"""Headers of safetensors files: what the library writes is read; everything else is one UserError."""

import io
import json
import pickle
import struct
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from vllm_dflash.checkpoint import TensorInfo, read_safetensors_header, read_tensors
from vllm_dflash.errors import UserError

INDEX = "model.safetensors.index.json"


def raw(header, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_a_real_file(tmp_path: Path):
    tensors = {
        "a": torch.zeros(2, 3, dtype=torch.bfloat16),
        "b": torch.zeros((), dtype=torch.float64),
        "c": torch.zeros(0, 5),
        "d": torch.zeros(7, dtype=torch.bool),
        "e": torch.zeros(4, dtype=torch.float8_e4m3fn),
    }
    save_file(tensors, tmp_path / "m.safetensors", metadata={"format": "pt"})
    found = read_safetensors_header(tmp_path / "m.safetensors")
    assert {name: info.shape for name, info in found.items()} == {n: tuple(t.shape) for n, t in tensors.items()}
    assert found["a"] == TensorInfo("BF16", (2, 3), "m.safetensors")
    assert [found[n].dtype for n in "bde"] == ["F64", "BOOL", "F8_E4M3"]


BROKEN = {
    "empty": (b"", "truncated: 0 bytes"),
    "seven bytes": (b"\0" * 7, "truncated: 7 bytes"),
    "only a length": (struct.pack("<Q", 100), "header claims 100 bytes, 0 are there"),
    "length 0": (raw(b""), "not valid JSON"),
    "huge length": (raw(b"{}", length=2**63), "more than the format allows"),
    "length at the limit": (raw(b"{}", length=100_000_000), "truncated"),
    "not JSON": (raw(b"{'a': 1}"), "not valid JSON"),
    "not UTF-8": (raw(b"\xff\xfe{}"), "UTF-8"),
    "a list": (raw([]), "not a JSON object"),
    "a number": (raw(3), "not a JSON object"),
    "NaN": (raw(b'{"a": NaN}'), "NaN is not JSON"),
    "deep": (raw(b'{"a":' + b"[" * 100_000), "header of"),
    "name twice": (raw(b'{"a": 1, "a": 2}'), "occurs twice"),
    "entry is text": (raw({"a": "x"}), "described by"),
    "no dtype": (raw({"a": {"shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4), "unknown dtype None"),
    "unknown dtype": (raw({"a": entry("Q4")}, b"\0" * 8), "unknown dtype 'Q4'"),
    "dtype is a list": (raw({"a": entry(["F32"])}, b"\0" * 8), "unknown dtype"),
    "shape negative": (raw({"a": entry(shape=[-2])}, b"\0" * 8), "shape"),
    "shape of text": (raw({"a": entry(shape=["2"])}, b"\0" * 8), "shape"),
    "shape of booleans": (raw({"a": entry(shape=[True, 2])}, b"\0" * 8), "shape"),
    "shape overflows": (raw({"a": entry(shape=[2**62, 2**62])}, b"\0" * 8), "does not fill"),
    "size lies": (raw({"a": entry(shape=[3])}, b"\0" * 8), "does not fill its 8 bytes"),
    "offsets reversed": (raw({"a": entry(offsets=[8, 0])}, b"\0" * 8), "data_offsets"),
    "offsets negative": (raw({"a": entry(offsets=[-8, 0])}, b"\0" * 8), "data_offsets"),
    "three offsets": (raw({"a": entry(offsets=[0, 4, 8])}, b"\0" * 8), "data_offsets"),
    "data truncated": (raw({"a": entry()}, b"\0" * 7), "truncated: 7 bytes of data, the header describes 8"),
    "data left over": (raw({"a": entry()}, b"\0" * 9), "longer than its header says"),
    "gap": (raw({"a": entry(), "b": entry(offsets=[16, 24])}, b"\0" * 24), "starts at byte 16"),
    "overlap": (raw({"a": entry(), "b": entry(offsets=[4, 12])}, b"\0" * 12), "starts at byte 4"),
    "pickle": (pickle.dumps({"a": 1}, protocol=4), "a pickle"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken(tmp_path: Path, case):
    data, words = BROKEN[case]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(UserError, match=words):
        read_safetensors_header(path)


def test_torch_file_under_a_safetensors_name(tmp_path: Path):
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer)
    (tmp_path / "model.safetensors").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match="a pickle"):
        read_tensors(tmp_path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path):
    save_file({"a": torch.zeros(3, 3), "b": torch.zeros(5)}, tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    for length in range(len(data)):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(UserError):
            read_safetensors_header(tmp_path / "cut")


def test_unreadable(tmp_path: Path):
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "loop.safetensors").symlink_to(tmp_path / "loop.safetensors")
    for name in ("folder.safetensors", "loop.safetensors", "absent.safetensors", "nul\0.safetensors"):
        with pytest.raises(UserError, match="cannot read"):
            read_safetensors_header(tmp_path / name)


def test_a_header_of_a_hundred_thousand_tensors_takes_a_moment(tmp_path: Path):
    header = {f"layers.{i}.w": entry(shape=[1], offsets=[4 * i, 4 * i + 4]) for i in range(100_000)}
    path = tmp_path / "m.safetensors"
    path.write_bytes(raw(header, b"\0" * 400_000))
    start = time.monotonic()
    assert len(read_safetensors_header(path)) == 100_000
    assert time.monotonic() - start < 10


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    save_file({"model.a": torch.zeros(2)}, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"b": torch.zeros(3)}, tmp_path / "model-00002-of-00002.safetensors")
    names = {"model.a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": names}))
    return tmp_path


def test_shards(shards: Path):
    tensors = read_tensors(shards)
    assert tensors.complete and set(tensors.infos) == {"a", "b"} and tensors.findings == ()


def test_shards_without_an_index(shards: Path):
    (shards / INDEX).unlink()
    assert set(read_tensors(shards).infos) == {"a", "b"}


def test_a_missing_shard_is_a_finding(shards: Path):
    (shards / "model-00002-of-00002.safetensors").unlink()
    tensors = read_tensors(shards)
    assert not tensors.complete and set(tensors.infos) == {"a"}
    assert [(f.level, "model-00002" in f.cause) for f in tensors.findings] == [("ERROR", True)]


def test_a_dangling_link_is_a_missing_shard(shards: Path):
    shard = shards / "model-00002-of-00002.safetensors"
    shard.unlink()
    shard.symlink_to(shards / "blob")
    assert not read_tensors(shards).complete


def test_a_tensor_in_two_shards(shards: Path):
    save_file({"b": torch.zeros(3), "a": torch.zeros(2)}, shards / "model-00002-of-00002.safetensors")
    with pytest.raises(UserError, match="stored twice"):
        read_tensors(shards)


@pytest.mark.parametrize(
    "index, words",
    [
        ({}, "no usable weight_map"),
        ({"weight_map": [1]}, "no usable weight_map"),
        ({"weight_map": {"a": 3}}, "no usable weight_map"),
        ({"weight_map": {"a": "../../secret.safetensors"}}, "same folder"),
        ({"weight_map": {"a": "/etc/passwd"}}, "same folder"),
        ({"weight_map": {"a": "model.bin"}}, "same folder"),
        ({"weight_map": {"zz": "model-00001-of-00002.safetensors"}}, "where the index puts it"),
    ],
)
def test_bad_index(shards: Path, index, words):
    (shards / INDEX).write_text(json.dumps(index))
    with pytest.raises(UserError, match=words):
        read_tensors(shards)


def test_only_pickled_weights(tmp_path: Path):
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pickle \(pytorch_model.bin\)"):
        read_tensors(tmp_path)


def test_no_weights_is_a_finding(tmp_path: Path):
    tensors = read_tensors(tmp_path)
    assert not tensors.complete and [f.level for f in tensors.findings] == ["WARNING"]
