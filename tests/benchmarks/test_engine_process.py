# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Whatever happens to a method's process becomes a result with a reason."""

import sys
import time
from pathlib import Path

import pytest

from vllm_dflash.bench import engine_process
from vllm_dflash.bench.engine_process import run_method
from vllm_dflash.bench.method import Method

LOG = """\
INFO 12-01 10:52:10 [core.py:133] vllm-dflash 0.1.0 ACTIVE on vLLM 0.32.0 (V1): taps 1,8
(EngineCore pid=7) INFO 12-01 10:52:11 [kv_cache_utils.py:2327] GPU KV cache size: 43,648 tokens, Maximum
(EngineCore pid=7) ERROR 12-01 10:52:12 [core.py:900] Traceback (most recent call last):
(EngineCore pid=7) ERROR 12-01 10:52:12 [core.py:900] torch.OutOfMemoryError: CUDA out of memory. Tried
RuntimeError: Engine core initialization failed. See root cause above.
"""


def run_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, timeout_s: float = 60
) -> tuple[dict[str, object], list[str]]:
    """run_method with the worker replaced by `script`, which finds its job's path in sys.argv[1]."""
    (tmp_path / "python").write_text(f"#!{sys.executable}\nimport sys\nsys.argv = sys.argv[2:]\n{script}")
    (tmp_path / "python").chmod(0o755)
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(engine_process.sys, "executable", str(tmp_path / "python"))
        return run_method(Method("a b/c", "m"), {"seed": 5}, tmp_path, timeout_s, said.append), said


WRITE = "import json; job = json.load(open(sys.argv[1])); write = lambda r: open(job['result'], 'w').write(json.dumps(r))\n"


def test_a_result_comes_back_with_progress_and_what_the_log_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = f"{WRITE}print({LOG!r})\nopen(job['progress'], 'a').write('one\\ntwo\\n')\nwrite({{'points': [job['seed']]}})"
    result, said = run_script(monkeypatch, tmp_path, script)
    assert result["points"] == [5]
    assert said == ["one", "two"]
    assert result["kv_tokens"] == 43648
    assert result["plugin"] == "vllm-dflash 0.1.0 ACTIVE on vLLM 0.32.0 (V1): taps 1,8"
    assert Path(str(result["log"])).read_text().startswith("INFO")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-b-c.log", "python"]


def test_the_engines_first_cause_replaces_a_pointer_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    error = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    result, _ = run_script(monkeypatch, tmp_path, f"{WRITE}print({LOG!r})\nwrite({{'error': {error!r}}})")
    assert result["error"] == "OutOfMemoryError: CUDA out of memory. Tried"


def test_a_plain_error_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = f"{WRITE}print({LOG!r})\nwrite({{'error': 'ValueError: no\\n such  head'}})"
    assert run_script(monkeypatch, tmp_path, script)[0]["error"] == "ValueError: no such head"


def test_a_killed_process_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = "import os\nprint('INFO 12-01 10:52:10 [core.py:1] loading weights', flush=True)\nos.kill(os.getpid(), 9)"
    error = run_script(monkeypatch, tmp_path, script)[0]["error"]
    assert error == "killed by signal 9 (SIGKILL); last words: loading weights"


def test_an_exit_without_a_result_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run_script(monkeypatch, tmp_path, "sys.exit(3)")[0]["error"] == (
        "exit status 3; last words: nothing was logged"
    )


def test_one_that_hangs_is_stopped_with_its_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = "import subprocess, time\nchild = subprocess.Popen(['sleep', '300'])\nprint(child.pid, flush=True)\ntime.sleep(300)"
    result, _ = run_script(monkeypatch, tmp_path, script, timeout_s=6)
    assert result["error"] == "stopped after 6 s"
    child = int(Path(str(result["log"])).read_text())
    deadline = time.monotonic() + 10
    while running(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
