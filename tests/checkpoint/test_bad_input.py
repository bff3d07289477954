# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be: each gives one UserError on one line."""

import json
import os
from pathlib import Path

import pytest

from vllm_dflash.checkpoint import is_foreign_draft, load_draft_config, load_target_config
from vllm_dflash.errors import UserError

TEXTS = {
    "empty": (b"", "not valid JSON"),
    "not JSON": (b"hidden_size: 64", "not valid JSON"),
    "cut": (b'{"hidden_size": 64', "not valid JSON"),
    "a list": (b"[]", "not a JSON object"),
    "a string": (b'"config"', "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "NaN": (b'{"rope_theta": NaN}', "NaN is not JSON"),
    "infinity": (b'{"rope_theta": -Infinity}', "not JSON"),
    "key twice": (b'{"block_size": 8, "block_size": 16}', "occurs twice"),
    "binary": (b"\x80\x04\x95", "not UTF-8"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "UTF-8"),
    "deep": (b'{"a":' * 100_000, "nested too deeply"),
    "digits": (b'{"hidden_size": ' + b"9" * 5000 + b"}", "not valid JSON"),
    "an empty object": (b"{}", "not a DFlash drafter"),
    "architectures not a list": (b'{"architectures": "DFlashDraftModel"}', "list of strings"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_config_text(tmp_path: Path, case):
    text, words = TEXTS[case]
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(UserError, match=words) as caught:
        load_draft_config(tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700


def test_too_long(tmp_path: Path):
    with open(tmp_path / "config.json", "wb") as file:
        file.truncate(2**27)
    with pytest.raises(UserError, match="too long"):
        load_draft_config(tmp_path)


def missing_folder(folder: Path):
    return folder / "absent" / "deeper" / "still", "no such folder"


def a_file(folder: Path):
    (folder / "file").write_text("")
    return folder / "file", "not a checkpoint folder"


def no_config(folder: Path):
    return folder, "vllm-dflash recover"


def config_is_a_folder(folder: Path):
    (folder / "config.json").mkdir()
    return folder, "cannot read config.json"


def config_loops(folder: Path):
    (folder / "config.json").symlink_to(folder / "config.json")
    return folder, "cannot read config.json"


def config_dangles(folder: Path):
    (folder / "config.json").symlink_to(folder / "blob")
    return folder, "cannot read config.json"


def folder_loops(folder: Path):
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop", "not a checkpoint folder"


def nul_in_path(folder: Path):
    return f"{folder}/nul\0/x", "no such folder|cannot open"


def long_path(folder: Path):
    return folder / ("x" * 5000), "cannot open|no such folder"


PLACES = [
    missing_folder,
    a_file,
    no_config,
    config_is_a_folder,
    config_loops,
    config_dangles,
    folder_loops,
    nul_in_path,
    long_path,
]


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__)
def test_places(tmp_path: Path, make):
    path, words = make(tmp_path)
    with pytest.raises(UserError, match=words):
        load_draft_config(path)
    with pytest.raises(UserError):
        is_foreign_draft(path)
    with pytest.raises(UserError):
        load_target_config(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file(native):
    folder = native()
    (folder / "config.json").chmod(0)
    with pytest.raises(UserError, match=r"cannot read config\.json"):
        load_draft_config(folder)


def test_unreadable_file_as_root(native, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    folder = native()
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        load_draft_config(folder)


@pytest.mark.parametrize("value", ["x" * 10**6, list(range(10**5)), {"a": {"b": ["c"] * 10**5}}, 10**40])
def test_errors_stay_short(native, value):
    with pytest.raises(UserError) as caught:
        load_draft_config(native({"hidden_size": value, "dflash_config.target_layer_ids": value}))
    assert len(str(caught.value)) < 1000


def test_a_lone_surrogate_can_be_printed(tmp_path: Path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["DFlash\ud800"], "hidden_size": "\udfff"}))
    with pytest.raises(UserError) as caught:
        load_draft_config(tmp_path)
    str(caught.value).encode()
