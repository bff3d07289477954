# SPDX-License-Identifier: Apache-2.0
"""Fields of a drafter's config that vLLM's draft model takes from elsewhere or leaves out: honoured or refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tests import tiny
from tests.engine.conftest import WINDOW, K, llm, prompt
from vllm_dflash.checkpoint import load_draft_config, load_target_config
from vllm_dflash.reference.decode import Generation, generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target
from vllm_dflash.reference.vocabulary import Vocabulary

Config = dict[str, Any]
Weights = dict[str, torch.Tensor]
PROMPTS = [prompt(n, 100 + n) for n in (5, 40)]
TOKENS = 24


def random(*shape: int, scale: float = 0.5) -> torch.Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(7))


def head(rows: int) -> torch.Tensor:
    """Knows the four tokens that the tiny target writes (tests/tiny.py)."""
    weight = torch.zeros(rows, tiny.HIDDEN)
    weight[10:14] = random(4, tiny.HIDDEN)
    return weight


def biases_only_in_the_weights(config: Config, weights: Weights) -> None:
    config["attention_bias"] = False
    for name in [name for name in weights if "self_attn" in name and "_proj" in name]:
        weights[name.replace("weight", "bias")] = random(weights[name].shape[0])


def norm_eps(config: Config, weights: Weights) -> None:
    config["rms_norm_eps"] = 0.5


def head_size_only_in_the_weights(config: Config, weights: Weights) -> None:
    del config["head_dim"]


def own_head(config: Config, weights: Weights) -> None:
    weights["lm_head.weight"] = head(tiny.VOCABULARY)


def own_embedding(config: Config, weights: Weights) -> None:
    weights["embed_tokens.weight"] = random(tiny.VOCABULARY, tiny.HIDDEN)


def reduced_vocabulary(config: Config, weights: Weights) -> None:
    rows = 40
    config["draft_vocab_size"] = rows
    weights["lm_head.weight"] = head(rows)
    tokens = torch.cat([torch.arange(20), torch.arange(60, 80)])
    weights["d2t"] = tokens - torch.arange(rows)


def sidecar_mask(config: Config, weights: Weights) -> None:
    """Written beside the weights in `made`."""


CHANGES: list[Callable[[Config, Weights], None]] = [
    biases_only_in_the_weights,
    norm_eps,
    head_size_only_in_the_weights,
    own_head,
    own_embedding,
    reduced_vocabulary,
    sidecar_mask,
]
NAMES = [change.__name__ for change in CHANGES]


def made(folder: Path, change: Callable[[Config, Weights], None]) -> Path:
    tiny.drafter(folder, "SSF", window=WINDOW, block=K + 1, seed=3)
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    change(config, weights)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    if change is sidecar_mask:
        torch.save({"embedding": random(tiny.HIDDEN), "mask_token_id": tiny.MASK}, folder / "mask_embedding.pt")
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fields")
    tiny.target(root / "target", seed=2)
    tiny.drafter(root / "plain", "SSF", window=WINDOW, block=K + 1, seed=3)
    for change in CHANGES:
        made(root / change.__name__, change)
    return root


def reference(root: Path, name: str) -> list[Generation]:
    config = load_draft_config(root / name, target=load_target_config(root / "target"))
    model = AutoModelForCausalLM.from_pretrained(root / "target", dtype=torch.float32)
    target, drafter = Target(model, config.tap_layer_ids), Drafter.load(config)
    vocabulary = Vocabulary(config, target)
    return [generate(target, drafter, p, k=K, max_tokens=TOKENS, vocabulary=vocabulary) for p in PROMPTS]


@pytest.fixture(scope="module")
def v1(root: Path, engines: Any) -> dict[str, Any]:
    requests = [{"prompt": p, "max_tokens": TOKENS, "ignore_eos": True} for p in PROMPTS]
    jobs = [{"llm": llm(root / "target", root / name, K), "requests": requests} for name in NAMES]
    return dict(zip(NAMES, engines(jobs), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_v1_drafts_as_the_reference(root: Path, v1: dict[str, Any], name: str) -> None:
    for tokens, steps, want in zip(v1[name]["tokens"], v1[name]["drafts"], reference(root, name), strict=True):
        assert tokens == want.tokens
        assert [step[0] for step in steps][: len(want.drafts)] == want.drafts


def test_each_field_matters(root: Path) -> None:
    """Except for the spelling of the head size, each of them gives other drafts."""
    plain = [g.drafts for g in reference(root, "plain")]
    same = {name for name in NAMES if [g.drafts for g in reference(root, name)] == plain}
    assert same == {"head_size_only_in_the_weights"}


def gelu(config: Config, weights: Weights) -> None:
    config["hidden_act"] = "gelu_pytorch_tanh"


def other_vocabulary(config: Config, weights: Weights) -> None:
    config["vocab_size"] = 4 * tiny.VOCABULARY


def other_hidden_size(config: Config, weights: Weights) -> None:
    """Consistent with itself, so that only the target contradicts it."""
    config["hidden_size"] = 2 * tiny.HIDDEN
    weights.clear()


def head_of_another_vocabulary(config: Config, weights: Weights) -> None:
    weights["lm_head.weight"] = head(tiny.VOCABULARY // 2)


def features_of_another_width(config: Config, weights: Weights) -> None:
    config["target_hidden_size"] = 2 * tiny.HIDDEN
    weights["fc.weight"] = random(tiny.HIDDEN, 6 * tiny.HIDDEN)


def a_tap_past_the_last_layer(config: Config, weights: Weights) -> None:
    config["dflash_config"]["target_layer_ids"] = [0, 1, 4]
    del config["num_target_layers"]


REFUSED: dict[Callable[[Config, Weights], None], list[str]] = {
    gelu: ["hidden_act", "'gelu_pytorch_tanh'", "needed silu", "/gelu"],
    other_vocabulary: ["vocab_size", "512", "128"],
    other_hidden_size: ["hidden_size", "128", "64"],
    head_of_another_vocabulary: ["the head scores 64 of 128 tokens", "d2t"],
    features_of_another_width: ["target_hidden_size", "128", "64"],
    a_tap_past_the_last_layer: ["tap 4 is past the last layer", "target_layer_ids", "4 layers"],
}


def test_what_does_not_fit_is_refused_with_both_numbers_before_weights_load(
    root: Path, engines: Any, tmp_path: Path
) -> None:
    jobs = [
        {"llm": llm(root / "target", made(tmp_path / change.__name__, change), K), "requests": []} for change in REFUSED
    ]
    for (change, words), result in zip(REFUSED.items(), engines(jobs, expect_error=True), strict=True):
        error = result["error"]
        assert "UserError" in error or "ValidationError" in error, error
        assert all(word in error.replace("\\\\", "") for word in words), (change.__name__, error)
        assert not any("ACTIVE" in line for line in result["log"])
