# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from vllm_dflash.demo.manifest import MANIFEST_NAME, first_fault, write_manifest

MIB = 1 << 20
INPUTS: dict[str, str | int | None] = {"gguf_sha256": "aa", "converter_version": 1, "mtp_sha256": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "big.bin").write_bytes(bytes(5 * MIB))
    (tmp_path / "small.json").write_text("{}")
    write_manifest(tmp_path, INPUTS)
    return tmp_path


def change_byte(path: Path, offset: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\x01")


def test_an_intact_folder_has_no_fault(folder: Path) -> None:
    assert first_fault(folder, INPUTS) is None
    assert first_fault(folder, INPUTS, full=True) is None


@pytest.mark.parametrize("offset", [0, MIB - 1, 4 * MIB, 5 * MIB - 1])
def test_the_quick_check_sees_the_edges(folder: Path, offset: int) -> None:
    change_byte(folder / "big.bin", offset)
    assert first_fault(folder, INPUTS) == "big.bin has changed"


def test_the_full_check_sees_every_byte(folder: Path) -> None:
    change_byte(folder / "big.bin", 2 * MIB)
    assert first_fault(folder, INPUTS) is None
    assert first_fault(folder, INPUTS, full=True) == "big.bin has changed"


def test_missing_and_resized_files(folder: Path) -> None:
    (folder / "small.json").write_text("{ }")
    assert first_fault(folder, INPUTS) == "small.json has 3 bytes, not 2"
    (folder / "small.json").unlink()
    assert first_fault(folder, INPUTS) == "small.json is missing"


def test_other_inputs_are_named(folder: Path) -> None:
    assert first_fault(folder, INPUTS | {"gguf_sha256": "bb"}) == "gguf_sha256 was aa, now bb"
    assert first_fault(folder, INPUTS | {"new": 1}) == "new was None, now 1"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"inputs": {}, "files": {"a": {"bytes": 1}}}', "\x00"])
def test_an_unreadable_manifest(folder: Path, text: str) -> None:
    (folder / MANIFEST_NAME).write_text(text)
    assert first_fault(folder, INPUTS) == f"{MANIFEST_NAME} is missing or unreadable"
