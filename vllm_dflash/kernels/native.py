# SPDX-License-Identifier: Apache-2.0
"""The compiled CPU kernels (csrc/cpu): found, loaded, and an instruction set chosen. Without torch.

`VLLM_DFLASH_CPU_ISA=scalar|avx2|avx512` forces an instruction set; by default the best that this processor has.
"""

import ctypes
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from vllm_dflash.errors import UserError

ABI = 1  # DFLASH_ABI of csrc/include/dflash_cpu.h
VARIABLE = "VLLM_DFLASH_CPU_ISA"
FOLDER = Path(__file__).parent.parent / "_native"
LIBRARY = FOLDER / "libdflash_cpu.so"
RECORD = FOLDER / "build.json"


class NotBuilt(UserError):
    """There are no compiled kernels to load."""


@cache
def library() -> ctypes.CDLL:
    """The loaded library, with the instruction set that the environment asks for.

    Raises NotBuilt when there is none of this version, UserError when the instruction set is not to be had.
    """
    if not LIBRARY.exists():
        why = build_record().get("cpu", {}).get("problem", "this installation has no record of a build")
        raise NotBuilt(f"the CPU kernels are not built: {why}")
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
    except OSError as problem:
        raise NotBuilt(f"the CPU kernels do not load: {problem}") from None
    for name in ("dflash_message", "dflash_instruction_sets", "dflash_instruction_set", "dflash_thread_library"):
        getattr(loaded, name).restype = ctypes.c_char_p
    found = loaded.dflash_abi()
    if found != ABI:
        needed = f"{ABI}: install again"
        raise NotBuilt("the CPU kernels are of another version", field="ABI", found=found, needed=needed)
    chosen = os.environ.get(VARIABLE)
    if chosen:
        _choose(loaded, chosen)
    return loaded


@cache
def problem() -> str | None:
    """Why there are no CPU kernels to use here, or None. Raises UserError when VLLM_DFLASH_CPU_ISA is wrong."""
    try:
        library()
    except NotBuilt as error:
        return str(error)
    return None


def use_instruction_set(name: str) -> None:
    """Use one of `instruction_sets()` from now on. Raises UserError for any other."""
    _choose(library(), name)


def instruction_sets() -> list[str]:
    """Those that are built and that this processor has, best first."""
    return str(library().dflash_instruction_sets().decode()).split()


def instruction_set() -> str:
    """The one in use."""
    return str(library().dflash_instruction_set().decode())


def thread_library() -> str:
    """File of the OpenMP runtime whose threads are used; empty when there is none and all runs in the caller."""
    return str(library().dflash_thread_library().decode())


def build_record() -> dict[str, Any]:
    """What setup.py wrote for `cpu` and `cuda`: library, compiler and seconds, or the problem."""
    try:
        return dict(json.loads(RECORD.read_text()))
    except (OSError, ValueError):
        return {}


def call(function: str, arguments: ctypes.Structure) -> None:
    """Run one kernel. Raises UserError with the kernel's own words when it refuses its arguments."""
    loaded = library()
    if getattr(loaded, function)(ctypes.byref(arguments)):
        raise UserError(f"{function}: {loaded.dflash_message().decode()}")


def _choose(loaded: ctypes.CDLL, name: str) -> None:
    if loaded.dflash_use_instruction_set(name.encode()):
        known = loaded.dflash_instruction_sets().decode()
        raise UserError(
            "no such CPU kernels on this machine", field=VARIABLE, found=name, needed=f"one of {known.split()}"
        )
