# SPDX-License-Identifier: Apache-2.0
"""Which kernels run: what the user asked for, what the device has, and where vLLM's own were measured faster."""

from dataclasses import dataclass

KERNELS = ("auto", "triton", "cuda", "stock", "torch")
MEASUREMENT = "benchmarks/results/2026-12-03-h200-drafter-attention"


@dataclass(frozen=True)
class Faster:
    """FlashAttention 3 takes less time than our kernel, the store of the block's K/V that it needs included.

    programs: requests x KV heads, from least to most.
    """

    windowed: bool
    least: int
    most: int


# H200, 8 KV heads of 128, 16 rows (MEASUREMENT); the store costs FlashAttention 2.0 to 2.2 us more. With it ours is
# ahead at every shape; without it FlashAttention is by 0.4 us at 128 programs on full layers of 2,048 and 8,192 keys.
STOCK_IS_FASTER: tuple[Faster, ...] = ()


def stock_is_faster(programs: int, window: int | None) -> bool:
    """Of FlashAttention 3 on Hopper, for this many requests x KV heads."""
    return any(row.windowed == (window is not None) and row.least <= programs <= row.most for row in STOCK_IS_FASTER)


def auto(capability: str | None, flash_attention: int | None, triton: str | None, cpu: str | None) -> dict[str, str]:
    """What `kernels: auto` runs on this device, and why, in words.

    Args:
        capability: compute capability of the CUDA device, "9.0" say; None without one.
        flash_attention: FlashAttention's version that vLLM would use there, None when it has none.
        triton: its version, None when it is missing.
        cpu: instruction set of the compiled CPU kernels, or "not built: reason".
    """
    if capability is None:
        built = cpu is not None and not cpu.startswith("not built")
        name = f"compiled, {cpu}" if built else f"torch ({cpu})"
        return dict.fromkeys(("draft attention", "context K/V", "mask filling"), name)
    if triton is None:
        missing = "nothing: Triton is not installed"
        return {"draft attention": missing, "context K/V": missing, "mask filling": missing}
    attention = "Triton at every shape: FlashAttention 3 is what it was compared with, and this device has none"
    if flash_attention == 3 and not STOCK_IS_FASTER:
        attention = f"Triton; at every measured shape it takes less time than FlashAttention 3 ({MEASUREMENT})"
    elif flash_attention == 3:
        ranges = " and ".join(
            f"{row.least} to {row.most} ({'windowed' if row.windowed else 'full'} layers)"
            for row in STOCK_IS_FASTER
        )
        attention = f"Triton; FlashAttention 3 for {ranges} requests x KV heads ({MEASUREMENT})"
    return {"draft attention": attention, "context K/V": "Triton, one launch", "mask filling": "Triton, one launch"}
