# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer finds nothing in the Triton kernels: no access out of bounds, no race in shared memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs Triton")
KERNELS = ("drafter_attention", "context_kv", "mask_fill")
ROOT = Path(__file__).resolve().parents[2]


def run(kernel: str, *before: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*before, sys.executable, "-m", "tests.kernels.sanitize", kernel],
        cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=580,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_cases_themselves_are_right(kernel: str) -> None:
    import torch

    done = run(kernel, **({} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}))
    assert done.returncode == 0 and done.stdout.rstrip().endswith("done"), done.stdout[-3000:]


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_is_found(kernel: str, tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on the path")
    # each tensor an allocation of its own, so that what is read past its end is seen
    done = run(kernel, sanitizer, "--tool", tool, "--error-exitcode", "9", PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-6000:]
    assert "done" in done.stdout.split()
    clean = "ERROR SUMMARY: 0 errors" if tool == "memcheck" else "RACECHECK SUMMARY: 0 hazards displayed"
    assert clean in done.stdout
