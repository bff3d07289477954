# SPDX-License-Identifier: Apache-2.0
"""What a drafter checkpoint says and means. No torch.nn, no vLLM, no transformers."""

from vllm_dflash.checkpoint.draft_config import DraftConfig, DraftLayer, Rope, Source
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.load import is_foreign_draft, load_draft_config
from vllm_dflash.checkpoint.native_writer import native_config_dict
from vllm_dflash.checkpoint.safetensors_header import TensorInfo, read_safetensors_header
from vllm_dflash.checkpoint.target_config import TargetConfig, load_target_config
from vllm_dflash.checkpoint.tensors import Tensors, read_tensors

__all__ = [
    "DraftConfig",
    "DraftLayer",
    "Finding",
    "Rope",
    "Source",
    "TargetConfig",
    "TensorInfo",
    "Tensors",
    "is_foreign_draft",
    "load_draft_config",
    "load_target_config",
    "native_config_dict",
    "read_safetensors_header",
    "read_tensors",
]
