# SPDX-License-Identifier: Apache-2.0
"""vLLM's entry point (`vllm.general_plugins`): probe this vLLM, install the hooks, say so.

vLLM calls `register` in every process it starts. It is idempotent and touches no device.
Environment: VLLM_DFLASH=0 turns the plugin off; VLLM_DFLASH_STRICT=1 makes INACTIVE an error.
"""

import logging
import os

from vllm_dflash import __version__

# vLLM formats and shows what is logged under its own name.
logger = logging.getLogger("vllm.plugins.vllm_dflash")
_SAID = "_VLLM_DFLASH_SAID"
_installed = False


def inactive_reason() -> str | None:
    """Why the plugin stands aside in this environment, or None when it can be active."""
    from vllm_dflash.engine import probe

    if os.environ.get("VLLM_DFLASH", "1") == "0":
        return "turned off by VLLM_DFLASH=0"
    return probe.unsupported_release(probe.vllm_release()) or probe.first_problem(probe.CONFIG_NEEDS)


def stand_aside(reason: str) -> None:
    """Say INACTIVE once for this process and those it starts; an error under VLLM_DFLASH_STRICT=1."""
    line = f"vllm-dflash {__version__} INACTIVE: {reason}"
    if os.environ.get("VLLM_DFLASH_STRICT", "0") == "1":
        raise RuntimeError(f"{line} (VLLM_DFLASH_STRICT=1)")
    if os.environ.get(_SAID) != reason:
        os.environ[_SAID] = reason
        logger.warning(line)


def register() -> None:
    """Called by vLLM. Raises RuntimeError only under VLLM_DFLASH_STRICT=1."""
    global _installed
    if _installed:
        return
    reason = inactive_reason()
    if reason is not None:
        stand_aside(reason)
        return
    from vllm_dflash.engine import config_hook, model_hook, positions_hook, prefix_cache_hook, probe

    config_hook.install()
    model_hook.install()
    positions_hook.install()
    prefix_cache_hook.install()
    problem = probe.first_problem(probe.WATCH_NEEDS)
    if problem is None:
        from vllm_dflash.engine import watch_hook

        watch_hook.install()
    else:
        logger.warning("vllm-dflash %s: no acceptance warning and no gauges: %s", __version__, problem)
    problem = probe.first_problem(probe.WORKER_NEEDS)
    if problem is None:
        from vllm_dflash.engine import v1_proposer_hook

        v1_proposer_hook.install()
    else:
        logger.warning("vllm-dflash %s: V1 runner with one KV cache group only: %s", __version__, problem)
    problem = probe.first_problem(probe.KV_NEEDS)
    if problem is None:
        from vllm_dflash.engine import kv_groups_hook

        kv_groups_hook.install()
    else:
        logger.warning("vllm-dflash %s: vLLM's own KV cache groups: %s", __version__, problem)
    _installed = True
