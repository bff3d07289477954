# SPDX-License-Identifier: Apache-2.0
"""The one-layer MTP head of a MiMo checkpoint: names, shapes, files.

Names are those of the checkpoint (`model.mtp_layers.0.*`), as vLLM's `MiMoMTP` reads them. `input_proj` takes
[normed previous hidden state, normed token embedding], in this order; the layer is a Qwen2 decoder layer.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from vllm_dflash.demo.gguf_checkpoint import LlamaShape, check_tensor_shapes
from vllm_dflash.errors import UserError

MTP_PREFIX = "model.mtp_layers.0."


def mtp_shapes(shape: LlamaShape) -> dict[str, tuple[int, ...]]:
    """Checkpoint name -> shape of every MTP tensor for a target of this shape."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {
        "token_layernorm.weight": (shape.hidden,),
        "hidden_layernorm.weight": (shape.hidden,),
        "input_proj.weight": (shape.hidden, 2 * shape.hidden),
        "final_layernorm.weight": (shape.hidden,),
        "input_layernorm.weight": (shape.hidden,),
        "post_attention_layernorm.weight": (shape.hidden,),
        "self_attn.q_proj.weight": (queries, shape.hidden),
        "self_attn.q_proj.bias": (queries,),
        "self_attn.k_proj.weight": (keys, shape.hidden),
        "self_attn.k_proj.bias": (keys,),
        "self_attn.v_proj.weight": (keys, shape.hidden),
        "self_attn.v_proj.bias": (keys,),
        "self_attn.o_proj.weight": (shape.hidden, queries),
        "mlp.gate_proj.weight": (shape.intermediate, shape.hidden),
        "mlp.up_proj.weight": (shape.intermediate, shape.hidden),
        "mlp.down_proj.weight": (shape.hidden, shape.intermediate),
    }
    return {MTP_PREFIX + name: size for name, size in sizes.items()}


def read_mtp(path: Path, shape: LlamaShape) -> dict[str, torch.Tensor]:
    """MTP tensors in bf16 from a safetensors file; missing q, k and v biases are zero.

    Raises:
        UserError: the file is missing, damaged, lacks a tensor, has an unknown one or a wrong shape.
    """
    expected = mtp_shapes(shape)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).to(torch.bfloat16) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read the MTP head: {error}", file=path) from error
    for name, size in expected.items():
        if name not in tensors and name.endswith(".bias"):
            tensors[name] = torch.zeros(size, dtype=torch.bfloat16)
    check_tensor_shapes({name: tuple(values.shape) for name, values in tensors.items()}, expected, path)
    return tensors


def random_mtp(shape: LlamaShape, seed: int) -> dict[str, torch.Tensor]:
    """An untrained MTP head in bf16: norms 1, biases 0, matrices N(0, 0.02), the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, size in mtp_shapes(shape).items():
        if name.endswith(".bias"):
            values = torch.zeros(size)
        elif len(size) == 1:
            values = torch.ones(size)
        else:
            values = torch.randn(size, generator=generator) * 0.02
        tensors[name] = values.to(torch.bfloat16)
    return tensors
