# SPDX-License-Identifier: Apache-2.0
"""Whether the machine was ours while something was measured on its CPU."""

import os
from pathlib import Path

STAT = Path("/proc/stat")
_IDLE, _IOWAIT = 3, 4
_COUNTED = 8  # user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already


class OtherLoad:
    """CPU time that went to anything but this process, as a share of the machine, since this object was made."""

    def __init__(self) -> None:
        self.busy, self.total = _machine()
        self.own = _own()

    def share(self) -> float | None:
        """From 0 to 1; None where the system does not say, or too little time has passed."""
        busy, total = _machine()
        if total - self.total < os.sysconf("SC_CLK_TCK") / 10:
            return None
        others = (busy - self.busy) - (_own() - self.own)
        return min(1.0, max(0.0, others / (total - self.total)))


def _machine() -> tuple[float, float]:
    """Busy and total clock ticks of all cores."""
    try:
        ticks = [int(word) for word in STAT.read_text().splitlines()[0].split()[1 : 1 + _COUNTED]]
    except (OSError, ValueError, IndexError):
        return 0.0, 0.0
    return sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT], sum(ticks)


def _own() -> float:
    own = os.times()
    return (own.user + own.system) * os.sysconf("SC_CLK_TCK")
