# SPDX-License-Identifier: Apache-2.0
"""Trained drafters, stripped of their config: what the search finds, writes, keeps, and how it goes on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.recover.conftest import ANSWER, train_drafter
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.cli.main import main
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.memo import Memo
from vllm_dflash.recover.parts import part_of
from vllm_dflash.recover.run import Options, Recovered, recover
from vllm_dflash.recover.write import NOTE_KEY

CASES: dict[str, dict[str, Any]] = {
    "sliding bidirectional, taps out of order": {
        "layers": "Fs", "window": 8, "taps": "3,1", "mask_token": "5", "block_size": 8, "rope_theta": 500000.0,
    },
    "full causal": {"layers": "CF", "taps": "2,5,0", "mask_token": "7", "block_size": 4},
    "three layers, two windowed": {
        "layers": "SSF", "window": 16, "taps": "1,3,4", "mask_token": "190", "block_size": 6, "rope_theta": 1e6,
    },
    "one causal layer": {"layers": "S", "window": 24, "taps": "4", "mask_token": "3", "rope_theta": 1e5},
    "a window that no context reaches": {"layers": "SF", "window": 64, "taps": "0,4", "mask_token": "5"},
}  # fmt: skip
UNDECIDABLE = {
    "full causal": {"block_size", "layers.0.causal", "layers.1.causal", "layers.1.window"},
    "three layers, two windowed": {"layers.0.causal", "layers.2.window"},
    "one causal layer": {"block_size"},
    "a window that no context reaches": {"layers.0.window", "layers.1.window", "block_size"},
}


def strip(drafter: Path, out: Path, config: dict[str, Any] | None = None) -> Path:
    out.mkdir()
    shutil.copy(drafter / "model.safetensors", out)
    if config is not None:
        (out / "config.json").write_text(json.dumps(config))
    return out


def options(drafter: Path, target: Path, prompts: Path, out: Path, **changes: Any) -> Options:
    small: dict[str, Any] = {"samples": 48, "answer_tokens": ANSWER, "anchors": 24, "device": "cpu"}
    return Options(drafter, target, out, prompts, **(small | changes))


@pytest.fixture(scope="module")
def drafters(tmp_path_factory: pytest.TempPathFactory, tiny_target: Path, tiny_prompts: Path) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("drafters")
    return {
        name: train_drafter(root / f"d{i}", tiny_target, tiny_prompts, **case)
        for i, (name, case) in enumerate(CASES.items())
    }


@pytest.fixture(scope="module")
def drafter(drafters: dict[str, Path]) -> Path:
    return next(iter(drafters.values()))


def undecided(found: Recovered) -> dict[str, tuple[Any, ...]]:
    return {one.name: one.others for one in found.verdicts if not one.decided}


@pytest.mark.parametrize("name", CASES)
def test_everything_comes_back(
    name: str, drafters: dict[str, Path], tiny_target: Path, tiny_prompts: Path, tmp_path: Path
) -> None:
    truth = Reading.of(load_draft_config(drafters[name]))
    reached = tuple(replace(one, window=None) if one.window == 64 else one for one in truth.layers)
    truth = replace(truth, layers=reached)
    source = strip(drafters[name], tmp_path / "weights")
    found = recover(options(source, tiny_target, tiny_prompts, tmp_path / "out"))
    read = Reading.of(load_draft_config(tmp_path / "out"))
    open_fields = undecided(found)
    assert set(open_fields) <= UNDECIDABLE.get(name, set())
    if name == "one causal layer" and "block_size" in open_fields:
        assert truth.block_size in (read.block_size, *open_fields["block_size"])
        read = replace(read, block_size=truth.block_size)
    assert read == truth
    for one in found.verdicts:
        assert ("or longer than" in one.note) == (one.name.endswith("window") and one.value is None)
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    fields = written[NOTE_KEY]["fields"]
    assert fields["tap_layer_ids.0"]["from"] == "search" and fields["tap_layer_ids.0"]["margin"] > 0
    assert fields["mask_token_id"]["standard_error"] > 0
    assert str(tmp_path) not in json.dumps(written)
    assert main(["doctor", str(tmp_path / "out"), "--target", str(tiny_target)]) < 2


class Interrupted(Exception):
    pass


def test_goes_on_after_an_interruption(
    drafter: Path, tiny_target: Path, tiny_prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads((drafter / "config.json").read_text())
    del config["dflash_config"]["target_layer_ids"]
    source = strip(drafter, tmp_path / "weights", config)
    whole = recover(options(source, tiny_target, tiny_prompts, tmp_path / "whole", samples=16))
    plain = Memo.table

    def break_off(self: Memo, *words: Any) -> Any:
        if self.computed == 9:
            raise Interrupted
        return plain(self, *words)

    monkeypatch.setattr(Memo, "table", break_off)
    with pytest.raises(Interrupted):
        recover(options(source, tiny_target, tiny_prompts, tmp_path / "again", samples=16))
    monkeypatch.undo()
    with (tmp_path / "again" / "state" / "scores.jsonl").open("a") as torn:
        torn.write('{"reading": "0123')
    again = recover(options(source, tiny_target, tiny_prompts, tmp_path / "again", samples=16))
    assert again.computed == whole.computed - 9
    assert again.verdicts == whole.verdicts
    texts = [(tmp_path / name / "config.json").read_text() for name in ("whole", "again")]
    assert texts[0] == texts[1]
    assert recover(options(source, tiny_target, tiny_prompts, tmp_path / "again", samples=16)).computed == 0


def test_more_minutes_go_on_with_more_samples(
    drafters: dict[str, Path], tiny_target: Path, tiny_prompts: Path, tmp_path: Path
) -> None:
    """Six samples leave fields open; with time, the other prompts of the file are used, for those fields alone."""
    drafter = drafters["three layers, two windowed"]
    source, out = strip(drafter, tmp_path / "weights"), tmp_path / "out"
    short = recover(options(source, tiny_target, tiny_prompts, out, samples=6, minutes=0))
    assert undecided(short) and not list((out / "state").glob("answers-*"))
    more = recover(options(source, tiny_target, tiny_prompts, out, samples=6))
    used = json.loads((out / "config.json").read_text())[NOTE_KEY]["samples"]["sequences_for_open_fields"]
    assert 6 < used <= 48 and more.computed > 0 and (out / "state" / "answers-1.json").is_file()
    assert set(undecided(more)) < set(undecided(short))
    truth = Reading.of(load_draft_config(drafter))
    for one in (each for each in more.verdicts if "look" in each.note):  # six samples mislead the search itself
        assert part_of(one.name)(truth) in (one.value, *one.others), one
    again = recover(options(source, tiny_target, tiny_prompts, out, samples=6))
    assert again.computed == 0 and again.verdicts == more.verdicts


def test_keeps_what_a_partial_config_says(drafter: Path, tiny_target: Path, tiny_prompts: Path, tmp_path: Path) -> None:
    config = json.loads((drafter / "config.json").read_text())
    config["max_position_embeddings"] = 200
    del config["rope_parameters"]
    found = recover(options(strip(drafter, tmp_path / "w", config), tiny_target, tiny_prompts, tmp_path / "out"))
    origins = {one.name: one.origin for one in found.verdicts}
    assert origins.pop("rope_theta") == "search" and set(origins.values()) == {"config"}
    assert found.config.max_position_embeddings == 200
    assert found.config.layers[0].rope.theta == 500000.0


def test_keeps_a_wrong_value_of_a_partial_config(
    drafter: Path, tiny_target: Path, tiny_prompts: Path, tmp_path: Path
) -> None:
    """A mask token that is wrong is not searched; what it leaves undecidable is not called decided."""
    config = json.loads((drafter / "config.json").read_text())
    config["dflash_config"]["mask_token_id"] = 9
    found = recover(options(strip(drafter, tmp_path / "w", config), tiny_target, tiny_prompts, tmp_path / "out"))
    assert found.config.mask_token_id == 9
    assert {one.origin for one in found.verdicts} == {"config"}


def test_another_run_in_the_same_folder_is_refused(
    drafter: Path, tiny_target: Path, tiny_prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((drafter / "config.json").read_text())
    source = strip(drafter, tmp_path / "w", config)
    words = ["recover", str(source), "--target", str(tiny_target), "--prompts", str(tiny_prompts), "--device", "cpu"]
    words += ["--out", str(tmp_path / "out"), "--answer-tokens", "48", "--samples"]
    assert main([*words, "4"]) == 0
    assert "config.json" in capsys.readouterr().out
    assert main([*words, "5"]) == 2
    assert "state of another run; samples differ" in capsys.readouterr().err
