# SPDX-License-Identifier: Apache-2.0
"""Whole runs on a CPU: overfitting, output folder, resume, reuse of answers."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.train.helpers import method
from vllm_dflash.checkpoint import load_draft_config, load_target_config
from vllm_dflash.cli.main import main
from vllm_dflash.demo.mtp_tensors import mtp_shapes
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.train.answers import Answers
from vllm_dflash.train.evaluate import evaluate
from vllm_dflash.train.loop import train
from vllm_dflash.train.options import TrainOptions
from vllm_dflash.train.run import run_training
from vllm_dflash.train.target_model import FrozenTarget

Make = Callable[..., TrainOptions]
WORDS = ["train", "--device", "cpu", "--block-size", "5", "--window", "12", "--taps", "0,2", "--mlp", "64"]


def read_log(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "loss.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", ["dflash", "mtp"])
@pytest.mark.parametrize("loss", ["decay", "dpace"])
def test_overfits(kind: str, loss: str, options: Make, answers_file: Path) -> None:
    asked = options(method=kind, loss=loss, steps=250, batch_size=30, anchors=12, learning_rate=5e-3)
    run_training(asked, "command")
    log = read_log(asked.out)
    assert log[-1]["loss"] < 0.4 * log[0]["loss"]
    assert log[-1]["acceptance_length"] > log[0]["acceptance_length"] + 0.5
    assert all(a >= b for a, b in zip(log[-1]["acceptance"], log[-1]["acceptance"][1:], strict=False))


def test_trained_drafter_beats_ngram_and_needs_its_features(
    options: Make, target: FrozenTarget, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On what it learnt by heart; with taps one layer off, or a context one token late, it accepts less."""
    asked = options(steps=300, batch_size=30, anchors=16, learning_rate=5e-3)
    asked.out.mkdir()
    made = method(asked, target)
    train(made, answers, asked, asked.identity())
    learnt = dataclasses.replace(answers, held_out=~answers.held_out)

    def length(name: str = "dflash k=4") -> float:
        made._serving = None
        return evaluate(made, learnt, 30, 30, seed=0)["drafters"][name]["acceptance_length"]

    right = length()
    assert right > length("ngram k=7") + 0.5
    features = made.features
    monkeypatch.setattr(made, "features", lambda tokens: (features(tokens)[0].roll(1, 1), None))
    assert length() < right - 0.3
    monkeypatch.setattr(made, "features", features)
    made.target.tap_layer_ids = (0, 2)
    shifted = type(made.target)(made.target.model, (1, 3))
    monkeypatch.setattr(made, "target", shifted)
    assert length() < right - 0.3


def test_resume_repeats_the_losses(options: Make) -> None:
    whole, halves = options(), options()
    halves = dataclasses.replace(halves, out=whole.out.with_name("halves"))
    run_training(whole, "")
    run_training(halves, "", stop_after=10)
    assert read_log(halves.out)[-1]["step"] == 10
    with (halves.out / "loss.jsonl").open("a") as file:
        file.write(json.dumps({"step": 15, "loss": 0.0}) + "\n")
    run_training(dataclasses.replace(halves, resume=True), "")
    for one, other in zip(read_log(whole.out), read_log(halves.out), strict=True):
        assert {**one, "tokens_per_second": 0} == {**other, "tokens_per_second": 0}
    assert (whole.out / "model.safetensors").read_bytes() == (halves.out / "model.safetensors").read_bytes()


def test_max_minutes_ends_properly(options: Make) -> None:
    asked = options(steps=100_000, max_minutes=0.03, log_every=1)
    record = run_training(asked, "")
    assert record["stopped_by"] == "minutes" and 0 < record["steps"] < 100_000
    log = read_log(asked.out)
    assert log[-1]["lr"] < 0.3 * max(line["lr"] for line in log)
    assert (asked.out / "model.safetensors").is_file()


def test_command_makes_a_loadable_drafter(
    target_dir: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drafter"
    words = [*WORDS, "--target", str(target_dir), "--prompts", str(prompts_file), "--out", str(out)]
    sizes = [
        "--max-length",
        "64",
        "--answer-tokens",
        "24",
        "--steps",
        "4",
        "--batch-size",
        "8",
        "--anchors",
        "4",
    ]
    assert main([*words, *sizes, "--log-every", "2"]) == 0
    assert "mask token 4 (<reserved_0>)" in capsys.readouterr().out
    config = load_draft_config(out, target=load_target_config(target_dir))
    assert (
        config.has_weights
        and config.mask_token_id == 4
        and config.describe_layers().startswith("SSF window 12")
    )
    drafter = Drafter.load(config, torch.bfloat16)
    weights = load_file(out / "model.safetensors")
    assert set(weights) == set(drafter.state_dict())
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert [file.name for file in out.glob("*.safetensors")] == ["model.safetensors"]
    for name in ("README.md", "curves.png", "evaluation.json", "training.json", "loss.jsonl"):
        assert (out / name).stat().st_size > 0
    card = (out / "README.md").read_text()
    assert "Held-out acceptance" in card and "curves.png" in card and "| odd |" in card
    stored = Answers.load(out / "state" / "answers.safetensors")
    assert len(stored) == 40 and 0 < stored.held_out.sum() < 40
    names = np.array(stored.templates)
    held = set(names[stored.template[stored.held_out]])
    assert not held & set(names[stored.template[~stored.held_out]])


def test_mtp_writes_mimo_names(options: Make, target: FrozenTarget) -> None:
    from types import SimpleNamespace

    asked = options(method="mtp", steps=2)
    run_training(asked, "")
    shape = target.shape
    wanted = mtp_shapes(
        SimpleNamespace(
            hidden=shape.hidden, intermediate=shape.mlp, heads=shape.heads, kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
        )  # type: ignore[arg-type]
    )  # fmt: skip
    weights = load_file(asked.out / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in weights.items()} == wanted
    evaluation = json.loads((asked.out / "evaluation.json").read_text())
    assert {"mtp k=1", "mtp k=2", "mtp k=3", "ngram k=7", "ngram k=3"} == set(evaluation["drafters"])


def test_kl_runs_for_both(options: Make) -> None:
    for kind in ("dflash", "mtp"):
        asked = options(method=kind, steps=3, loss_target="kl", log_every=1)
        run_training(asked, "")
        log = read_log(asked.out)
        assert 0 < log[-1]["loss"] < log[0]["loss"] * 1.5
