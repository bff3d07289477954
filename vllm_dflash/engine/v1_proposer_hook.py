# SPDX-License-Identifier: Apache-2.0
"""Puts our proposer into the V1 runner, in the process and at the moment that a worker starts on its device.

Not earlier: the runner's module is heavy, and processes that only read a configuration never need it.
"""

import functools
from typing import Any

from vllm.v1.worker.worker_base import WorkerWrapperBase

from vllm_dflash.engine import probe
from vllm_dflash.engine.model_hook import drafts_with_us
from vllm_dflash.plugin import logger


def use_our_proposer() -> None:
    """The runner looks up `DFlashProposer` in its own module when it is built."""
    problem = probe.first_problem(probe.V1_NEEDS)
    if problem is not None:
        logger.warning("vllm-dflash: the V1 runner keeps vLLM's proposer, one KV cache group only: %s", problem)
        return
    from vllm.v1.worker import gpu_model_runner

    from vllm_dflash.engine.v1_proposer import GroupedProposer

    gpu_model_runner.DFlashProposer = GroupedProposer


def install() -> None:
    init_device = WorkerWrapperBase.init_device

    @functools.wraps(init_device)
    def with_our_proposer(self: Any) -> Any:
        config = self.vllm_config
        if drafts_with_us(config.speculative_config) and not config.use_v2_model_runner:
            use_our_proposer()
        return init_device(self)

    WorkerWrapperBase.init_device = with_our_proposer
