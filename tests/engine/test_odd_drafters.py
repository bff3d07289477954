# SPDX-License-Identifier: Apache-2.0
"""Drafters whose config stock vLLM would lose or misread: the engine drafts what the reference drafts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from tests.engine.conftest import WINDOW, K, llm, prompt, reference

Config = dict[str, Any]
PROMPTS = [prompt(n, 100 + n) for n in (5, 40)]
TOKENS = 20


def window_without_use_sliding_window(config: Config) -> None:
    del config["use_sliding_window"]


def ropes_by_layer_type(config: Config) -> None:
    config["rope_parameters"] = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
        "full_attention": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    }


def factors(config: Config) -> None:
    config["dflash_config"] |= {
        "input_embedding_scale": 3.0,
        "attention_value_scale": 0.5,
        "output_multiplier": 0.7,
        "final_logit_softcapping": 5.0,
    }


def speculators_format(config: Config) -> None:
    inner = {k: v for k, v in config.items() if k not in ("architectures", "dflash_config", "block_size")}
    taps, mask = (config["dflash_config"][key] for key in ("target_layer_ids", "mask_token_id"))
    config.clear()
    config |= {
        "architectures": ["DFlashSpeculator"],
        "speculators_model_type": "dflash",
        "speculators_version": "0.5.0",
        "speculators_config": {
            "algorithm": "dflash",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": K}],
            "verifier": {"name_or_path": "tiny", "architectures": ["LlamaForCausalLM"]},
        },
        "transformer_layer_config": inner,
        "aux_hidden_state_layer_ids": [tap + 1 for tap in taps],
        "mask_token_id": mask,
        "block_size": K + 1,
        "draft_vocab_size": tiny.VOCABULARY,
        "sliding_window_non_causal": False,
    }


CHANGES: list[Callable[[Config], None]] = [
    window_without_use_sliding_window,
    ropes_by_layer_type,
    factors,
    speculators_format,
]
NAMES = [change.__name__ for change in CHANGES] + ["unsorted_taps"]


@pytest.fixture(scope="module")
def odd(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("odd")
    (root / "target").symlink_to(pair / "target")
    for change in CHANGES:
        folder = tiny.drafter(root / change.__name__, "SSF", window=WINDOW, block=K + 1)
        config = json.loads((folder / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))
    tiny.drafter(root / "unsorted_taps", "SSF", window=WINDOW, block=K + 1, taps=(3, 0, 1))
    return root


@pytest.fixture(scope="module")
def results(odd: Path, engines: Any) -> dict[str, Any]:
    requests = [{"prompt": p, "max_tokens": TOKENS, "ignore_eos": True} for p in PROMPTS]
    jobs = [{"llm": llm(odd / "target", odd / name, K), "requests": requests} for name in NAMES]
    return dict(zip(NAMES, engines(jobs), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_drafts_are_the_references(odd: Path, results: dict[str, Any], name: str) -> None:
    expected = reference(odd, name, PROMPTS, TOKENS)
    for tokens, steps, want in zip(results[name]["tokens"], results[name]["drafts"], expected, strict=True):
        assert tokens == want.tokens
        assert [step[0] for step in steps][: len(want.drafts)] == want.drafts


def test_each_change_matters(pair: Path, odd: Path) -> None:
    """Except for spelling, every one of them gives other drafts than the plain mixed drafter."""
    plain = [g.drafts for g in reference(pair, "SSF", PROMPTS, TOKENS)]
    same = {name: [g.drafts for g in reference(odd, name, PROMPTS, TOKENS)] == plain for name in NAMES}
    spelling = {"window_without_use_sliding_window", "speculators_format"}
    assert {name for name, equal in same.items() if equal} == spelling
