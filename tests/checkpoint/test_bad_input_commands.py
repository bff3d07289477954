# SPDX-License-Identifier: Apache-2.0
"""Bad input through the command: exit status 2, one line that names the problem, no traceback."""

import builtins
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

from vllm_dflash.cli.main import main


@pytest.fixture
def run(capsys):
    """run(*words) -> (exit status, stdout, stderr)."""

    def command(*words: Any) -> tuple[int, str, str]:
        status = main(["doctor", *map(str, words)])
        done = capsys.readouterr()
        return status, done.out, done.err

    return command


CONFIGS = {
    "text for a number": ({"hidden_size": "64"}, "hidden_size: found '64'"),
    "text for a block": ({"block_size": "8"}, "block_size: found '8'"),
    "negative tap": ({"dflash_config.target_layer_ids": [1, -5, 9]}, "none negative"),
    "tap twice": ({"dflash_config.target_layer_ids": [1, 5, 5]}, "none twice"),
    "window 0": ({"layer_types": ["sliding_attention"] * 3, "sliding_window": 0}, "sliding_window: found 0"),
    "block size 1": ({"block_size": 1}, "block_size: found 1"),
    "mask outside the vocabulary": ({"dflash_config.mask_token_id": 512}, "mask_token_id: found 512"),
    "layer types of the wrong length": ({"layer_types": ["full_attention"] * 2}, "layer_types"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_config_values(native, target, run, case):
    changes, words = CONFIGS[case]
    assert_refused(run(native(changes), "--target", target()), words)


def assert_refused(done: tuple[int, str, str], words: str) -> None:
    status, out, err = done
    assert status == 2
    assert words in err and err.startswith("vllm-dflash: ") and err.count("\n") == 1 and len(err) < 800
    assert out == "" and "Traceback" not in err


@pytest.mark.parametrize(("text", "words"), [("{", "not valid JSON"), ("[]", "not a JSON object")])
def test_config_text(tmp_path: Path, run, text, words):
    (tmp_path / "config.json").write_text(text)
    assert_refused(run(tmp_path), words)


def truncated(file: Path) -> str:
    file.write_bytes(file.read_bytes()[:-1])
    return "truncated"


def lying_header(file: Path) -> str:
    whole = file.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    header["norm.weight"]["shape"][0] += 1
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length :])
    return "does not fill"


def pickled(file: Path) -> str:
    file.write_bytes(pickle.dumps({"norm.weight": 1}))
    return "a pickle"


def only_pickled(file: Path) -> str:
    file.rename(file.with_name("pytorch_model.bin"))
    return "the weights are a pickle"


@pytest.mark.parametrize("spoil", [truncated, lying_header, pickled, only_pickled], ids=lambda f: f.__name__)
def test_weights(native, native_shapes, target, run, spoil):
    folder = native(None, native_shapes)
    words = spoil(folder / "model.safetensors")
    assert_refused(run(folder, "--target", target()), words)


def test_unreadable(native, run, monkeypatch):
    folder, real = native(), builtins.open

    def refuse(file: Any, *args: Any, **kwargs: Any) -> Any:
        if str(file).startswith(str(folder)):
            raise PermissionError(13, "Permission denied", str(file))
        return real(file, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refuse)
    assert_refused(run(folder), "Permission denied")


def test_symlink_loop(tmp_path: Path, run):
    (tmp_path / "config.json").symlink_to(tmp_path / "config.json")
    assert_refused(run(tmp_path), "cannot read config.json")


def test_target_that_is_no_causal_lm(native, target, run):
    assert_refused(
        run(native(), "--target", target({"architectures": ["BertForMaskedLM"]})), "not a causal language model"
    )
