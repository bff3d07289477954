# SPDX-License-Identifier: Apache-2.0
"""How a launch of drafter_attention is cut, from the shape and the card."""

from dataclasses import dataclass
from functools import cache

import torch


@dataclass(frozen=True)
class Plan:
    """How a launch is cut. splits: programs that share one request and KV head. tile: context keys a loop step.

    stages: of Triton's pipeline; a tile waits for its page numbers first, so 6 stages keep two tiles under way.
    """

    splits: int
    tile: int = 64
    warps: int = 4
    stages: int = 6


MOST_SPLITS, LEAST_KEYS = 32, 128  # of a split


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def plan(requests: int, kv_heads: int, queries: int, head_dim: int, window: int | None, device: torch.device) -> Plan:
    """Two programs a multiprocessor (their tiles fill its shared memory), none with fewer than LEAST_KEYS of a window.

    Measured on an H200: benchmarks/results/2026-12-01-h200-drafter-attention.

    queries: rows x query heads a KV head.
    """
    fill = max(1, 2 * _processors(device) // (requests * kv_heads))
    most = MOST_SPLITS if window is None else -(-window // LEAST_KEYS)
    large = queries * head_dim > 64 * 128
    return Plan(
        splits=min(fill, most, MOST_SPLITS),
        tile=32 if large and head_dim > 128 else 64,
        warps=8 if large else 4,
        stages=3 if large else 6,
    )
