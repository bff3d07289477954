# SPDX-License-Identifier: Apache-2.0
"""A tiny target, what it answers, and drafters trained on it for seconds until every field of their config matters."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.train.conftest import VOCABULARY, WORDS, make_tokenizer
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.run import run_training

torch.set_num_threads(1)

LAYERS, ANSWER = 6, 48


def make_target(folder: Path, seed: int = 11) -> Path:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, head_dim=16,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
        initializer_range=0.16, eos_token_id=0, bos_token_id=None, rope_theta=10000.0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def make_prompts(file: Path, count: int = 48) -> Path:
    generator = torch.Generator().manual_seed(5)
    lines = []
    for _ in range(count):
        length = int(torch.randint(2, 12, (), generator=generator))
        words = torch.randint(0, len(WORDS), (length,), generator=generator).tolist()
        lines.append(json.dumps({"prompt": " ".join(WORDS[w] for w in words), "split": "train"}))
    file.write_text("\n".join(lines) + "\n")
    return file


def train_drafter(folder: Path, target: Path, prompts: Path, **options: Any) -> Path:
    tiny: dict[str, Any] = {
        "target": target, "out": folder, "prompts": str(prompts), "device": "cpu", "mlp": 96, "anchors": 8,
        "steps": 300, "warmup": 10, "batch_size": 24, "log_every": 100, "learning_rate": 6e-3, "max_length": 96,
        "answer_tokens": ANSWER, "block_size": 6, "window": 12, "layers": "SF", "taps": "0,4",
    }  # fmt: skip
    run_training(TrainOptions(**(tiny | options)), "")
    return folder


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_target(tmp_path_factory.mktemp("recover") / "target")


@pytest.fixture(scope="session")
def tiny_prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_prompts(tmp_path_factory.mktemp("recover") / "prompts.jsonl")
