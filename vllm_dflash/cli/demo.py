# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash demo`: make the demo's models and print where they are."""

from vllm_dflash.demo.cli import add_arguments, run

__all__ = ["add_arguments", "run"]
