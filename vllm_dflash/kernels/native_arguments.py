# SPDX-License-Identifier: Apache-2.0
"""What the compiled CPU kernels take, and how the launchers refuse the rest."""

from collections.abc import Container, Iterable
from typing import Any

import torch

from vllm_dflash.errors import UserError

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}  # codes of csrc/include/dflash_cpu.h
INT32, INTEGERS = (torch.int32,), (torch.int32, torch.int64)


def require(*checks: tuple[str, Any, Container[Any]]) -> None:
    """Each check is (field, value found, allowed values). Raises UserError for the first that does not hold."""
    for field, found, allowed in checks:
        if found not in allowed:
            needed = " or ".join(map(str, allowed)) if isinstance(allowed, Iterable) else str(allowed)
            raise UserError("the CPU kernel does not take this", field=field, found=found, needed=needed)
