# SPDX-License-Identifier: Apache-2.0
"""A machine that cannot compile still installs, with one line that says why, and then uses the torch path."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_dflash import environment
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import native

ROOT = Path(__file__).parents[2]


def build(into: Path, **variables: str) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[str, str]]]:
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", into / "lib", "--build-temp", into / "temp"],
        cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    record = into / "lib" / "vllm_dflash" / "_native" / "build.json"
    assert record.exists(), done.stdout + done.stderr
    return done, json.loads(record.read_text())


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("vllm-dflash:")]


def test_without_a_compiler(tmp_path: Path) -> None:
    done, record = build(tmp_path, PATH=str(tmp_path), CXX="", CUDACXX="")
    assert done.returncode == 0
    assert complaints(done)[0] == "vllm-dflash: cpu kernels not built: no C++ compiler (c++, g++ or clang++)"
    assert record["cpu"] == {"problem": "no C++ compiler (c++, g++ or clang++)"}
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("ninja") is None, reason="needs cmake and ninja")
def test_with_a_compiler_that_does_not_work(tmp_path: Path) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho 'error: this compiler is broken' >&2\nexit 1\n")
    broken.chmod(0o755)
    done, record = build(tmp_path, CXX=str(broken), VLLM_DFLASH_BUILD="cpu")
    assert done.returncode == 0
    assert len(complaints(done)) == 2
    assert "rror" in record["cpu"]["problem"]
    assert record["cuda"] == {"problem": "left out by VLLM_DFLASH_BUILD=cpu"}


@pytest.fixture
def no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "build.json"
    record.write_text(json.dumps({"cpu": {"problem": "no C++ compiler"}, "cuda": {"problem": "no nvcc"}}))
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "libdflash_cpu.so")
    monkeypatch.setattr(native, "RECORD", record)
    for cached in (native.library, native.problem):
        cached.cache_clear()
        monkeypatch.setattr(native, cached.__name__, cached.__wrapped__)


@pytest.mark.usefixtures("no_library")
def test_what_was_not_built_is_said_with_the_reason() -> None:
    assert native.problem() == "the CPU kernels are not built: no C++ compiler"
    with pytest.raises(UserError, match="the CPU kernels are not built: no C\\+\\+ compiler"):
        native.library()
    found = environment.kernels()
    assert found["cpu"] == "none, so the torch path runs: the CPU kernels are not built: no C++ compiler"
    assert found["cuda"] == "none: no nvcc"


@pytest.mark.usefixtures("no_library")
def test_a_library_that_does_not_load_is_said_too() -> None:
    native.LIBRARY.write_text("not a library")
    assert str(native.problem()).startswith("the CPU kernels do not load: ")


@pytest.mark.skipif(native.problem() is not None, reason="no compiled kernels")
@pytest.mark.parametrize("name", ["scalar", "avx9"])
def test_the_instruction_set_can_be_forced(name: str) -> None:
    script = "from vllm_dflash.kernels import native; print(native.problem(), native.instruction_set())"
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {native.VARIABLE: name}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    if name == "scalar":
        assert done.stdout.split() == ["None", "scalar"]
    else:
        assert "VLLM_DFLASH_CPU_ISA: found 'avx9'; needed one of [" in done.stderr
