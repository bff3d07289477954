# SPDX-License-Identifier: Apache-2.0
"""Real engines for the tests: each group of jobs runs in a process of its own (tests/engine/jobs.py)."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests import tiny
from tests.conftest import ENGINE
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.demo.pair import DemoPair, prepare_pair
from vllm_dflash.environment import engine_variables
from vllm_dflash.reference.decode import Generation, generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target
from vllm_dflash.train.prompts import heldout

HERE = Path(__file__).parent
torch.set_num_threads(1)  # tiny models; two processes that spin on the same cores slow each other down
pytest.importorskip("vllm", reason="needs vLLM")

Job = dict[str, Any]
WINDOW, K = 16, 4
# full, sliding causal, sliding non-causal, mixed as released drafters are, every kind at once
KINDS = ["FFF", "SSS", "sss", "SSF", "sFC"]


def prompt(length: int, seed: int) -> list[int]:
    return torch.randint(2, 120, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(scope="session")
def demo() -> DemoPair:
    return prepare_pair()


def demo_prompts(demo: DemoPair, count: int) -> list[list[int]]:
    """The first held-out prompts in the demo target's chat template."""
    tokenizer = AutoTokenizer.from_pretrained(demo.target)
    return [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": p.prompt}], add_generation_prompt=True, return_dict=False
        )
        for p in heldout(count, 0)
    ]


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `target` and a drafter for each of KINDS."""
    root = tmp_path_factory.mktemp("pair")
    tiny.target(root / "target")
    for kinds in KINDS:
        tiny.drafter(root / kinds, kinds, window=WINDOW, block=K + 1)
    return root


def reference(pair: Path, kinds: str, prompts: list[list[int]], max_tokens: int) -> list[Generation]:
    """What the reference does with this pair, greedily."""
    config = load_draft_config(pair / kinds)
    model = AutoModelForCausalLM.from_pretrained(pair / "target", dtype=torch.float32)
    target, drafter = Target(model, config.tap_layer_ids), Drafter.load(config)
    return [generate(target, drafter, p, k=K, max_tokens=max_tokens) for p in prompts]


def environment(runner: str, **extra: str) -> dict[str, str]:
    env = os.environ | engine_variables() | ENGINE
    env["VLLM_USE_V2_MODEL_RUNNER"] = "1" if runner == "V2" else "0"
    if runner == "V2" and not os.path.exists("/dev/nvidia0"):
        env |= {"TRITON_INTERPRET": "1", "PYTHONPATH": f"{HERE / 'triton_cpu'}:{env.get('PYTHONPATH', '')}"}
    return env | extra


def llm(model: Path, drafter: Path | None = None, k: int = 4, **arguments: Any) -> dict[str, Any]:
    """Arguments of vllm.LLM for a small fp32 engine."""
    chosen: dict[str, Any] = {
        "model": str(model),
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": 256,
        "block_size": 32,
        "max_num_seqs": 4,
        "gpu_memory_utilization": 0.1,
    }
    if torch.cuda.is_available():  # no memory profiling, which other processes on the card upset; no FlashInfer
        chosen |= {"kv_cache_memory_bytes": 2_000_000_000, "gdn_prefill_backend": "triton"}
    if drafter is not None:
        chosen["speculative_config"] = {
            "method": "dflash",
            "model": str(drafter),
            "num_speculative_tokens": k,
        }
    return chosen | arguments


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[dict[str, Any]]]:
    """engines(jobs, runner="V1", **environment) -> one result a job (see jobs.py)."""

    def run(jobs: list[Job], runner: str = "V1", expect_error: bool = False, **extra: str) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("engine")
        (folder / "jobs.json").write_text(json.dumps(jobs))
        done = subprocess.run(
            [sys.executable, HERE / "jobs.py", folder / "jobs.json", folder / "results.json"],
            env=environment(runner, **extra),
            capture_output=True,
            text=True,
            timeout=900,
        )
        if not (folder / "results.json").exists():
            pytest.fail(f"engine process ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        results = json.loads((folder / "results.json").read_text())
        assert len(results) == len(jobs), done.stderr[-4000:]
        for result in results:
            if not expect_error and "error" in result:
                pytest.fail(f"{result['error']}\n{result['log']}\n{done.stderr[-4000:]}")
        return results

    return run
