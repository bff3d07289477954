# SPDX-License-Identifier: Apache-2.0
"""The probe on a drafter that fits, on configs that misread it, and on one that was never trained."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

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


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    root = tmp_path_factory.mktemp("probe")
    target, prompts = make_target(root / "target"), make_prompts(root / "prompts.jsonl", 24)
    drafter = train_drafter(root / "drafter", target, prompts, taps="0,3", mask_token="4", steps=150)
    return drafter, target, prompts


@pytest.fixture
def probed(pair: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(change: Any, weights: Any = None) -> tuple[int, dict[str, Any]]:
        drafter, target, prompts = pair
        shutil.copy(drafter / "model.safetensors", tmp_path)
        config = json.loads((drafter / "config.json").read_text())
        change(config)
        (tmp_path / "config.json").write_text(json.dumps(config))
        if weights is not None:
            weights(tmp_path / "model.safetensors")
        words = ["doctor", str(tmp_path), "--target", str(target), "--probe", "--prompts", str(prompts), "--json"]
        status = main([*words, "--probe-prompts", "12", "--probe-tokens", "48", "--device", "cpu"])
        return status, json.loads(capsys.readouterr().out)

    return run


def finding(report: dict[str, Any], level: str) -> list[str]:
    return [f["field"] for f in report["findings"] if f["level"] == level]


def test_right(probed: Any) -> None:
    status, report = probed(lambda c: None)
    assert status < 2 and not finding(report, "ERROR") and "acceptance" in finding(report, "NOTE")
    found = report["probe"]
    assert found["acceptance"]["length"]["value"] > 2 and len(found["acceptance"]["by_position"]) == 5
    assert all(one["better"]["value"] < 0.03 for one in found["alternatives"])


def test_taps_one_off(probed: Any) -> None:
    status, report = probed(lambda c: c["dflash_config"].update(target_layer_ids=[1, 4]))
    (error,) = [f for f in report["findings"] if f["level"] == "ERROR"]
    assert status == 2 and error["field"] == "tap_layer_ids" and "one layer earlier" in error["cause"]
    assert "[0, 3]" in error["remedy"]


def test_mask_token(probed: Any) -> None:
    status, report = probed(lambda c: c["dflash_config"].update(mask_token_id=5))
    (error,) = [f for f in report["findings"] if f["level"] == "ERROR"]
    assert status == 2 and error["field"] == "mask_token_id" and "mask token 4" in error["cause"]


def test_random_weights(probed: Any) -> None:
    from safetensors.torch import load_file, save_file

    def scramble(file: Path) -> None:
        torch.manual_seed(0)
        weights = {n: torch.randn_like(w) * 0.05 if w.dim() > 1 else w for n, w in load_file(file).items()}
        save_file(weights, file)

    status, report = probed(lambda c: None, scramble)
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
