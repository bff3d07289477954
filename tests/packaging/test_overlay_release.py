# SPDX-License-Identifier: Apache-2.0
"""scripts/overlay_release.py on made-up releases."""

import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "overlay_release.py"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    source, build = tmp_path / "source", tmp_path / "build"
    for folder, text in ((source, "new"), (build, "old")):
        (folder / "vllm").mkdir(parents=True)
        (folder / "vllm" / "__init__.py").write_text(text)
        (folder / "vllm" / "_C.abi3.so").write_text(f"compiled with {text}")
    info = source / "vllm-0.33.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: vllm\nVersion: 0.33.0\n")
    return source, build, tmp_path / "out"


def run(*folders: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, SCRIPT, *folders], capture_output=True, text=True, check=False)


def test_python_of_one_and_extensions_of_the_other(folders: tuple[Path, Path, Path]) -> None:
    done = run(*folders)
    assert done.returncode == 0, done.stderr
    out = folders[2]
    assert (out / "vllm" / "__init__.py").read_text() == "new"
    assert (out / "vllm" / "_C.abi3.so").read_text() == "compiled with old"
    assert Distribution.at(out / "vllm-0.33.0+cpu.dist-info").version == "0.33.0+cpu"


@pytest.mark.parametrize("wrong", ["no metadata", "two releases", "no version", "no extensions", "there already"])
def test_what_is_wrong_is_one_line(folders: tuple[Path, Path, Path], wrong: str) -> None:
    source, build, out = folders
    metadata = source / "vllm-0.33.0.dist-info" / "METADATA"
    if wrong == "no metadata":
        metadata.unlink()
    elif wrong == "two releases":
        (source / "vllm-0.32.0.dist-info").mkdir()
    elif wrong == "no version":
        metadata.write_text("Name: vllm\n")
    elif wrong == "no extensions":
        (build / "vllm" / "_C.abi3.so").unlink()
    else:
        (out / "vllm").mkdir(parents=True)
    done = run(source, build, out)
    assert done.returncode == 1
    assert done.stderr.startswith("overlay_release: ") and done.stderr.count("\n") == 1
