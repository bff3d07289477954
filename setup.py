# SPDX-License-Identifier: Apache-2.0
"""Builds csrc/ with CMake and ninja into vllm_dflash/_native. Everything else is declared in pyproject.toml.

A build that fails never fails the installation: the package then uses its torch and Triton paths. What was built, or
why it was not, is written to vllm_dflash/_native/build.json, where `vllm-dflash env` reads it.
VLLM_DFLASH_BUILD=cpu,cuda (the default), cpu, cuda or none says what to build.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
PACKAGE = "vllm_dflash/_native"
LIBRARIES = {"cpu": "libdflash_cpu.so", "cuda": "libdflash_cuda.so"}
RECORD = "build.json"
CHOICE = "VLLM_DFLASH_BUILD"
CMAKE = (3, 18)


class Unbuilt(Exception):
    """Why a library was not built, in one line."""


def tool(*names: str) -> str | None:
    """The first of these programs on PATH or beside this Python."""
    places = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    return next((found for name in names if (found := shutil.which(name, path=places))), None)


def compiler() -> str | None:
    return tool(*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++")


def nvcc() -> str | None:
    return tool(*os.environ.get("CUDACXX", "").split()[:1], "nvcc")


def new_enough_cmake() -> str | None:
    path = tool("cmake")
    if path is None:
        return None
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\d+)\.(\d+)", said)
    return path if found and (int(found[1]), int(found[2])) >= CMAKE else None


def build_requirements() -> list[str]:
    """From pip, only what this machine lacks, and nothing where there is no compiler to drive."""
    if sys.platform != "linux" or compiler() is None:
        return []
    cmake = [] if new_enough_cmake() else [f"cmake>={CMAKE[0]}.{CMAKE[1]}"]
    return cmake + ([] if tool("ninja") else ["ninja"])


def build(device: str, work: Path, into: Path) -> dict[str, Any]:
    """Compile one library. Raises Unbuilt."""
    wanted = os.environ.get(CHOICE, ",".join(LIBRARIES))
    if device not in wanted.split(","):
        raise Unbuilt(f"left out by {CHOICE}={wanted}")
    if sys.platform != "linux":
        raise Unbuilt(f"only Linux is supported, this is {sys.platform}")
    compilers = {"cpu": compiler(), "cuda": nvcc()}
    used = compilers[device]
    if used is None:
        raise Unbuilt({"cpu": "no C++ compiler (c++, g++ or clang++)", "cuda": "no CUDA compiler (nvcc)"}[device])
    if compilers["cpu"] is None:
        raise Unbuilt("no C++ compiler (c++, g++ or clang++)")
    if device == "cuda" and not list((ROOT / "csrc" / "cuda").glob("*.cu")):
        raise Unbuilt("there are no CUDA kernels in this release")
    cmake, ninja = new_enough_cmake(), tool("ninja")
    if cmake is None or ninja is None:
        raise Unbuilt(f"cmake {CMAKE[0]}.{CMAKE[1]} or later and ninja are needed")
    began = time.monotonic()
    chosen = [f"-DDFLASH_{name.upper()}={'ON' if name == device else 'OFF'}" for name in LIBRARIES]
    compilers_chosen = [f"-DCMAKE_CXX_COMPILER={compilers['cpu']}"]
    if device == "cuda":
        compilers_chosen.append(f"-DCMAKE_CUDA_COMPILER={used}")
    run(cmake, "-S", ROOT, "-B", work, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *chosen, *compilers_chosen)
    run(cmake, "--build", work)
    into.mkdir(parents=True, exist_ok=True)
    shutil.copy2(work / LIBRARIES[device], into / LIBRARIES[device])
    version = subprocess.run([used, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    words = next((line for line in version if "release" in line), version[0] if version else used)
    return {"library": LIBRARIES[device], "compiler": words, "seconds": round(time.monotonic() - began, 1)}


def run(*command: str | Path) -> None:
    print("+", *command, flush=True)
    done = subprocess.run(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, flush=True)
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
        raise Unbuilt((errors or lines or [f"{command[0]} ended with {done.returncode}"])[0])


class BuildKernels(build_ext):
    def run(self) -> None:
        into = self._into()
        record: dict[str, Any] = {}
        for device, library in LIBRARIES.items():
            (into / library).unlink(missing_ok=True)
            try:
                record[device] = build(device, Path(self.build_temp).resolve() / device, into)
                print(f"vllm-dflash: {device} kernels built in {record[device]['seconds']} s", flush=True)
            except (Unbuilt, OSError) as problem:
                record[device] = {"problem": str(problem)}
                print(f"vllm-dflash: {device} kernels not built: {problem}", file=sys.stderr, flush=True)
        into.mkdir(parents=True, exist_ok=True)
        (into / RECORD).write_text(json.dumps(record, indent=2) + "\n")

    def _into(self) -> Path:
        in_source = self.inplace or self.editable_mode
        return ROOT / PACKAGE if in_source else Path(self.build_lib).resolve() / PACKAGE

    def get_outputs(self) -> list[str]:
        return [str(path) for path in sorted(self._into().glob("*")) if path.is_file()]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        return []  # MANIFEST.in lists them


class PlatformWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """The libraries depend on the platform but on no Python version."""
        return "py3", "none", super().get_tag()[2]


setup(
    # A name only: it makes the wheel one of this platform and has build_ext run.
    ext_modules=[Extension("vllm_dflash._native", sources=[])],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": PlatformWheel},
    setup_requires=build_requirements(),
)
