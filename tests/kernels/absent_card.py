# SPDX-License-Identifier: Apache-2.0
"""Triton kernels compiled for a card that this machine does not have, by their own launchers; nothing is run.

Triton needs no GPU to make code for one: it brings NVIDIA's assembler. Tensors are torch's fake ones, which have a CUDA
device and no data; a launch compiles what it would have launched and keeps it.
"""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from torch._subclasses.fake_tensor import FakeTensor
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import KernelInterface

from vllm_dflash.kernels import drafter_attention_plan

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass
class Card:
    """shared: bytes of shared memory that one program may have. compiled: the kernels, in the order of launches."""

    capability: tuple[int, int]
    processors: int
    shared: int
    compiled: list[Any] = field(default_factory=list)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.get_current_device(), 32)

    def get_current_device(self) -> int:
        """Triton keeps what it compiled by device, so each kind of card is one."""
        major, minor = self.capability
        return 10 * major + minor

    def get_current_stream(self, device: int) -> int:
        return 0

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Until the test ends, torch and Triton take this card for the one that is there."""
        properties = SimpleNamespace(multi_processor_count=self.processors, shared_memory_per_block_optin=self.shared)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: self.capability)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device=None: properties)
        for name in ("_processors", "_shared"):  # the same without their memory of the last card
            monkeypatch.setattr(drafter_attention_plan, name, getattr(drafter_attention_plan, name).__wrapped__)
        monkeypatch.setattr(FakeTensor, "data_ptr", lambda tensor: 0, raising=False)
        monkeypatch.setattr(driver, "_active", self)

        def launch(kernel: Any, grid: Any) -> Any:
            return lambda *given, **named: self.compiled.append(kernel.warmup(*given, grid=grid, **named))

        monkeypatch.setattr(KernelInterface, "__getitem__", launch)


def cards() -> dict[str, Card]:
    """By name; shared memory from NVIDIA's tables of compute capabilities."""
    return {
        "A100": Card((8, 0), 108, 163 * 1024),
        "L40S": Card((8, 9), 142, 99 * 1024),
        "H200": Card((9, 0), 132, 227 * 1024),
        "B200": Card((10, 0), 148, 227 * 1024),
        "RTX PRO 6000": Card((12, 0), 188, 99 * 1024),
    }


def resources(compiled: Any, folder: Path) -> dict[str, int]:
    """Registers a thread (REG), bytes a thread spilled to memory (STACK), as the assembler says."""
    file = folder / "kernel.cubin"
    file.write_bytes(compiled.asm["cubin"])
    shown = subprocess.run(
        [TOOLS / "cuobjdump", "--dump-resource-usage", file], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", shown)}
