# SPDX-License-Identifier: Apache-2.0
"""Runs one method's worker process and turns whatever happens into a result."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vllm_dflash.bench.method import Method
from vllm_dflash.environment import engine_variables

POLL_S = 0.2
_NOISE = re.compile(r"^(\([^)]*\)\s*)?(ERROR|WARNING|INFO) [\d-]+ [\d:]+ \[[^\]]*\]\s*")
_ERROR = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt))\b: ?(.*)$")
_PLUGIN = re.compile(r"vllm-dflash \S+ (?:ACTIVE|INACTIVE)\b.*")
_POOL = re.compile(r"KV cache size: ([\d,]+) tokens")


def run_method(
    method: Method,
    job: Mapping[str, Any],
    folder: Path,
    timeout_s: float,
    say: Callable[[str], None],
    started: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """The worker's result, or {"error": reason}; with "log", and what the log says of plugin and KV pool.

    started: is told the worker's process group, which holds its engine too.
    """
    stem = re.sub(r"[^\w.=-]+", "-", method.label)
    job_file, log_file, progress_file, result_file = (
        folder / f"{stem}.{kind}" for kind in ("job.json", "log", "progress", "result.json")
    )
    for leftover in (log_file, progress_file, result_file):
        leftover.unlink(missing_ok=True)
    job_file.write_text(json.dumps({**job, "result": str(result_file), "progress": str(progress_file)}))
    with log_file.open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "vllm_dflash.bench.worker", str(job_file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **engine_variables(), **method.variables},
            start_new_session=True,
        )
        if started:
            started(child.pid)
        ended = _wait(child, progress_file, timeout_s, say)
    text = log_file.read_text(errors="replace")
    if result_file.exists():
        result = json.loads(result_file.read_text())
    elif not ended:
        result = {"error": f"stopped after {timeout_s:.0f} s"}
    else:
        result = {"error": _exit_reason(child.returncode, text)}
    if "error" in result:
        result["error"] = _root_cause(result["error"], text)
    for scratch in (job_file, progress_file, result_file):
        scratch.unlink(missing_ok=True)
    pool = _POOL.search(text)
    if not result.get("kv_tokens"):
        result["kv_tokens"] = int(pool.group(1).replace(",", "")) if pool else None
    said = _PLUGIN.findall(text)
    return {**result, "log": str(log_file), "plugin": said[-1] if said else None}


def _wait(child: subprocess.Popen[bytes], progress: Path, timeout_s: float, say: Callable[[str], None]) -> bool:
    """Passes the worker's progress on. False when it ran past the limit. Nothing of it is left running."""
    deadline = time.monotonic() + timeout_s
    shown = 0
    try:
        while True:
            ended = child.poll() is not None
            lines = progress.read_text().splitlines() if progress.exists() else []
            for line in lines[shown:]:
                say(line)
            shown = len(lines)
            if ended or time.monotonic() > deadline:
                return ended
            time.sleep(POLL_S)
    finally:
        # Also ends an engine process that outlived its parent: it would hold memory that the next one needs.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _exit_reason(code: int, log: str) -> str:
    how = f"killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
    last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "nothing was logged")
    return f"{how}; last words: {_NOISE.sub('', last)[:200]}"


def _root_cause(message: str, log: str) -> str:
    """vLLM wraps an engine's failure in an error that only points at the log; the log has the first cause."""
    if "root cause" in message.lower() or "EngineDeadError" in message:
        for line in log.splitlines():
            found = _ERROR.match(_NOISE.sub("", line).strip())
            if found and "root cause" not in line.lower():
                message = f"{found.group(1)}: {found.group(2)}"
                break
    return " ".join(message.split())
