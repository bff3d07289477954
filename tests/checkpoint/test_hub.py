# SPDX-License-Identifier: Apache-2.0
"""Hub ids: what is fetched, and one sentence for each way it can fail. No network: the hub is replaced."""

import json
import shutil
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import errors

from vllm_dflash.checkpoint import load_draft_config, load_target_config
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

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
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
    for load in (load_draft_config, load_target_config):
        with pytest.raises(UserError, match=words) as caught:
            load("owner/drafter")
        assert "\n" not in str(caught.value)


def test_what_is_no_hub_id_is_a_path(hub):
    with pytest.raises(UserError, match="no such folder"):
        load_draft_config("./models/drafter")
    assert hub.asked == []


def test_really_offline(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="offline"):
        load_draft_config("owner/never-downloaded")
