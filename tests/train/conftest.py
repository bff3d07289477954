# SPDX-License-Identifier: Apache-2.0
"""A tiny Llama with a tokenizer and a chat template, and prompts for it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from vllm_dflash.train.answers import Answers, answer, encode
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.requests import read_requests
from vllm_dflash.train.target_model import FrozenTarget, open_target

torch.set_num_threads(1)

SPECIAL = ["<end>", "<user>", "<assistant>", "<unk>", "<reserved_0>", "<reserved_1>"]
WORDS = [f"w{i}" for i in range(190)]
VOCABULARY = len(SPECIAL) + len(WORDS)
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<{{ m.role }}> {{ m.content }} {% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = {word: i for i, word in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>",
        additional_special_tokens=["<user>", "<assistant>", "<reserved_0>", "<reserved_1>"],
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    return fast


@pytest.fixture(scope="session")
def target_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=4, head_dim=16,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
        initializer_range=0.16, eos_token_id=0, bos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = 0
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def prompts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    generator = torch.Generator().manual_seed(5)
    lines = []
    for i in range(40):
        length = int(torch.randint(1, 9, (), generator=generator))
        words = torch.randint(0, len(WORDS), (length,), generator=generator).tolist()
        prompt = " ".join(WORDS[w] for w in words)
        lines.append({"prompt": prompt, "category": "odd" if i % 2 else "even", "template": f"t{i % 8}"})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture(scope="session")
def target(target_dir: Path) -> FrozenTarget:
    return open_target(target_dir, torch.device("cpu"))


@pytest.fixture(scope="session")
def answers(target: FrozenTarget, prompts_file: Path) -> Answers:
    requests = read_requests(str(prompts_file), 0)
    return answer(requests, encode(requests, target, 32), target, 32, 8)


@pytest.fixture(scope="session")
def answers_file(answers: Answers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("answers") / "answers.safetensors"
    answers.save(file)
    return file


@pytest.fixture
def options(target_dir: Path, answers_file: Path, tmp_path: Path) -> Callable[..., TrainOptions]:
    """Options of a tiny run; keyword arguments override."""

    def make(**changes: Any) -> TrainOptions:
        tiny: dict[str, Any] = {
            "target": target_dir, "answers": answers_file, "out": tmp_path / "out", "device": "cpu",
            "layers": "SF", "window": 12, "taps": "0,2", "block_size": 5, "mlp": 64, "anchors": 6,
            "steps": 20, "warmup": 3, "batch_size": 8, "log_every": 5, "learning_rate": 3e-3,
            "max_length": 64, "answer_tokens": 32,
        }  # fmt: skip
        return TrainOptions(**(tiny | changes))

    return make
