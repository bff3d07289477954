# SPDX-License-Identifier: Apache-2.0
"""The frozen target: its model, its tokenizer, what the trainer needs to know about it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from vllm_dflash.checkpoint import Rope
from vllm_dflash.errors import UserError


@dataclass(frozen=True)
class TargetShape:
    """Sizes of a Llama, Qwen2 or Qwen3 type target, from its config.json."""

    layers: int
    hidden: int
    mlp: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    norm_eps: float
    rope: Rope
    max_positions: int


@dataclass
class FrozenTarget:
    """model: a Hugging Face causal LM without gradients, on its device; eos: ids that end an answer."""

    path: Path
    model: Any
    tokenizer: Any
    shape: TargetShape
    eos: tuple[int, ...]
    fingerprint: str

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device

    @property
    def head_weight(self) -> torch.Tensor:
        """[vocabulary, hidden], frozen."""
        return self.model.get_output_embeddings().weight


def pick_device(name: str) -> torch.device:
    """ "auto", "cpu" or "cuda" (with or without an index); UserError for another name or an absent GPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.split(":")[0] not in ("cpu", "cuda"):
        raise UserError("unknown device", field="device", found=name, needed="auto, cpu or cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("torch sees no GPU here", field="device", found=name)
    return torch.device(name)


def open_target(path: Path, device: torch.device) -> FrozenTarget:
    """Load the target: bfloat16 on a GPU, float32 on a CPU.

    Raises:
        UserError: no such folder, a config without the sizes, attention that is not computed here, a tokenizer
            with more tokens than the model has rows, or a tokenizer without a chat template.
    """
    file = Path(path) / "config.json"
    if not file.is_file():
        raise UserError("no target here", field="target", found=str(path), needed="a folder with config.json")
    config = json.loads(file.read_text())
    shape = _shape(config, file)
    _check_attention(config, file)
    tokenizer = AutoTokenizer.from_pretrained(path)
    if len(tokenizer) > shape.vocabulary:
        raise UserError(
            "the tokenizer knows more tokens than the target has rows",
            field="vocab_size", found=shape.vocabulary, needed=f"at least {len(tokenizer)}", file=file,
        )  # fmt: skip
    if not tokenizer.chat_template:
        raise UserError(
            "the target's tokenizer has no chat template", file=Path(path) / "tokenizer_config.json"
        )
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")
    model = model.to(device).eval().requires_grad_(False)
    rows = model.get_input_embeddings().weight.shape[0]
    if rows != shape.vocabulary:
        raise UserError(
            "the target's embedding and config disagree", field="vocab_size", found=shape.vocabulary,
            needed=str(rows), file=file,
        )  # fmt: skip
    return FrozenTarget(Path(path), model, tokenizer, shape, _eos(model, tokenizer), _fingerprint(model))


def _check_attention(config: dict[str, Any], file: Path) -> None:
    """PyTorch's attention function, which answers and taps come from, knows no cap and no sinks."""
    cap = config.get("attn_logit_softcapping")
    if cap is not None:
        raise UserError(
            "training would leave out the target's cap of attention logits",
            field="attn_logit_softcapping", found=cap, needed="a target without one", file=file,
        )  # fmt: skip
    if config.get("model_type") == "gpt_oss":
        raise UserError(
            "training would leave out the target's attention sinks",
            field="model_type", found="gpt_oss", needed="a target without sinks", file=file,
        )  # fmt: skip


def _shape(config: dict[str, Any], file: Path) -> TargetShape:
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"):
        if key not in config:
            raise UserError(
                "the target's config lacks a size", field=key, found=None, needed="an integer", file=file
            )
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = float(config.get("rope_theta") or rope.get("rope_theta") or 10000.0)
    return TargetShape(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        mlp=config["intermediate_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        vocabulary=config["vocab_size"],
        norm_eps=config.get("rms_norm_eps", 1e-6),
        rope=Rope(theta, head_dim, None if kind == "default" else rope),
        max_positions=config.get("max_position_embeddings", 2048),
    )


def _eos(model: Any, tokenizer: Any) -> tuple[int, ...]:
    ids = getattr(model.generation_config, "eos_token_id", None)
    ids = [ids] if isinstance(ids, int) else list(ids or [])
    if tokenizer.eos_token_id is not None:
        ids.append(tokenizer.eos_token_id)
    return tuple(sorted(set(ids)))


def _fingerprint(model: Any) -> str:
    """Short hash of embedding rows and final norm in bfloat16, the same for the same weights in any file."""
    decoder = model.get_decoder()
    digest = hashlib.sha256()
    for tensor in (model.get_input_embeddings().weight[:256], decoder.norm.weight):
        digest.update(tensor.detach().to(torch.bfloat16).cpu().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:16]
