# SPDX-License-Identifier: Apache-2.0
"""Hub ids: what is fetched, and one sentence for each way it can fail. No network: the hub is replaced."""

import json
import shutil
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import errors

from tests.drafter_files import write_safetensors
from vllm_dflash.checkpoint import load_draft_config, load_target_config
from vllm_dflash.checkpoint.hub import fetch_model
from vllm_dflash.cli.main import main
from vllm_dflash.errors import UserError


@pytest.fixture
def hub(monkeypatch, tmp_path_factory):
    """A hub with repositories as folders; files that are asked for are copied into a cache folder."""
    cache = tmp_path_factory.mktemp("cache")
    repositories, asked = {}, []

    def download(repository, name, revision=None):
        asked.append((repository, name, revision))
        folder = repositories[repository]
        if isinstance(folder, Exception):
            raise folder
        if not (folder / name).exists():
            raise errors.EntryNotFoundError(name)
        target = cache / repository.replace("/", "--")
        target.mkdir(exist_ok=True)
        return shutil.copy(folder / name, target / name)

    def metadata(self, repository, revision=None):
        header = json.loads((repositories[repository] / "header.json").read_text())
        tensors = {name: SimpleNamespace(dtype="BF16", shape=shape) for name, shape in header.items()}
        return SimpleNamespace(files_metadata={"model.safetensors": SimpleNamespace(tensors=tensors)})

    def snapshot(repository, revision=None, allow_patterns=None):
        asked.append((repository, tuple(allow_patterns), revision))
        folder = repositories[repository]
        if isinstance(folder, Exception):
            raise folder
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(huggingface_hub.HfApi, "get_safetensors_metadata", metadata)
    return SimpleNamespace(repositories=repositories, asked=asked)


def test_config_and_headers_without_weights(hub, native, native_shapes):
    folder = native()
    (folder / "header.json").write_text(json.dumps(native_shapes))
    hub.repositories["owner/drafter"] = folder
    config = load_draft_config("owner/drafter", revision="abc")
    assert config.has_weights and config.findings == ()
    assert {(name, revision) for _, name, revision in hub.asked} == {
        ("config.json", "abc"),
        ("mask_embedding.pt", "abc"),
    }


def test_headers_that_do_not_fit_are_refused(hub, native, native_shapes):
    folder = native()
    (folder / "header.json").write_text(json.dumps(native_shapes | {"norm.weight": [3]}))
    hub.repositories["owner/drafter"] = folder
    with pytest.raises(UserError, match=r"norm\.weight"):
        load_draft_config("owner/drafter")


def test_without_headers_it_says_so(hub, native):
    hub.repositories["owner/drafter"] = native()
    config = load_draft_config("owner/drafter")
    assert not config.has_weights and [f.field for f in config.findings] == ["weights"]


def test_target(hub, target):
    hub.repositories["owner/target"] = target()
    assert load_target_config("owner/target").hidden_size == 64


def response(status):
    import httpx

    return httpx.Response(status, request=httpx.Request("GET", "https://hub.invalid"))


FAILURES = [
    (lambda: errors.GatedRepoError("x", response=response(403)), "is gated: accept its licence"),
    (
        lambda: errors.RepositoryNotFoundError("x", response=response(404)),
        "neither a local folder nor a repository",
    ),
    (lambda: errors.RevisionNotFoundError("x", response=response(404)), "no such revision"),
    (lambda: errors.LocalEntryNotFoundError("x"), "offline"),
    (lambda: errors.OfflineModeIsEnabled("x"), "offline"),
    (lambda: errors.EntryNotFoundError("x"), "no config.json"),
    (lambda: ConnectionError("refused\nby peer"), "could not be fetched: ConnectionError: refused$"),
]


@pytest.mark.parametrize("make, words", FAILURES)
def test_failures(hub, make, words):
    hub.repositories["owner/drafter"] = make()
    for load in (load_draft_config, load_target_config, fetch_model):
        with pytest.raises(UserError, match=words) as caught:
            load("owner/drafter")
        assert "\n" not in str(caught.value) and "owner/drafter" in str(caught.value)


def test_what_is_no_hub_id_is_a_path(hub):
    with pytest.raises(UserError, match="no such folder"):
        load_draft_config("./models/drafter")
    assert hub.asked == []


@pytest.fixture
def cached(monkeypatch, tmp_path):
    """The real huggingface_hub, offline, over a cache that holds what a caller puts into a snapshot."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    commit = "a" * 40

    def make(repository, folder, names, absent=()):
        root = tmp_path / "cache" / f"models--{repository.replace('/', '--')}"
        snapshot = root / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (root / "refs").mkdir()
        (root / "refs" / "main").write_text(commit)
        for name in names:
            shutil.copy(folder / name, snapshot / name)
        for name in absent:
            (root / ".no_exist" / commit).mkdir(parents=True, exist_ok=True)
            (root / ".no_exist" / commit / name).touch()
        return snapshot

    return make


def test_offline_and_never_downloaded(cached):
    for load in (load_draft_config, load_target_config, fetch_model):
        with pytest.raises(UserError, match=r"owner/never is no local folder, is not in the hub cache.*offline"):
            load("owner/never")


def test_offline_and_downloaded(cached, native, native_shapes):
    snapshot = cached("owner/drafter", native(shapes=native_shapes), ("config.json", "model.safetensors"))
    config = load_draft_config("owner/drafter")
    assert config.has_weights and config.path == snapshot
    assert fetch_model("owner/drafter") == snapshot


def test_offline_with_a_config_that_was_not_downloaded(cached, native, native_shapes):
    cached("owner/drafter", native(shapes=native_shapes), ("model.safetensors",))
    with pytest.raises(UserError, match=r"only a part of owner/drafter.*finish the download with `hf download"):
        load_draft_config("owner/drafter")


def test_offline_with_a_repository_that_has_no_config(cached, native, native_shapes):
    cached("owner/drafter", native(shapes=native_shapes), ("model.safetensors",), absent=("config.json",))
    with pytest.raises(UserError, match=r"no config\.json.*recover"):
        load_draft_config("owner/drafter")


INDEX = {"weight_map": {"fc.weight": "model-1.safetensors", "norm.weight": "model-2.safetensors"}}


@pytest.fixture
def half(native):
    """A drafter of two files, the second of which never came."""
    folder = native()
    (folder / "model.safetensors.index.json").write_text(json.dumps(INDEX))
    write_safetensors(folder / "model-1.safetensors", {"fc.weight": (64, 192)})
    return folder, ("config.json", "model.safetensors.index.json", "model-1.safetensors")


def test_doctor_names_what_a_broken_download_lacks(cached, half, capsys):
    cached("owner/drafter", *half)
    assert main(["doctor", "owner/drafter"]) == 2
    assert "the shard model-2.safetensors is missing" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["recover", "probe"])
def test_nothing_is_run_on_a_broken_download(command, cached, half, target, tmp_path, capsys):
    cached("owner/drafter", *half)
    words = ["--target", str(target()), *(("--out", str(tmp_path / "out")) if command == "recover" else ("--probe",))]
    assert main(["recover" if command == "recover" else "doctor", "owner/drafter", *words]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "no model-2.safetensors" in text and "whole download" in text


def test_a_target_that_is_not_all_here(cached, native, native_shapes, target, tmp_path, capsys):
    cached("owner/target", target(), ("config.json",))
    drafter = str(native(shapes=native_shapes))
    words = ["--target", "owner/target", "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main(["recover", drafter, *words]) == 2
    assert "the target's weights are not all here; weights: found 'no model.safetensors'" in capsys.readouterr().err


def test_recover_downloads_weights_without_a_config(hub, native, native_shapes, target, tmp_path, capsys):
    folder = native(shapes=native_shapes)
    (folder / "config.json").unlink()
    hub.repositories["owner/drafter"] = folder
    words = ["--target", str(target()), "--out", str(tmp_path / "out"), "--device", "cpu", "--revision", "abc"]
    assert main(["recover", "owner/drafter", *words]) == 2
    assert "the target's weights" in capsys.readouterr().err
    ((repository, patterns, revision),) = hub.asked
    assert (repository, revision) == ("owner/drafter", "abc") and "*.safetensors" in patterns
