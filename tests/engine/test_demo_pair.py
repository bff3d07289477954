# SPDX-License-Identifier: Apache-2.0
"""The demo pair on the real engine, fp32: equal to the reference, and worse whenever the drafter is misread.

The misreadings are those of the story in the README: taps one layer off, windows dropped, another mask token.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.engine.conftest import demo_prompts, llm
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.demo.pair import DemoPair
from vllm_dflash.reference.decode import generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target

K, PROMPTS, COMPARED, TOKENS = 7, 8, 3, 160
Config = dict[str, Any]


def taps_one_later(config: Config) -> None:
    config["dflash_config"]["target_layer_ids"] = [tap + 1 for tap in config["dflash_config"]["target_layer_ids"]]


def taps_one_earlier(config: Config) -> None:
    config["dflash_config"]["target_layer_ids"] = [tap - 1 for tap in config["dflash_config"]["target_layer_ids"]]


def windows_dropped(config: Config) -> None:
    sliding = [kind == "sliding_attention" for kind in config["layer_types"]]
    config["dflash_config"]["layers"] = [{"window": None, "causal": causal} for causal in sliding]


def other_mask(config: Config) -> None:
    config["dflash_config"]["mask_token_id"] = 0


MISREADINGS = {taps_one_later: 64, taps_one_earlier: 64, windows_dropped: TOKENS, other_mask: 16}  # tokens to show it


def misread(drafter: Path, folder: Path, change: Callable[[Config], None]) -> Path:
    folder.mkdir()
    shutil.copy(drafter / "model.safetensors", folder)
    config = json.loads((drafter / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def prompts(demo: DemoPair) -> list[list[int]]:
    return demo_prompts(demo, PROMPTS)


@pytest.fixture(scope="module")
def runs(
    demo: DemoPair, prompts: list[list[int]], engines: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Keys: "none", "right" and the names of MISREADINGS."""
    root = tmp_path_factory.mktemp("misread")
    drafters = {"none": None, "right": demo.drafter}
    drafters |= {change.__name__: misread(demo.drafter, root / change.__name__, change) for change in MISREADINGS}
    jobs = [
        {
            "llm": llm(demo.target, drafter, K, max_model_len=1024, block_size=128),
            "requests": [{"prompt": p, "max_tokens": tokens_of(name)} for p in prompts],
        }
        for name, drafter in drafters.items()
    ]
    return dict(zip(drafters, engines(jobs), strict=True))


def tokens_of(drafter: str) -> int:
    return {change.__name__: tokens for change, tokens in MISREADINGS.items()}.get(drafter, TOKENS)


def acceptance_length(run: dict[str, Any], tokens: int) -> float:
    """Of the steps whose anchor is among the first `tokens` positions after each prompt."""
    accepted = [count for steps in run["verified"] for _, count, anchor in steps if anchor - steps[0][2] < tokens]
    return 1 + sum(accepted) / len(accepted)


def test_greedy_output_is_the_targets(runs: dict[str, Any]) -> None:
    assert runs["right"]["tokens"] == runs["none"]["tokens"]


def test_engine_equals_reference(demo: DemoPair, prompts: list[list[int]], runs: dict[str, Any]) -> None:
    config = load_draft_config(demo.drafter)
    model = AutoModelForCausalLM.from_pretrained(demo.target, dtype=torch.float32)
    target, drafter = Target(model, config.tap_layer_ids), Drafter.load(config)
    stop = {model.generation_config.eos_token_id}
    for prompt, tokens, steps in zip(
        prompts[:COMPARED], runs["right"]["tokens"], runs["right"]["drafts"], strict=False
    ):
        want = generate(target, drafter, prompt, k=K, max_tokens=TOKENS, stop=stop)
        assert tokens == want.tokens
        assert [step[0] for step in steps][: len(want.drafts)] == want.drafts


@pytest.mark.parametrize("change", [change.__name__ for change in MISREADINGS])
def test_a_misread_drafter_accepts_less(
    runs: dict[str, Any], change: str, record_property: Callable[[str, object], None]
) -> None:
    """The lengths are in the report of --junitxml."""
    tokens = tokens_of(change)
    wrong, right = (acceptance_length(runs[name], tokens) for name in (change, "right"))
    record_property(f"acceptance length in {tokens} tokens", f"{wrong:.3f}, right {right:.3f}")
    assert wrong < right


def test_acceptance_is_worth_having(runs: dict[str, Any]) -> None:
    assert acceptance_length(runs["right"], TOKENS) > 2.2
