# SPDX-License-Identifier: Apache-2.0
"""The rebuilt tokenizer against a slow encoder that knows only the GGUF's tokens and merges."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import regex  # type: ignore[import-untyped,unused-ignore]
from transformers import AutoTokenizer

from vllm_dflash.demo.gguf_checkpoint import GgufCheckpoint

SPACES = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

STRINGS = [
    "",
    " ",
    "Hello, world!",
    "  leading and trailing  ",
    "12345 and 3.14159, 007; 1,000,000",
    "x=1\n\n\ny = 22\r\n\tif x:\n        return -1\n\n",
    "don't they'll I'VE we're 'tis",
    "naïve café Ångström straße ﬁ",
    "日本語のテキスト 한국어 العربية हिन्दी",
    "🙂🙃 👩‍👩‍👧‍👦 é e\u0301",
    "½ ² Ⅷ ٣٤٥ 一二三",
    "non\u00a0breaking\u2003space\u200bzero",
    "a<|im_start|>b <|im_end|>\n<|endoftext|><repo_name>x<|im_start|",
    "def f(a, b):\n    return a[0] ** b // 2  # ok\n",
    "snake_case camelCase SCREAMING--dashes... ????!!!",
    "word" * 40,
]


class SlowBpe:
    def __init__(self, gguf: GgufCheckpoint) -> None:
        tokens, types = gguf.value("tokenizer.ggml.tokens"), gguf.value("tokenizer.ggml.token_type")
        self.ids = {token: index for index, token in enumerate(tokens)}
        self.ranks = {tuple(m.split(" ")): rank for rank, m in enumerate(gguf.value("tokenizer.ggml.merges"))}
        special = [token for token, kind in zip(tokens, types, strict=True) if kind == 3]
        self.special = regex.compile("(" + "|".join(map(regex.escape, special)) + ")")
        self.letters = self.byte_letters()

    @staticmethod
    def byte_letters() -> dict[int, str]:
        shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        hidden = [byte for byte in range(256) if byte not in shown]
        return {byte: chr(byte) for byte in shown} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in self.special.split(text):
            if self.special.fullmatch(piece):
                ids.append(self.ids[piece])
                continue
            for run in regex.split(r"(\p{N})", piece):
                for word in regex.findall(SPACES, run):
                    ids += self.word(word)
        return ids

    def word(self, word: str) -> list[int]:
        parts = [letter for b in word.encode() if (letter := self.letters[b]) in self.ids]
        while True:
            ranked = [(self.ranks.get(pair, 1 << 30), i) for i, pair in enumerate(pairwise(parts))]
            rank, i = min(ranked, default=(1 << 30, 0))
            if rank == 1 << 30:
                return [self.ids[part] for part in parts]
            parts[i : i + 2] = [parts[i] + parts[i + 1]]


@pytest.fixture(scope="module")
def tokenizer(llama_target: Path) -> Any:
    return AutoTokenizer.from_pretrained(llama_target)


@pytest.mark.parametrize("text", STRINGS)
def test_ids_are_those_of_the_gguf(tokenizer: Any, gguf: GgufCheckpoint, text: str) -> None:
    assert tokenizer(text)["input_ids"] == SlowBpe(gguf).encode(text)


@pytest.mark.parametrize("text", STRINGS)
def test_round_trip(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_special_tokens(tokenizer: Any) -> None:
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer.unk_token == "<|endoftext|>"
    assert tokenizer.decode([1, 19556, 2], skip_special_tokens=True) == tokenizer.decode([19556])
    assert len(tokenizer) == 49152


def test_chat_template(tokenizer: Any, gguf: GgufCheckpoint) -> None:
    turns = [
        {"role": "user", "content": "Add 12 and 30."},
        {"role": "assistant", "content": "42"},
        {"role": "user", "content": "Sure?"},
    ]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nAdd 12 and 30.<|im_end|>\n<|im_start|>assistant\n42<|im_end|>\n"
        "<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert ids == SlowBpe(gguf).encode(text)


def test_a_system_turn_replaces_the_default(tokenizer: Any) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    assert text == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
