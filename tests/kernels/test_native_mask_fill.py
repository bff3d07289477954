# SPDX-License-Identifier: Apache-2.0
"""The compiled mask_fill equals the reference bit for bit, on the cases that the Triton kernel is tested with."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.kernels.device import DEVICE, INTERPRETED
from tests.kernels.test_mask_fill import Case, case, run_reference
from vllm_dflash.errors import UserError
from vllm_dflash.kernels import native, native_mask_fill

if native.problem() is not None or INTERPRETED or DEVICE != "cpu":
    pytest.skip(native.problem() or "these cases are on another device here", allow_module_level=True)


def run(c: Case) -> None:
    native_mask_fill.mask_fill(c.step, c.groups, c.out, **c.numbers)


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_random_cases(first: int) -> None:
    for seed in range(first, first + 100):
        c, other = case(seed), case(seed)
        run(c)
        run_reference(other)
        for mine, theirs in zip(c.outputs(), other.outputs(), strict=True):
            assert torch.equal(mine, theirs), f"seed {seed}"


def starts(c: Case, *values: int) -> None:
    given = list(values) + [values[-1]] * (len(c.step.query_start_loc) - len(values))
    c.step = replace(c.step, query_start_loc=torch.tensor(given, dtype=torch.int32))


def rejected(c: Case, value: int) -> None:
    c.step = replace(c.step, num_rejected=torch.full((c.numbers["num_reqs"],), value, dtype=torch.int32))


def state(c: Case, value: int) -> None:
    c.step = replace(c.step, request_state=torch.full((c.numbers["num_reqs"],), value, dtype=torch.int32))


REFUSED: list[tuple[Callable[[Case], object], str]] = [
    (lambda c: starts(c, 0, 10**6), "query_start_loc of request 0: found 0 to 1000000"),
    (lambda c: starts(c, 2, 1), "query_start_loc of request 0: found 2 to 1"),
    (lambda c: rejected(c, -1), "num_rejected of request 0: found -1"),
    (lambda c: state(c, -1), "request_state of request 0: found -1"),
    (lambda c: state(c, 10**6), "request_state of request 0: found 1000000"),
    (lambda c: setattr(c, "step", replace(c.step, anchor_tokens=c.step.anchor_tokens.float())), "torch.float32"),
]


@pytest.mark.parametrize(("spoil", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_points_outside_a_buffer_is_refused(spoil: Callable[[Any], object], message: str) -> None:
    c, untouched = case(3), case(3)
    spoil(c)
    with pytest.raises(UserError) as refused:
        run(c)
    assert message in str(refused.value)
    assert all(torch.equal(a, b) for a, b in zip(c.outputs(), untouched.outputs(), strict=True))
