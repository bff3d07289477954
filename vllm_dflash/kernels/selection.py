# SPDX-License-Identifier: Apache-2.0
"""Which kernels run: what the user asked for, what the device has, and where vLLM's own were measured faster."""

from dataclasses import dataclass

KERNELS = ("auto", "triton", "cuda", "stock", "torch")
MEASUREMENT = "benchmarks/results/2026-12-01-h200-drafter-attention"


@dataclass(frozen=True)
class Faster:
    """FlashAttention 3 takes less time than our kernel, the store of the block's K/V that it needs included.

    programs: requests x KV heads, from least to most.
    """

    windowed: bool
    least: int
    most: int


# H200, 8 KV heads of 128, 16 rows (MEASUREMENT). Context lengths are unknown when a graph is captured.
STOCK_IS_FASTER = (Faster(windowed=True, least=65, most=256), Faster(windowed=False, least=65, most=1 << 30))


def stock_is_faster(programs: int, window: int | None) -> bool:
    """Of FlashAttention 3 on Hopper, for this many requests x KV heads."""
    return any(row.windowed == (window is not None) and row.least <= programs <= row.most for row in STOCK_IS_FASTER)
