# SPDX-License-Identifier: Apache-2.0
"""The whole benchmark on real engines with a tiny random target, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests import tiny

pytest.importorskip("vllm", reason="needs vLLM")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "throughput.py"
OUTPUT, REPEATS, PROMPTS, CONCURRENCY = 24, 2, 6, (1, 3)
ENGINE_ARGS = {"max_model_len": 128, "block_size": 32, "gpu_memory_utilization": 0.1, "enforce_eager": True}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, engine_env: dict[str, str]) -> Path:
    root = tmp_path_factory.mktemp("throughput")
    tiny.target(root / "target")
    tiny.drafter(root / "drafter", "SF", block=5)
    drafts = {"method": "dflash", "model": str(root / "drafter"), "num_speculative_tokens": 4}
    broken = drafts | {"model": str(root / "nowhere")}
    done = subprocess.run(
        [
            sys.executable, str(SCRIPT), "--model", str(root / "target"), "--dtype", "float32",
            "--speculative-config", json.dumps(drafts), "--speculative-config", json.dumps(broken),
            "--concurrency", ",".join(map(str, CONCURRENCY)), "--num-prompts", str(PROMPTS),
            "--input-len", "9", "--output-len", str(OUTPUT), "--ignore-eos", "--repeats", str(REPEATS),
            "--engine-args", json.dumps(ENGINE_ARGS), "--save", str(root / "saved"),
        ],
        env=engine_env, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (root / "saved" / "stdout").write_text(done.stdout)
    return root / "saved"


@pytest.fixture(scope="module")
def results(saved: Path) -> dict[str, Any]:
    found = json.loads((saved / "results.json").read_text())
    assert isinstance(found, dict)
    return found


def test_every_method_is_a_row_at_every_concurrency_and_a_broken_one_has_its_reason(
    results: dict[str, Any]
) -> None:
    places = [(row["label"], row["concurrency"]) for row in results["rows"]]
    assert places == [("none", 1), ("dflash k=4", 1), ("none", 3), ("dflash k=4", 3), ("dflash k=4 #2", None)]
    assert "nowhere" in results["rows"][-1]["error"]


def test_every_token_is_counted_in_every_repeat(results: dict[str, Any]) -> None:
    for method in results["methods"][:2]:
        for point in method["points"]:
            assert [repeat["tokens"] for repeat in point["repeats"]] == [PROMPTS * OUTPUT] * REPEATS
            for repeat in point["repeats"]:
                assert repeat["running"] == point["concurrency"]
                # Steps outside the timed ones read prompts or had too few left.
                assert 0 < repeat["steps"] * repeat["step_ms"] < 1e3 * repeat["wall_s"]


def test_acceptance_agrees_with_the_tokens_made(results: dict[str, Any]) -> None:
    for point in results["methods"][1]["points"]:
        counted = point["counters"]
        assert 0 < counted["accepted"] < counted["drafted"] <= 4 * counted["drafts"]
        assert sum(counted["by_position"]) == counted["accepted"]
        # Each prompt's first token comes without a draft; the last block may have run over the end.
        needed = REPEATS * PROMPTS * (OUTPUT - 1)
        assert needed <= counted["drafts"] + counted["accepted"] <= needed + REPEATS * PROMPTS * 4


def test_greedy_outputs_equal_those_without_speculation(results: dict[str, Any]) -> None:
    none, dflash = results["methods"][:2]
    for plain, drafted in zip(none["points"], dflash["points"], strict=True):
        assert (plain["compared"], drafted["compared"]) == (False, True)
        assert drafted["differences"] == []
        assert drafted["outputs_sha256"] == plain["outputs_sha256"]


def test_the_table_is_printed_and_written_with_its_conditions(saved: Path, results: dict[str, Any]) -> None:
    table = (saved / "table.md").read_text()
    assert table.split("\n\n", 1)[1].strip() in (saved / "stdout").read_text()
    for needed in ("| none ", "| dflash k=4 ", "did not run", "KV pool", "float32", "Accepted share"):
        assert needed in table
    for row in results["rows"][:4]:
        assert row["kv_tokens"] > 0
        assert row["break_even"] > 0
    conditions = results["conditions"]
    assert conditions["options"]["output_len"] == OUTPUT
    assert {"vllm", "torch", "python"} <= conditions["versions"].keys()
    assert conditions["device"]
    assert conditions["date"]
    assert conditions["command"].startswith("throughput.py --model")
    assert str(Path.home()) + os.sep not in (saved / "results.json").read_text()
    assert (saved / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "ACTIVE" in (saved / "logs" / "dflash-k=4.log").read_text()


def test_engines_that_start_together_are_measured_one_at_a_time(
    saved: Path, tmp_path: Path, engine_env: dict[str, str]
) -> None:
    drafts = {"method": "dflash", "model": str(saved.parent / "drafter"), "num_speculative_tokens": 4}
    broken = drafts | {"model": str(tmp_path / "nowhere")}
    done = subprocess.run(
        [
            sys.executable, str(SCRIPT), "--model", str(saved.parent / "target"), "--dtype", "float32",
            "--speculative-config", json.dumps(broken), "--speculative-config", json.dumps(drafts), "--start-together",
            "--concurrency", "1", "--num-prompts", "2", "--input-len", "5", "--output-len", "6", "--ignore-eos",
            "--repeats", "1", "--engine-args", json.dumps(ENGINE_ARGS), "--save", str(tmp_path),
        ],
        env=engine_env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    none, failed, drafted = json.loads((tmp_path / "results.json").read_text())["methods"]
    assert "nowhere" in failed["error"]
    assert (drafted["points"][0]["compared"], drafted["points"][0]["differences"]) == (True, [])
    assert drafted["points"][0]["outputs_sha256"] == none["points"][0]["outputs_sha256"]
    said = done.stdout.splitlines()
    measured = [i for i, line in enumerate(said) if "tokens/s" in line and "at a time" in line]
    assert max(i for i, line in enumerate(said) if "engine ready" in line) < min(measured)
    assert len(measured) == 2


@pytest.mark.parametrize("way", [[], ["--start-together"]], ids=["in turn", "together"])
def test_a_run_that_is_told_to_stop_ends_its_engine(
    way: list[str], saved: Path, tmp_path: Path, engine_env: dict[str, str]
) -> None:
    command = [sys.executable, str(SCRIPT), "--model", str(saved.parent / "target"), "--input-len", "4", *way]
    run = subprocess.Popen([*command, "--save", str(tmp_path)], env=engine_env, stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        while "starting the engine" not in run.stdout.readline():
            assert run.poll() is None
        run.terminate()
        assert run.wait(timeout=30) == 128 + 15
    finally:
        run.kill()
    mark = str(tmp_path).encode()
    commands = [entry / "cmdline" for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert not [file for file in commands if file.exists() and mark in file.read_bytes()]


def test_bad_options_end_at_once_with_one_line(engine_env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--speculative-config", "{method: dflash}"],
        env=engine_env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--speculative-config" in done.stderr


def test_a_differing_token_is_shown_with_the_targets_logit_gap(
    saved: Path, tmp_path: Path, engine_env: dict[str, str]
) -> None:
    """Expected outputs of which one token was changed: the worker finds it and by how much it trails."""
    job: dict[str, Any] = {
        "model": str(saved.parent / "target"), "dtype": "float32", "seed": 0, "temperature": 0.0,
        "output_len": 8, "ignore_eos": True, "repeats": 1, "turn": None, "engine_args": ENGINE_ARGS,
        "speculative_config": {"method": "dflash", "model": str(saved.parent / "drafter"),
                               "num_speculative_tokens": 4},
        "result": str(tmp_path / "result.json"), "progress": str(tmp_path / "progress"),
    }  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(saved.parent / "target", dtype=torch.float32)
    prompt = [20, 21, 22]
    outputs = model.generate(torch.tensor([prompt]), max_new_tokens=8, min_new_tokens=8, do_sample=False)
    true = outputs[0, len(prompt) :].tolist()
    changed = [*true[:5], next(token for token in (10, 11, 12, 13) if token != true[5]), *true[6:]]
    job["points"] = [{"concurrency": 1, "prompts": [prompt], "categories": ["all"], "expected": [changed]}]
    (tmp_path / "job.json").write_text(json.dumps(job))
    command = [sys.executable, "-m", "vllm_dflash.bench.worker", str(tmp_path / "job.json")]
    subprocess.run(command, env=engine_env, capture_output=True, timeout=300, check=True)
    result = json.loads((tmp_path / "result.json").read_text())
    assert "error" not in result, result
    (difference,) = result["points"][0]["differences"]
    assert (difference["prompt"], difference["position"]) == (0, 5)
    assert (difference["expected"], difference["found"]) == (changed[5], true[5])
    logits = model(torch.tensor([prompt + true[:5]])).logits[0, -1]
    assert difference["gap"] == pytest.approx((logits[changed[5]] - logits[true[5]]).item(), abs=1e-3)
    assert difference["gap"] < 0
