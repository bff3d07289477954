# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from vllm_dflash.demo.gguf_checkpoint import GgufCheckpoint
from vllm_dflash.demo.gguf_source import locate_gguf
from vllm_dflash.demo.target import prepare_target
from vllm_dflash.errors import UserError


@pytest.fixture(scope="session")
def gguf_path() -> Path:
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    try:
        return locate_gguf()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def gguf(gguf_path: Path) -> GgufCheckpoint:
    return GgufCheckpoint(gguf_path)


@pytest.fixture(scope="session")
def llama_target(gguf_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_target(tmp_path_factory.mktemp("demo") / "llama", "llama", gguf=gguf_path)


@pytest.fixture(scope="session")
def mimo_target(gguf_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "mimo"
    return prepare_target(out, "mimo", gguf=gguf_path, random_mtp_seed=0)
