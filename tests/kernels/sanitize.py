# SPDX-License-Identifier: Apache-2.0
"""A few small cases of one kernel, for NVIDIA's compute-sanitizer, which slows them down a hundredfold.

    compute-sanitizer --tool memcheck python -m tests.kernels.sanitize drafter_attention
"""

import sys
from collections.abc import Callable
from dataclasses import replace

import torch

from tests.kernels import context_kv_cases, test_context_kv, test_mask_fill
from tests.kernels.drafter_attention_cases import Case, check

SMALL = Case(rows=(8, 3), context=(300, 40), head_dim=128, dtype=torch.float16, tile=64)
ATTENTION = {
    "parts merged in one launch": replace(SMALL, meet=True),
    "the same, window, sinks": replace(SMALL, window=200, causal=True, sinks=True, splits=2, tile=32, meet=True),
    "two launches": SMALL,
    "a program a tile": replace(SMALL, window=200, causal=True, splits=4, apart=True),
    "one program": replace(SMALL, context=(70, 5), splits=1),
    "no context, a request of length 0": replace(SMALL, rows=(8, 3, 4), context=(0, None, 17), padding=2),
    "heads in two pieces": replace(SMALL, rows=(16, 5), context=(50, 0), group=16, head_dim=256),
}


def drafter_attention() -> None:
    for name, case in ATTENTION.items():
        if not (case.meet and not torch.cuda.is_available()):
            check(case)
            print(f"ok {name}", flush=True)


def context_kv() -> None:
    for seed in (0, 2, 3, 7):
        case = context_kv_cases.case(seed, rows=17)
        test_context_kv.run_kernel(case)
        context_kv_cases.check_exact(case)
        print(f"ok seed {seed}", flush=True)


def mask_fill() -> None:
    for seed in (0, 1, 5, 7):
        case, want = test_mask_fill.case(seed), test_mask_fill.case(seed)
        test_mask_fill.run_kernel(case)
        test_mask_fill.run_reference(want)
        test_mask_fill.assert_equal(case, want)
        print(f"ok seed {seed}", flush=True)


KERNELS: dict[str, Callable[[], None]] = {f.__name__: f for f in (drafter_attention, context_kv, mask_fill)}

if __name__ == "__main__":
    KERNELS[sys.argv[1]]()
    print("done", flush=True)
