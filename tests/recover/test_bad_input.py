# SPDX-License-Identifier: Apache-2.0
"""One line and status 2, before any model is loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import tiny
from vllm_dflash.cli.main import main


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Recover a tiny drafter whose tensors were changed; the error line."""
    target = tiny.target(tmp_path / "target")

    def run(change: Callable[[dict[str, Any]], object], *words: str, config: str | None = None) -> str:
        drafter = tiny.drafter(tmp_path / "drafter", "SF")
        weights = load_file(drafter / "model.safetensors")
        change(weights)
        save_file(weights, drafter / "model.safetensors")
        (drafter / "config.json").unlink()
        if config is not None:
            (drafter / "config.json").write_text(config)
        out = str(tmp_path / "out")
        capsys.readouterr()
        assert main(["recover", str(drafter), "--target", str(target), "--out", out, *words]) == 2
        text = capsys.readouterr().err
        assert text.count("\n") == 1 and "Traceback" not in text
        return text

    return run


def test_no_features_layer(call: Callable[..., str]) -> None:
    assert "tensor fc.weight is not usable" in call(lambda w: w.pop("fc.weight"))


def test_another_hidden_size(call: Callable[..., str]) -> None:
    text = call(lambda w: w.update({"fc.weight": torch.zeros(64, 100)}))
    assert "fc.weight: found 100; needed a multiple of 64" in text


def test_too_many_taps(call: Callable[..., str]) -> None:
    assert "found '5 taps'; needed at most 4" in call(lambda w: w.update({"fc.weight": torch.zeros(64, 320)}))


def test_a_gap_between_layers(call: Callable[..., str]) -> None:
    def drop(weights: dict[str, Any]) -> None:
        for name in [n for n in weights if n.startswith("layers.0.")]:
            del weights[name]

    assert "not numbered" in call(drop)


def test_shapes_that_contradict_each_other(call: Callable[..., str]) -> None:
    text = call(lambda w: w.update({"layers.1.mlp.up_proj.weight": torch.zeros(7, 64)}), "--samples", "2")
    assert "layers.1.mlp.up_proj.weight" in text and "[96, 64]" in text


DOUBLE_TAP = '{"dflash_config": {"target_layer_ids": [1, 1]}}'


@pytest.mark.parametrize("config", ["{", "[]", '{"block_size": "8"}', DOUBLE_TAP])
def test_broken_partial_configs(config: str, call: Callable[..., str]) -> None:
    assert "config.json" in call(lambda w: None, config=config)


def test_bad_options(call: Callable[..., str]) -> None:
    assert "--samples: found 1; needed at least 2" in call(lambda w: None, "--samples", "1")


def test_out_is_the_drafter(call: Callable[..., str], tmp_path: Path) -> None:
    assert "folder of its own" in call(lambda w: None, "--out", str(tmp_path / "drafter"))
