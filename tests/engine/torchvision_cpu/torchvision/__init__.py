# SPDX-License-Identifier: Apache-2.0
"""Names of torchvision for the tests of text-only Qwen3.5 on the CPU; none of them does anything.

vLLM's Qwen3.5 module imports image processing for its vision twin, and the CPU set-up has no torchvision (PyPI has
only a build that torch's CPU build cannot load). On PYTHONPATH of a test's engine process only.
"""

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any


class _Placeholder(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


def _name_in(module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {module} has no attribute {name}")
    return _Placeholder(name, (), {})


class _AnySubmodule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("torchvision.") else None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = lambda name: _name_in(module.__name__, name)


sys.meta_path.append(_AnySubmodule())


def __getattr__(name: str) -> Any:
    return _name_in(__name__, name)
