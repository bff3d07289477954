# SPDX-License-Identifier: Apache-2.0
from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget


class CPUBackend(BaseBackend):
    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cpu"

    def hash(self) -> str:
        return "interpreter"

    def parse_options(self, options: dict[str, Any]) -> object:
        raise NotImplementedError("kernels run in Triton's interpreter only")

    def add_stages(self, stages: dict[str, Any], options: object, language: Any = None) -> None:
        raise NotImplementedError("kernels run in Triton's interpreter only")

    def load_dialects(self, context: Any) -> None:
        pass

    def get_module_map(self) -> dict[str, ModuleType]:
        return {}
