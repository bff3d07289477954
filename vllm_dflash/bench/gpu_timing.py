# SPDX-License-Identifier: Apache-2.0
"""How long a kernel takes on a CUDA device when its data is not in the caches, and how fast the card copies."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

LAUNCHES, REPLAYS = 20, 15


@dataclass(frozen=True)
class Timing:
    """Microseconds for one call: median, least and most over the replays."""

    median: float
    least: float
    most: float

    def rate(self, count: int) -> float:
        """`count` bytes a call as TB/s."""
        return count / self.median * 1e-6


def time_graph(calls: Sequence[Callable[[], object]], launches: int = LAUNCHES, replays: int = REPLAYS) -> Timing:
    """Captures `launches` calls, taken in turn from `calls`, in one CUDA graph and replays it.

    Give as many calls as it takes for their data together to exceed the L2 cache (50 MB on an H200): each call should
    touch other memory. Every call runs once before capture, so that it may compile.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            calls[i % len(calls)]()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / launches)
    return Timing(statistics.median(times), min(times), max(times))


def copy_rate(megabytes: int = 2048) -> float:
    """TB/s of a device-to-device copy, bytes read and written both counted."""
    count = megabytes * 2**20
    source = torch.empty(count, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return time_graph([lambda: target.copy_(source)], launches=4).rate(2 * count)
