# SPDX-License-Identifier: Apache-2.0
"""The environment script: a second run is immediate, a failure is one line, nothing waits for ever."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup_env.py"


@pytest.fixture(scope="module")
def setup_env() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_env", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(venv: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--venv", str(venv), "--device", "cpu"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_finished_environment_is_left_alone_in_under_two_seconds(setup_env: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / setup_env.STAMP).write_text(setup_env.request_hash("cpu") + "\n")
    began = time.monotonic()
    done = run(tmp_path)
    assert time.monotonic() - began < 2
    assert done.returncode == 0
    assert "up to date" in done.stdout
    assert not (tmp_path / "setup.log").exists()


def test_the_stamp_follows_what_is_asked_for(setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = setup_env.request_hash("cpu")
    assert before == setup_env.request_hash("cpu")
    assert before != setup_env.request_hash("cuda")
    monkeypatch.setattr(setup_env.platform, "python_version", lambda: "3.99.0")
    assert before != setup_env.request_hash("cpu")


def test_what_cannot_be_installed_is_one_clear_line(tmp_path: Path) -> None:
    done = run(tmp_path / "venv", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path), PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("setup: FAILED: torch==")
    assert "setup.log" in done.stderr
    assert not (tmp_path / "venv" / ".vllm-dflash-setup").exists()


def test_a_command_that_does_not_end_is_ended(setup_env: ModuleType, tmp_path: Path) -> None:
    env = setup_env.Environment(tmp_path)
    began = time.monotonic()
    with pytest.raises(setup_env.SetupFailed, match="no luck: stopped after 1 s"):
        env.run(["/bin/sh", "-c", "echo started; sleep 60 & sleep 60"], "no luck", 1)
    assert time.monotonic() - began < 10
    assert "started" in env.log.read_text()


def test_the_last_error_is_the_reason(setup_env: ModuleType, tmp_path: Path) -> None:
    env = setup_env.Environment(tmp_path)
    noise = "echo ERROR: first; echo ERROR: the reason; echo afterwards; exit 1"
    with pytest.raises(setup_env.SetupFailed, match="it failed: ERROR: the reason"):
        env.run(["/bin/sh", "-c", noise], "it failed", 30)


def test_bytecode_is_written_whatever_the_caller_has_set(
    setup_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    env = setup_env.Environment(tmp_path)
    env.run([sys.executable, "-c", "import sys; assert not sys.dont_write_bytecode"], "not written", 60)


def test_a_gpu_is_what_nvidia_smi_lists(setup_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: x)'\n")
    tool.chmod(0o755)
    assert setup_env.find_device() == "cuda"
    tool.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert setup_env.find_device() == "cpu"
    tool.unlink()
    assert setup_env.find_device() == "cpu"


def test_what_became_of_the_kernels_is_one_line(setup_env: ModuleType, tmp_path: Path) -> None:
    record = tmp_path / "build.json"
    assert setup_env.kernels_line(record) == "no compiled kernels: the build left no record"
    record.write_text('{"cpu": {"compiler": "c++ 12.2", "seconds": 3}, "cuda": {"problem": "no CUDA compiler (nvcc)"}}')
    found = setup_env.kernels_line(record)
    assert found == "compiled kernels: cpu: built with c++ 12.2; cuda: not built (no CUDA compiler (nvcc))"


def test_a_changed_kernel_source_or_a_new_compiler_installs_again(
    setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Path("csrc/cpu/attention_kernel.cpp") in setup_env.build_files()
    before = setup_env.request_hash("cpu")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert setup_env.request_hash("cpu") != before
