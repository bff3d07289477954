# SPDX-License-Identifier: Apache-2.0
"""The steps of drafter_attention's kernel (Triton): which keys a split has, where they lie, one step of the softmax."""

import triton
import triton.language as tl


@triton.jit
def accumulate(scores, value, at, low, high, maximum, total, weighted, scale):  # type: ignore[no-untyped-def]
    """One step of the online softmax over the keys at positions `at` [N]; row m sees low[m] (None: 0) to high[m].

    maximum: of scale x scores, in units of log 2; a row that has seen nothing keeps -inf, and total 0. None, like total
    and weighted: these keys are the first. The mask is made here, in the layout of the scores: as a tensor [M, N] it
    would go through shared memory for every tile.
    """
    seen = at[None, :] <= high[:, None]
    if low is not None:
        seen = seen & (at[None, :] >= low[:, None])
    scores = tl.where(seen, scores, float("-inf"))
    higher = tl.max(scores, 1) * scale
    if maximum is not None:
        higher = tl.maximum(maximum, higher)
    base = tl.where(higher == float("-inf"), 0.0, higher)
    weights = tl.exp2(scores * scale - base[:, None])
    if maximum is None:
        total = tl.sum(weights, 1)
        weighted = tl.dot(weights.to(value.dtype), value, input_precision="ieee")
    else:
        shrink = tl.exp2(maximum - base)
        total = total * shrink + tl.sum(weights, 1)
        weighted = weighted * shrink[:, None]
        weighted = tl.dot(weights.to(value.dtype), value, weighted, input_precision="ieee")
    return higher, total, weighted


@triton.jit
def prefetch(pointers):  # type: ignore[no-untyped-def]
    """Asks for the lines of these addresses, which must be ones that may be read, and does not wait for them."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def visible(anchor, WINDOW: tl.constexpr):  # type: ignore[no-untyped-def]
    """First visible context key of any row, and how many there are."""
    first = 0
    if WINDOW > 0:
        first = tl.maximum(anchor - WINDOW + 1, 0)
    return first, anchor - first


@triton.jit
def share_of(count, splits, BLOCK_N: tl.constexpr, EVERY_TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Keys a split: a whole number of tiles, the same for all. EVERY_TILE: a split for each tile of the window."""
    if EVERY_TILE:
        return BLOCK_N
    return tl.cdiv(tl.cdiv(count, splits), BLOCK_N) * BLOCK_N


@triton.jit
def page_of(table, c, wanted, PAGE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Page number (int64, 0 where not wanted) and place in the page of the context positions c >= 0."""
    c = c.to(tl.uint32)  # no sign: three instructions a row less
    return tl.load(table + c // PAGE, mask=wanted, other=0).to(tl.int64), (c % PAGE).to(tl.int32)


@triton.jit
def log2(x, ON_GPU: tl.constexpr):  # type: ignore[no-untyped-def]
    """To 2^-22, in one instruction where there is one."""
    if ON_GPU:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.log2(x)
