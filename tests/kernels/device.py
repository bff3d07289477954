# SPDX-License-Identifier: Apache-2.0
"""Where Triton kernels run in these tests: on a CUDA device, or in Triton's interpreter in a process of its own.

The interpreter must be chosen before Triton is first imported, so test_interpreter.py starts such a process.
"""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
runs_triton = pytest.mark.skipif(
    DEVICE == "cpu" and not INTERPRETED, reason="test_interpreter.py runs this in Triton's interpreter"
)
