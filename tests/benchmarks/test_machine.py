# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vllm_dflash.bench import machine
from vllm_dflash.bench.machine import OtherLoad


def test_only_the_time_of_others_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(machine, "STAT", stat)
    own = iter([100.0, 400.0])
    monkeypatch.setattr(machine, "_own", lambda: next(own))
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat.write_text("cpu  1000 0 100 5000 50 0 0 0 7 7\ncpu0 1 2 3\n")
    load = OtherLoad()
    stat.write_text("cpu  1500 0 200 5300 150 0 0 0 9 9\ncpu0 1 2 3\n")
    # Of 1000 ticks 600 were busy, 300 of them ours.
    assert load.share() == pytest.approx(0.3)


def test_a_neighbour_is_noticed() -> None:
    load = OtherLoad()
    busy = "import time\nend = time.time() + 1\nwhile time.time() < end: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    share = load.share()
    assert share is not None
    assert share > 0.1 / (machine.os.cpu_count() or 1)


def test_a_system_that_does_not_say_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STAT", tmp_path / "nothing")
    load = OtherLoad()
    time.sleep(0.01)
    assert load.share() is None
