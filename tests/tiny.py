# SPDX-License-Identifier: Apache-2.0
"""Tiny random target and drafter checkpoints, made in seconds, in the real formats."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from vllm_dflash.checkpoint import DraftLayer, Rope, load_draft_config, native_config_dict
from vllm_dflash.reference.drafter import Drafter

VOCABULARY, HIDDEN, HEAD_DIM, HEADS, KV_HEADS = 128, 64, 32, 2, 1
MASK = VOCABULARY - 1


def tokenizer(folder: Path) -> None:
    words = {f"w{i}": i for i in range(VOCABULARY)}
    plain = Tokenizer(models.WordLevel(words, unk_token="w0"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="w0", eos_token="w1", pad_token="w0").save_pretrained(
        folder
    )


def random_model(family: str, shape: dict[str, Any]) -> Any:
    """A random Hugging Face model of a family. Its own sliding layers see 16 tokens."""
    if family == "llama":
        return LlamaForCausalLM(LlamaConfig(**shape))
    if family == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**shape))
    if family == "qwen3_moe":
        experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
        return Qwen3MoeForCausalLM(Qwen3MoeConfig(**shape, **experts))
    if family == "gpt_oss":
        experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16}
        model = GptOssForCausalLM(GptOssConfig(**shape | {"intermediate_size": 64}, **experts))
        for name, weight in model.named_parameters():
            if name.endswith(("bias", "sinks")):
                torch.nn.init.normal_(weight, std=0.5)
        return model
    if family == "gemma2":
        more = {
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "sliding_window": 16,
            "query_pre_attn_scalar": HEAD_DIM,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 2.0,
        }
        return Gemma2ForCausalLM(Gemma2Config(**shape | {"tie_word_embeddings": True}, **more))
    if family == "gemma3":
        more = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 16}
        config = Gemma3TextConfig(**shape | {"tie_word_embeddings": True}, **more, query_pre_attn_scalar=HEAD_DIM)
        return Gemma3ForCausalLM(config)
    if family == "gemma4":
        more = {
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "sliding_window": 16,
            "global_head_dim": 2 * HEAD_DIM,
            "hidden_size_per_layer_input": 0,
            "final_logit_softcapping": 2.0,
        }
        return Gemma4ForCausalLM(Gemma4TextConfig(**shape | {"tie_word_embeddings": True}, **more))
    raise ValueError(family)


def target(folder: Path, family: str = "llama", layers: int = 4, seed: int = 0, positions: int = 512) -> Path:
    """A random target (see `random_model`) whose greedy output varies but stays among four tokens.

    The head knows only those four (nearly so where it is tied to the embedding), so a random drafter that borrows it
    is right about one time in four and many accepted counts occur.
    """
    torch.manual_seed(seed)
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": positions,
        "initializer_range": 0.2,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": 1,
    }
    model = random_model(family, shape)
    with torch.no_grad():
        rows = torch.nn.functional.normalize(torch.randn(4, HIDDEN))
        tied = model.config.tie_word_embeddings
        model.lm_head.weight *= 0.02 if tied else 0.0
        model.lm_head.weight[10:14] = (rows - rows.mean(0)) * (0.25 if tied else 1.0)
    model.save_pretrained(folder)
    tokenizer(folder)
    return folder


def layer(kind: str, window: int, head_dim: int = HEAD_DIM) -> DraftLayer:
    """S sliding causal, s sliding non-causal, F full non-causal, C full causal."""
    return DraftLayer(window if kind in "Ss" else None, kind in "SC", Rope(10000.0, head_dim))


def drafter(
    folder: Path,
    kinds: str,
    *,
    window: int = 16,
    taps: Sequence[int] = (0, 1, 3),
    block: int = 5,
    target_layers: int = 4,
    seed: int = 1,
    positions: int = 512,
    sinks: bool = False,
    heads: tuple[int, int, int] = (HEADS, KV_HEADS, HEAD_DIM),
) -> Path:
    """A random drafter in native format. The same seed gives the same weights whatever the layer kinds.

    heads: query heads, key/value heads, size of a head.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = native_config_dict(
        layers=[layer(kind, window, heads[2]) for kind in kinds],
        tap_layer_ids=list(taps),
        block_size=block,
        mask_token_id=MASK,
        hidden_size=HIDDEN,
        intermediate_size=96,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=heads[2],
        rms_norm_eps=1e-6,
        vocab_size=VOCABULARY,
        num_target_layers=target_layers,
        target_hidden_size=HIDDEN,
        max_position_embeddings=positions,
        dtype="float32",
    )
    config["dflash_config"]["attention_sink_bias"] = sinks
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    generator = torch.Generator().manual_seed(seed)
    shapes = {name: w.shape for name, w in Drafter(load_draft_config(folder)).state_dict().items()}
    save_file(
        {
            name: torch.ones(shape) + 0.1 * torch.randn(shape, generator=generator)
            if name.endswith("norm.weight")
            else 0.2 * torch.randn(shape, generator=generator)
            for name, shape in shapes.items()
        },
        folder / "model.safetensors",
    )
    return folder
