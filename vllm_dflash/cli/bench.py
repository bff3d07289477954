# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash bench`, the same as benchmarks/throughput.py."""

from vllm_dflash.bench.options import add_arguments
from vllm_dflash.bench.run import run

__all__ = ["add_arguments", "run"]
