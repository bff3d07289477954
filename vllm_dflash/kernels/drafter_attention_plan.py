# SPDX-License-Identifier: Apache-2.0
"""How a launch of drafter_attention is cut, from the shape and the card."""

from dataclasses import dataclass
from functools import cache

import torch


@dataclass(frozen=True)
class Plan:
    """How a launch is cut. splits: programs that share the context of one request and KV head. pieces: programs that
    share the query heads of one KV head; each reads the K/V, so one where that fits.

    tile: context keys a loop step. stages: of Triton's pipeline; a tile waits for its page numbers first, so 6 stages
    keep two tiles under way. block_apart: the block's rows see one another in a program of their own. at_once: programs
    of this kind that the card runs at once; more than that are never made to wait for one another.
    """

    splits: int
    tile: int = 64
    warps: int = 4
    stages: int = 6
    block_apart: bool = False
    at_once: int = 0
    pieces: int = 1


MOST_QUERIES, MOST_SUMS = 256, 128 * 256  # of a program: rows x query heads, and that x head size in registers
MOST_SPLITS, LEAST_KEYS = 32, 256  # of a split
SHARED = 227 * 1024  # bytes of shared memory that one program may have (compute capability 9.0)
SHAPES = ((64, 6, 3), (64, 3, 2), (32, 6, 3), (32, 3, 2), (16, 3, 2))  # tile, stages, tiles held at once


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


@cache
def _shared(device: torch.device) -> int:
    if device.type != "cuda":
        return SHARED
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", SHARED))


def _bytes_held(rows: int, heads: int, keys: int, head_dim: int, element: int) -> int:
    """Of shared memory by one program, at most: its queries, and this many keys and values or the block's own."""
    return (_padded(rows * heads) + 2 * max(keys, _padded(rows))) * _padded(head_dim) * element


def _fits(rows: int, heads: int, head_dim: int, element: int, device: torch.device) -> bool:
    """Whether these rows of so many query heads can be one program's."""
    tile, _, tiles = SHAPES[-1]
    few = rows * heads <= MOST_QUERIES and _padded(rows * heads) * _padded(head_dim) <= MOST_SUMS
    return few and _bytes_held(rows, heads, tile * tiles, head_dim, element) <= _shared(device)


def most_rows(head_dim: int, element: int, device: torch.device) -> int:
    """Rows that a block may have, whatever the number of query heads a KV head."""
    return max((rows for rows in (16, 32, 64, 128, 256) if _fits(rows, 1, head_dim, element, device)), default=0)


def plan(
    requests: int,
    kv_heads: int,
    rows: int,
    group: int,
    head_dim: int,
    element: int,
    window: int | None,
    device: torch.device,
) -> Plan:
    """Two programs a multiprocessor where they fit, else one: as many splits as that leaves room for, and no more.

    A window gets a program for each of its tiles and one for the block where there is room for all of them (nothing to
    pipeline then, and less code to fetch), else splits of at least LEAST_KEYS.
    Measured on an H200: benchmarks/results/2026-12-01-h200-drafter-attention and 2026-12-03-h200-drafter-attention.

    Args:
        rows: of a block, at most most_rows(). group: query heads a KV head. element: bytes of one number of query.
    """
    cuts = (n for n in range(1, group + 1) if group % n == 0)
    pieces = next(n for n in cuts if _fits(rows, group // n, head_dim, element, device))
    heads, programs = group // pieces, requests * kv_heads * pieces
    warps = 8 if _padded(rows * heads) * _padded(head_dim) > 64 * 128 else 4
    fits = [
        (tile, stages, each)
        for each in ((2, 1) if warps == 4 else (1,))  # eight warps may need all registers of a multiprocessor
        for tile, stages, tiles in SHAPES
        if _bytes_held(rows, heads, tile * tiles, head_dim, element) <= _shared(device) // each
    ]
    tile, stages, each = fits[0]
    room = max(1, each * _processors(device) // programs)
    at_once = 0
    if device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9:  # waiting was tested on no other
        at_once = each * _processors(device)
    if window is not None:
        tiles = max(1, -(-(window - 1) // tile))
        if tiles < min(room, MOST_SPLITS + 1):
            return Plan(tiles, tile, warps, stages=1, block_apart=True, at_once=at_once, pieces=pieces)
    most = MOST_SPLITS if window is None else -(-window // LEAST_KEYS)
    return Plan(min(room, most, MOST_SPLITS), tile, warps, stages, at_once=at_once, pieces=pieces)


def new_counters(device: torch.device) -> torch.Tensor:
    """Zeros [2 x multiprocessors] int32 for drafter_attention: one for each request and KV head that can be at once."""
    return torch.zeros(2 * _processors(device), dtype=torch.int32, device=device)


def _padded(size: int) -> int:
    """As the kernel pads it: a power of two, 16 at least."""
    return max(16, 1 << (size - 1).bit_length())
