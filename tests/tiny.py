# SPDX-License-Identifier: Apache-2.0
"""Tiny random target and drafter checkpoints, made in seconds, in the real formats."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

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


def target(folder: Path, family: str = "llama", layers: int = 4, seed: int = 0, positions: int = 512) -> Path:
    """A random Llama or Qwen3 whose greedy output varies but stays among four tokens.

    The head knows only those four, so a random drafter that borrows it is right about one time in four and many
    accepted counts occur.
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
    model = LlamaForCausalLM(LlamaConfig(**shape)) if family == "llama" else Qwen3ForCausalLM(Qwen3Config(**shape))
    with torch.no_grad():
        rows = torch.nn.functional.normalize(torch.randn(4, HIDDEN))
        model.lm_head.weight.zero_()
        model.lm_head.weight[10:14] = rows - rows.mean(0)
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
