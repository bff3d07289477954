# SPDX-License-Identifier: Apache-2.0
"""Bad input is refused with one line, before any answer is generated or step taken."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import tiny
from vllm_dflash.cli.main import main
from vllm_dflash.errors import UserError
from vllm_dflash.train import run
from vllm_dflash.train.options import TrainOptions, tap_layers
from vllm_dflash.train.requests import Request, hold_out, limit_held_out, read_requests
from vllm_dflash.train.run import run_training
from vllm_dflash.train.target_model import open_target

Make = Callable[..., TrainOptions]


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: Any, **__: Any) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(run, "answer", work)
    monkeypatch.setattr(run, "train", work)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block_size": 1}, "block_size: found 1; needed at least 2"),
        ({"window": 0}, "window: found 0; needed at least 1"),
        ({"layers": "SXF"}, "layers: found 'SXF'"),
        ({"layers": ""}, "at least one letter"),
        ({"steps": 0}, "steps: found 0"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"max_minutes": 0.0}, "max_minutes"),
        ({"alpha": 1.5}, "alpha"),
        ({"mlp": 0}, "mlp"),
        ({"answer_tokens": 64}, "max_length: found 64; needed more than answer_tokens (64)"),
        ({"answers": None}, "--prompts or --answers"),
    ],
)
def test_options(changes: dict[str, Any], words: str, options: Make) -> None:
    with pytest.raises(UserError) as caught:
        options(**changes)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"taps": "0,4"}, "taps: found 4; needed 0 to 3"),
        ({"taps": "-1"}, "taps: found -1"),
        ({"taps": "1,1"}, "tapped twice"),
        ({"taps": "1,two"}, "not a list of layers"),
        ({"mask_token": "196"}, "mask_token: found '196'; needed auto or 0 to 195"),
        ({"mask_token": "<mask>"}, "not in the vocabulary"),
        ({"heads": 3, "kv_heads": 2}, "heads"),
        ({"target": Path("/nowhere")}, "no target here"),
        ({"answers": Path("/nowhere")}, "not a file of answers"),
        ({"resume": True}, "nothing to resume"),
        ({"device": "abacus"}, "device: found 'abacus'"),
    ],
)
def test_before_work(changes: dict[str, Any], words: str, options: Make, no_work: None) -> None:
    with pytest.raises(UserError) as caught:
        run_training(options(**changes), "")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "no prompts"),
        ([{"prompt": "w1"}, {"prompt": " "}], ":2"),
        ([{"prompt": "w1"}, None, {"text": "w1"}], ":3"),
        ([{"prompt": "w1"}, {"prompt": " ".join(["w1"] * 40)}], "found 42; needed 1 to 32"),
        ([None, {"messages": [{"role": "tool", "content": "w1"}]}], "no tools here"),
        ([{"messages": [{"content": "w1"}]}], ":1"),
    ],
)
def test_prompts(lines: list[Any], words: str, options: Make, no_work: None, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join("\n" if line is None else json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError) as caught:
        run_training(options(answers=None, prompts=str(file)), "")
    assert words in str(caught.value)
    if lines:
        assert f"{file}:{len(lines)}" in str(caught.value)


def test_tokenizer_larger_than_target(options: Make, target_dir: Path, tmp_path: Path, no_work: None) -> None:
    copy = tmp_path / "target"
    shutil.copytree(target_dir, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"vocab_size": 190}))
    with pytest.raises(UserError, match=r"vocab_size: found 190; needed at least 196"):
        run_training(options(target=copy), "")


def test_answers_of_another_target(options: Make, answers: Any, tmp_path: Path, no_work: None) -> None:
    file = tmp_path / "other.safetensors"
    dataclasses.replace(answers, fingerprint="0123").save(file)
    with pytest.raises(UserError, match="another target"):
        run_training(options(answers=file), "")


def test_answers_longer_than_asked(options: Make, no_work: None) -> None:
    with pytest.raises(UserError, match="max_length"):
        run_training(options(max_length=20, answer_tokens=10), "")


def test_out_is_a_file(options: Make, tmp_path: Path, no_work: None) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write there"):
        run_training(options(out=tmp_path / "file"), "")


def test_resume_with_other_options(options: Make) -> None:
    first = options(steps=4)
    run_training(first, "", stop_after=2)
    with pytest.raises(UserError, match=r"gamma was 4\.0, is 5\.0"):
        run_training(dataclasses.replace(first, resume=True, gamma=5.0), "")


def test_resume_with_other_answers(options: Make, answers: Any, tmp_path: Path) -> None:
    first = options(steps=4)
    run_training(first, "", stop_after=2)
    dataclasses.replace(answers, held_out=~answers.held_out).save(tmp_path / "other.safetensors")
    with pytest.raises(UserError, match="other options: data was"):
        run_training(dataclasses.replace(first, resume=True, answers=tmp_path / "other.safetensors"), "")


def test_command_line_says_it_in_one_line(target_dir: Path, tmp_path: Path, capsys: Any) -> None:
    words = ["train", "--target", str(target_dir), "--out", str(tmp_path / "o"), "--prompts", "x.jsonl"]
    assert main([*words, "--block-size", "1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_auto_taps() -> None:
    assert tap_layers("auto", 30) == (1, 8, 14, 21, 27)
    assert tap_layers("auto", 4) == (1,)
    assert tap_layers("auto", 1) == (0,)
    assert tap_layers("3, 1", 4) == (3, 1)


def test_templates_are_held_out_whole(prompts_file: Path) -> None:
    made = read_requests(str(prompts_file), 7)
    held = {one.template for one in made if one.split == "held-out"}
    assert held and not held & {one.template for one in made if one.split == "train"}
    assert {one.category for one in made if one.split == "held-out"} == {"odd", "even"}
    assert made == read_requests(str(prompts_file), 7)


def test_given_splits_are_kept() -> None:
    asked = [
        Request((), template=str(i), split=split) for i, split in enumerate(["train", "heldout", "train"])
    ]
    assert [one.split for one in hold_out(asked, 0)] == ["train", "held-out", "train"]


def test_held_out_limit_is_even_over_categories() -> None:
    asked = [Request((), category="ab"[i > 3], split="held-out", where=str(i)) for i in range(20)]
    kept = limit_held_out(asked + [Request((), split="train")], 6, 0)
    assert [one.category for one in kept].count("a") == 3
    assert [one.split for one in kept].count("train") == 1 and len(kept) == 7


@pytest.mark.parametrize(("family", "field"), [("gemma2", "attn_logit_softcapping"), ("gpt_oss", "model_type")])
def test_target_whose_attention_the_trainer_does_not_compute(tmp_path: Path, family: str, field: str) -> None:
    with pytest.raises(UserError) as caught:
        open_target(tiny.target(tmp_path, family), torch.device("cpu"))
    assert caught.value.field == field
