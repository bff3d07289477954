# SPDX-License-Identifier: Apache-2.0
"""Writing what was trained."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn


def save_weights(module: nn.Module, file: Path, prefix: str = "") -> int:
    """Write the module's tensors in bfloat16 under prefix + name. Returns the file's size in bytes."""
    tensors = {
        prefix + name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in module.state_dict().items()
    }
    save_file(tensors, file, metadata={"format": "pt"})
    return file.stat().st_size
