# SPDX-License-Identifier: Apache-2.0
"""The tokenizer inside a GGUF, rebuilt as Hugging Face files."""

import json
from pathlib import Path
from typing import Any

from vllm_dflash.demo.gguf_checkpoint import GgufCheckpoint
from vllm_dflash.errors import UserError

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4


def write_tokenizer(gguf: GgufCheckpoint, out: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json (with the chat template) to the folder `out`.

    Raises:
        UserError: the GGUF's tokenizer is not the byte-level BPE of the SmolLM family.
    """
    for key, needed in (
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.pre", "smollm"),
        ("tokenizer.ggml.add_bos_token", False),
        ("tokenizer.ggml.add_space_prefix", False),
    ):
        found = gguf.value(key)
        if found != needed:
            raise UserError(
                "unsupported GGUF tokenizer", field=key, found=found, needed=repr(needed), file=gguf.path
            )
    tokenizer = json.dumps(_fast_tokenizer(gguf), ensure_ascii=False)
    (out / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    config = json.dumps(_tokenizer_config(gguf), indent=2) + "\n"
    (out / "tokenizer_config.json").write_text(config, encoding="utf-8")


def special_token_ids(gguf: GgufCheckpoint) -> dict[str, int]:
    """Ids of the bos, eos, pad and unk tokens."""
    names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    return {short: gguf.value(f"tokenizer.ggml.{name}_token_id") for short, name in names.items()}


def _fast_tokenizer(gguf: GgufCheckpoint) -> dict[str, Any]:
    tokens, types = gguf.value("tokenizer.ggml.tokens"), gguf.value("tokenizer.ggml.token_type")
    unknown_types = set(types) - {_NORMAL, _CONTROL, _USER_DEFINED}
    if len(types) != len(tokens) or unknown_types or len(set(tokens)) != len(tokens):
        raise UserError("the GGUF's token list is damaged", file=gguf.path)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == _CONTROL,
        }
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind != _NORMAL
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in gguf.value("tokenizer.ggml.merges")],
        },
    }


def _tokenizer_config(gguf: GgufCheckpoint) -> dict[str, Any]:
    tokens = gguf.value("tokenizer.ggml.tokens")
    named = {f"{name}_token": tokens[index] for name, index in special_token_ids(gguf).items()}
    return named | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": gguf.shape.max_positions,
        "chat_template": gguf.value("tokenizer.chat_template"),
    }
