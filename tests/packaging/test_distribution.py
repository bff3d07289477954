# SPDX-License-Identifier: Apache-2.0
"""What is built is what a user gets: the wheel works in an environment of its own, the sdist is complete."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="needs the package build")

ROOT = Path(__file__).parents[2]
SOURCES = ("setup.py", "pyproject.toml", "MANIFEST.in", "CMakeLists.txt", "csrc", "README.md", "CHANGELOG.md",
           "CONTRIBUTING.md", "LICENSE", "Makefile", "benchmarks", "demo", "scripts", "tests",
           "vllm_dflash")  # fmt: skip
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


def call(*command: str | Path, cwd: Path, **variables: str) -> str:
    # Only what is installed may be found, so neither this checkout nor its variables.
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VLLM_DFLASH", "VLLM_PLUGINS")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is built from it."""
    root = tmp_path_factory.mktemp("build")
    (root / "source").mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / "source" / name, ignore=shutil.ignore_patterns("__pycache__", "_native"))
        elif source.exists():
            shutil.copy(source, root / "source" / name)
    call(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        root / "dist",
        root / "source",
        cwd=root,
        VLLM_DFLASH_BUILD="cpu",
    )
    return root / "dist"


@pytest.fixture(scope="session")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of a fresh environment that has the wheel, and sees what this environment has beside it."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (wheel,) = built.glob("*.whl")
    python = folder / "bin" / "python"
    call(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=folder,
    )
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    (packages / "beside.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin"


def test_the_sdist_has_everything_that_a_build_and_a_test_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    own = ("setup.py", "pyproject.toml", "LICENSE", "CHANGELOG.md", "Makefile", "scripts/setup_env.py")
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob("*") if path.is_file()}
    for needed in (
        *own,
        *sources,
        "CMakeLists.txt",
        "benchmarks/throughput.py",
        "tests/conftest.py",
        "vllm_dflash/plugin.py",
    ):
        assert needed in names
    assert not [name for name in names if name.endswith((".pyc", ".so"))]


def test_the_wheel_has_the_package_only(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith("METADATA"))).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"vllm_dflash"}
    assert "vllm_dflash/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra" not in line]
    # The vLLM that is there must never be replaced, whatever its name.
    assert not [line for line in required if "vllm" in line or "==" in line.split(";")[0]]


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_the_wheel_has_the_cpu_kernels_and_serves_every_python(built: Path, installed: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        native = {name for name in archive.namelist() if name.startswith("vllm_dflash/_native/")}
    assert native == {"vllm_dflash/_native/build.json", "vllm_dflash/_native/libdflash_cpu.so"}
    found = json.loads(call(installed / "vllm-dflash", "env", "--json", cwd=tmp_path))["kernels"]
    assert " in use " in found["cpu"]
    assert found["cuda"] == "none: left out by VLLM_DFLASH_BUILD=cpu"
    forced = call(installed / "vllm-dflash", "env", cwd=tmp_path, VLLM_DFLASH_CPU_ISA="scalar")
    assert "cpu: scalar in use" in forced


def test_env_runs_from_the_wheel_and_sees_the_entry_point(installed: Path, tmp_path: Path) -> None:
    found = json.loads(call(installed / "vllm-dflash", "env", "--json", cwd=tmp_path))
    assert found["plugin"]["entry point"] == "vllm_dflash.plugin:register"
    assert found["versions"]["vllm-dflash"]
    assert found["versions"]["torch"]
    # Text for people has the same.
    text = call(installed / "vllm-dflash", "env", cwd=tmp_path)
    assert "entry point: vllm_dflash.plugin:register" in text


def test_every_command_of_the_wheel_explains_itself(installed: Path, tmp_path: Path) -> None:
    listed = call(installed / "vllm-dflash", "--help", cwd=tmp_path)
    for command in ("bench", "demo", "env", "train"):
        assert f"\n    {command} " in listed
        assert "--" in call(installed / "vllm-dflash", command, "--help", cwd=tmp_path)


def test_vllm_loads_the_plugin_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="needs vLLM")
    script = (
        "import vllm_dflash\n"
        "from vllm.plugins import load_general_plugins\n"
        "load_general_plugins()\n"
        "from vllm.model_executor.models.registry import ModelRegistry\n"
        "known = ModelRegistry.models.items()\n"
        "ours = [name for name, m in known if 'vllm_dflash' in getattr(m, 'module_name', '')]\n"
        "print('RESULT', vllm_dflash.__file__, ours)\n"
    )
    said = call(installed / "python", "-c", script, cwd=tmp_path)
    result = said[said.index("RESULT") :]
    assert str(installed.parent) in result
    assert "DFlash" in result
    # And it stays out when it is told to.
    assert "[]" in call(installed / "python", "-c", script, cwd=tmp_path, VLLM_DFLASH="0")
