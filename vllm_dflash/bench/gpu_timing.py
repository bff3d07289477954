# SPDX-License-Identifier: Apache-2.0
"""How long a kernel takes on a CUDA device when its data is not in the caches, and how fast the card copies."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

LAUNCHES, REPLAYS = 20, 15
WARM_UP_S = 0.05


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
    """Captures `launches` calls and times their replay: `capture`, `time_in_turn`."""
    return time_in_turn([capture(calls, launches)], launches, replays)[0]


def time_in_turn(
    graphs: Sequence[torch.cuda.CUDAGraph], launches: int = LAUNCHES, replays: int = REPLAYS
) -> list[Timing]:
    """Replays the graphs one after another, again and again: what is compared meets the same clocks and warmth.

    A card under full load lowers its clocks within a few hundredths of a second, by 15 % and more on an H200.
    """
    times: list[list[float]] = [[] for _ in graphs]
    for graph in graphs:
        _warm_up(graph)
    for _ in range(replays):
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in graphs]
        for graph, (start, end) in zip(graphs, events, strict=True):
            start.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
        for found, (start, end) in zip(times, events, strict=True):
            found.append(start.elapsed_time(end) * 1000 / launches)
    return [Timing(statistics.median(found), min(found), max(found)) for found in times]


def capture(calls: Sequence[Callable[[], object]], launches: int = LAUNCHES) -> torch.cuda.CUDAGraph:
    """One CUDA graph of `launches` calls, taken in turn from `calls`.

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
    return graph


def _warm_up(graph: torch.cuda.CUDAGraph) -> None:
    """Replays until WARM_UP_S have passed: a card that was idle raises its clocks only after some milliseconds."""
    until = time.monotonic() + WARM_UP_S
    while time.monotonic() < until:
        graph.replay()
        torch.cuda.synchronize()


def copy_rate(megabytes: int = 2048) -> float:
    """TB/s of an elementwise kernel that reads one array and writes another, both counted.

    A kernel, because the copy engine behind `copy_` reaches two thirds of it on an H200.
    """
    source = torch.empty(megabytes * 2**18, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return time_graph([lambda: torch.neg(source, out=target)], launches=4).rate(2 * megabytes * 2**20)
