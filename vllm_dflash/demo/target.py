# SPDX-License-Identifier: Apache-2.0
"""The demo target as a Hugging Face folder, in the two forms that vLLM needs.

Both hold the same weights: the GGUF's dequantised values rounded once to bf16. Most of them have no exact
bf16 form, so the bf16 weights are the target: trainer, reference and engine all read them, never the GGUF.
"""

import json
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from tqdm import tqdm

from vllm_dflash.demo.gguf_checkpoint import GgufCheckpoint, LlamaShape
from vllm_dflash.demo.gguf_source import checked_sha256, locate_gguf
from vllm_dflash.demo.gguf_tokenizer import special_token_ids, write_tokenizer
from vllm_dflash.demo.manifest import sha256_of, write_manifest
from vllm_dflash.demo.mtp_tensors import random_mtp, read_mtp
from vllm_dflash.errors import UserError

CONVERTER_VERSION = 1
Variant = Literal["llama", "mimo"]


def target_inputs(
    gguf_sha256: str, variant: Variant, mtp: Path | None, random_mtp_seed: int | None = None
) -> dict[str, str | int | None]:
    """What a target folder depends on; recorded in its manifest."""
    return {
        "converter_version": CONVERTER_VERSION,
        "gguf_sha256": gguf_sha256,
        "variant": variant,
        "mtp_sha256": sha256_of(mtp) if mtp else None,
        "random_mtp_seed": random_mtp_seed,
    }


def prepare_target(
    out: Path,
    variant: Variant,
    mtp: Path | None = None,
    *,
    gguf: Path | None = None,
    random_mtp_seed: int | None = None,
) -> Path:
    """Writes SmolLM2-135M-Instruct to the folder `out` and returns it.

    Args:
        out: created if missing; files there are overwritten.
        variant: "llama" (LlamaForCausalLM) or "mimo" (MiMoForCausalLM: the same weights with zero q, k and v
            biases, plus a one-layer MTP head, for vLLM's method "mtp").
        mtp: safetensors file with the MTP head, names `model.mtp_layers.0.*`; "mimo" only.
        gguf: default: `locate_gguf()`.
        random_mtp_seed: fill "mimo" with an untrained MTP head instead of reading `mtp`.

    Raises:
        UserError: see `GgufCheckpoint`, `write_tokenizer`, `read_mtp`; or no MTP head was given.
    """
    if variant not in ("llama", "mimo"):
        raise UserError("unknown target variant", field="variant", found=variant, needed="llama or mimo")
    if variant == "mimo" and (mtp is None) == (random_mtp_seed is None):
        raise UserError("the mimo target needs an MTP head: give either a file or a seed for a random one")
    if variant == "llama" and (mtp is not None or random_mtp_seed is not None):
        raise UserError("the llama target takes no MTP head")
    source = gguf or locate_gguf()
    digest = checked_sha256(source)
    checkpoint = GgufCheckpoint(source)
    shape = checkpoint.shape

    tensors = _bf16_weights(checkpoint, f"{out.name}: dequantising")
    if variant == "mimo":
        tensors |= _zero_biases(shape)
        tensors |= read_mtp(mtp, shape) if mtp is not None else random_mtp(shape, random_mtp_seed or 0)

    out.mkdir(parents=True, exist_ok=True)
    ids = special_token_ids(checkpoint)
    token_ids = {f"{name}_token_id": ids[name] for name in ("bos", "eos", "pad")}
    _write_json(out / "config.json", _config(shape, variant) | token_ids)
    _write_json(out / "generation_config.json", token_ids | {"do_sample": False})
    write_tokenizer(checkpoint, out)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    write_manifest(out, target_inputs(digest, variant, mtp, random_mtp_seed))
    return out


def _bf16_weights(checkpoint: GgufCheckpoint, title: str) -> dict[str, torch.Tensor]:
    total = len(checkpoint.tensor_names)
    named = tqdm(checkpoint.weights(), desc=title, total=total, unit="tensor", leave=False)
    return {name: values.to(torch.bfloat16) for name, values in named}


def _zero_biases(shape: LlamaShape) -> dict[str, torch.Tensor]:
    heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads, "v_proj": shape.kv_heads}
    return {
        f"model.layers.{layer}.self_attn.{name}.bias": torch.zeros(
            rows * shape.head_dim, dtype=torch.bfloat16
        )
        for layer in range(shape.layers)
        for name, rows in heads.items()
    }


def _config(shape: LlamaShape, variant: Variant) -> dict[str, Any]:
    common = {
        "torch_dtype": "bfloat16",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": shape.max_positions,
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "tie_word_embeddings": shape.tied,
        "use_cache": True,
    }
    if variant == "llama":
        llama = {"attention_bias": False, "mlp_bias": False}
        return {"architectures": ["LlamaForCausalLM"], "model_type": "llama"} | common | llama
    mimo = {"use_sliding_window": False, "num_nextn_predict_layers": 1}
    return {"architectures": ["MiMoForCausalLM"], "model_type": "qwen2"} | common | mimo


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
