# SPDX-License-Identifier: Apache-2.0
"""The Triton kernels on a machine without a GPU: every test file of this folder again, in Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.device import INTERPRETED

HERE = Path(__file__).parent
FILES = sorted(
    path.name
    for path in HERE.glob("test_*.py")
    if "runs_triton" in path.read_text() and path.name != Path(__file__).name
)


@pytest.mark.skipif(INTERPRETED, reason="this is that process")
@pytest.mark.parametrize("name", FILES)
def test_in_interpreter(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / name)],
        env=os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
