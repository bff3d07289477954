# SPDX-License-Identifier: Apache-2.0
"""The probe on a drafter that fits, on configs that misread it, and on one that was never trained."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.recover.conftest import make_prompts, make_target, train_drafter
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.cli.main import main
from vllm_dflash.fit.acceptance import acceptance
from vllm_dflash.fit.draft_weights import load_draft_weights
from vllm_dflash.fit.loaded_target import LoadedTarget, load_target
from vllm_dflash.fit.reading import Reading
from vllm_dflash.fit.samples import answer_prompts, encode_prompts, read_prompts, trace
from vllm_dflash.fit.score import Scorer
from vllm_dflash.reference.decode import generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target

Pair = tuple[Path, Path, Path]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    root = tmp_path_factory.mktemp("probe")
    target, prompts = make_target(root / "target"), make_prompts(root / "prompts.jsonl", 24)
    drafter = train_drafter(root / "drafter", target, prompts, taps="1,4", mask_token="4", steps=150)
    return drafter, target, prompts


@pytest.fixture(scope="module")
def full_pair(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A drafter without windows, for the same target."""
    _, target, prompts = pair
    drafter = tmp_path_factory.mktemp("full") / "drafter"
    train_drafter(drafter, target, prompts, taps="1,4", mask_token="4", steps=150, layers="FF")
    return drafter, target, prompts


@pytest.fixture
def probed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Probe a pair with its config changed, and with its weights changed if asked."""

    def run(pair: Pair, change: Any, weights: Any = None, target: Path | None = None) -> tuple[int, dict[str, Any]]:
        drafter, own, prompts = pair
        shutil.copy(drafter / "model.safetensors", tmp_path)
        config = json.loads((drafter / "config.json").read_text())
        change(config)
        (tmp_path / "config.json").write_text(json.dumps(config))
        if weights is not None:
            weights(tmp_path / "model.safetensors")
        words = ["doctor", str(tmp_path), "--target", str(target or own), "--probe", "--prompts", str(prompts)]
        status = main([*words, "--json", "--probe-prompts", "12", "--probe-tokens", "48", "--device", "cpu"])
        return status, json.loads(capsys.readouterr().out)

    return run


def finding(report: dict[str, Any], level: str) -> list[str]:
    return [f["field"] for f in report["findings"] if f["level"] == level]


def test_right(probed: Any, pair: Pair) -> None:
    status, report = probed(pair, lambda c: None)
    assert status < 2 and not finding(report, "ERROR") and "acceptance" in finding(report, "NOTE")
    found = report["probe"]
    assert found["acceptance"]["length"]["value"] > 2 and len(found["acceptance"]["by_position"]) == 5
    assert all(one["better"]["value"] < 0.03 for one in found["alternatives"])


def test_mask_tokens_of_one_embedding_are_one_line(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    shutil.copytree(pair[1], target)
    weights = load_file(target / "model.safetensors")
    weights["model.embed_tokens.weight"][[5, 6, 7, 8, 9]] = weights["model.embed_tokens.weight"][4].clone()
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    words = ["doctor", str(pair[0]), "--target", str(target), "--probe", "--prompts", str(pair[2]), "--device", "cpu"]
    main([*words, "--probe-tokens", "40"])
    out = capsys.readouterr().out
    (line,) = [one for one in out.splitlines() if one.endswith("mask tokens 5, 6, 7 and 2 more")]
    assert line.startswith("  = +0.000")


def no_windows(config: dict[str, Any]) -> None:
    """As a writer leaves it that drops every field of the windows and their causality."""
    config.pop("sliding_window")
    config.update(layer_types=["full_attention"] * 2, use_sliding_window=False)
    config["dflash_config"].pop("layers", None)


def windows(config: dict[str, Any]) -> None:
    config.update(layer_types=["sliding_attention"] * 2, use_sliding_window=True, sliding_window=8)


MISREAD: dict[str, tuple[Any, str, str, str]] = {
    "taps one later": (
        lambda c: c["dflash_config"].update(target_layer_ids=[2, 5]), "tap_layer_ids", "one layer earlier", "[1, 4]",
    ),
    "taps one earlier": (
        lambda c: c["dflash_config"].update(target_layer_ids=[0, 3]), "tap_layer_ids", "one layer later", "[1, 4]",
    ),
    "mask token": (lambda c: c["dflash_config"].update(mask_token_id=5), "mask_token_id", "mask token 4", "write 4"),
    "causality flipped": (
        lambda c: c["dflash_config"].update(causal=False), "layers.causal", "sliding layers", "causal, bidirectional",
    ),
    "windows lost": (no_windows, "layers.window", "all layers but the last sliding (causal", "sliding_window 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISREAD)
def test_misread(name: str, probed: Any, pair: Pair) -> None:
    change, field, cause, remedy = MISREAD[name]
    status, report = probed(pair, change)
    (error,) = [f for f in report["findings"] if f["level"] == "ERROR"]
    assert status == 2 and error["field"] == field
    assert cause in error["cause"] and remedy in error["remedy"]


def test_windows_that_are_not_there(probed: Any, full_pair: Pair) -> None:
    def change(config: dict[str, Any]) -> None:
        windows(config)
        config["dflash_config"]["causal"] = False

    status, report = probed(full_pair, change)
    (error,) = [f for f in report["findings"] if f["level"] == "ERROR"]
    assert status == 2 and error["field"] == "layers.window" and "no sliding windows" in error["cause"]


def test_random_weights(probed: Any, pair: Pair) -> None:
    def scramble(file: Path) -> None:
        torch.manual_seed(0)
        weights = {n: torch.randn_like(w) * 0.05 if w.dim() > 1 else w for n, w in load_file(file).items()}
        save_file(weights, file)

    status, report = probed(pair, lambda c: None, scramble)
    (error,) = [f for f in report["findings"] if f["level"] == "ERROR"]
    assert status == 2 and error["field"] == "target" and "does not fit" in error["cause"]


def test_another_target(probed: Any, pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of the same shape: nothing but a run can tell."""
    other = make_target(tmp_path_factory.mktemp("other") / "target", seed=12)
    status, report = probed(pair, lambda c: None, target=other)
    (error,) = [f for f in report["findings"] if f["level"] == "ERROR"]
    assert status == 2 and error["field"] == "target" and "does not fit" in error["cause"]


def test_without_a_target(pair: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(pair[0]), "--probe"]) == 2
    assert "--probe needs the target" in capsys.readouterr().err


def test_replay_equals_decoding(pair: tuple[Path, Path, Path]) -> None:
    drafter, folder, prompts = pair
    target: LoadedTarget = load_target(folder, torch.device("cpu"))
    config = load_draft_config(drafter, target=target.config)
    encoded = encode_prompts(read_prompts(5, prompts), target, 40)
    samples = trace(target, encoded, answer_prompts(target, encoded, 40))
    scorer = Scorer(config, load_draft_weights(config, target), samples, 4)
    found = acceptance(scorer, Reading.of(config))
    reference, model = Target(target.model, config.tap_layer_ids), Drafter.load(config)
    counts: list[int] = []
    for ids in encoded:
        out = generate(reference, model, ids, k=5, max_tokens=40, stop=target.eos)
        room = [40 - 1 - sum(c + 1 for c in out.accepted[:i]) for i in range(len(out.accepted))]
        counts += [min(c, left) for c, left in zip(out.accepted, room, strict=True)]
    assert found.steps == len(counts)
    assert found.length[0] == pytest.approx(1 + sum(counts) / len(counts), abs=1e-6)
