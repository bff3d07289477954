# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from vllm_dflash import environment


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_gpus_are_read_from_nvidia_smi(tools: Path) -> None:
    assert environment.gpus() == []
    tool(tools, "nvidia-smi", "echo 'NVIDIA H200, 143771 MiB, 580.82.07, 9.0'; echo 'garbage'")
    (found,) = environment.gpus()
    assert found == {
        "name": "NVIDIA H200",
        "memory.total": "143771 MiB",
        "driver_version": "580.82.07",
        "compute_cap": "9.0",
    }
    assert environment.device_line() == "1 x NVIDIA H200, driver 580.82.07"
    tool(tools, "nvidia-smi", "echo 'No devices were found'; exit 6")
    assert environment.gpus() == []
    assert "cores" in environment.device_line()


def test_missing_compilers_are_none(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    assert environment.compilers() == {"cc": None, "nvcc": None}
    tool(tools, "nvcc", "echo 'nvcc: NVIDIA'; echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    assert environment.compilers()["nvcc"] == "Cuda compilation tools, release 13.0, V13.0.88"


def test_versions_are_those_that_are_installed() -> None:
    import torch
    import transformers

    found = environment.versions()
    assert found["torch"] == torch.__version__
    assert found["cuda (torch)"] == torch.version.cuda
    assert found["transformers"] == transformers.__version__


def test_a_package_that_was_only_unpacked_has_a_version_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked" / "__init__.py").touch()
    (tmp_path / "unpacked" / "_version.py").write_text("__version__ = version = '0.33.0'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(environment.PACKAGES, "unpacked", ("no-such-distribution",))
    assert environment.versions()["unpacked"] == "0.33.0"


def test_engine_variables_never_override_the_users(monkeypatch: pytest.MonkeyPatch, tools: Path) -> None:
    for name in ("VLLM_CPU_KVCACHE_SPACE", "VLLM_ENABLE_V1_MULTIPROCESSING", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tools))
    assert environment.engine_variables()["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "LD_PRELOAD" not in environment.engine_variables()
    (tools / "lib").mkdir()
    (tools / "lib" / "libiomp5.so").touch()
    assert environment.engine_variables()["LD_PRELOAD"] == str(tools / "lib" / "libiomp5.so")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "8")
    assert "VLLM_CPU_KVCACHE_SPACE" not in environment.engine_variables()
    tool(tools, "nvidia-smi", "echo 'NVIDIA H200, 143771 MiB, 580.82.07, 9.0'")
    assert environment.engine_variables().keys() <= {"VLLM_NO_USAGE_STATS"}
