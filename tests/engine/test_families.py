# SPDX-License-Identifier: Apache-2.0
"""One tiny pair for each target family that public drafters exist for: the engine drafts what the reference drafts.

Llama is in test_equivalence.py. Qwen3-MoE routes, gpt-oss has attention sinks, biases, YaRN and sliding layers of its
own, Gemma scales embeddings by sqrt(hidden); Gemma 2 caps attention logits and logits, Gemma 4 caps logits and has two
head sizes. vLLM's own Gemma 2 and 3 hand out no layer outputs, so they run through the Transformers backend, whose
embedding module scales by itself.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests import tiny
from tests.engine.conftest import WINDOW, K, llm, prompt
from vllm_dflash.checkpoint import DraftConfig, load_draft_config, load_target_config
from vllm_dflash.reference.decode import Generation, generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target

# target, drafter
SEEDS = {
    "qwen3": (2, 1),
    "qwen3_moe": (2, 3),
    "gpt_oss": (0, 3),
    "gemma4": (1, 1),
    "gemma3": (1, 1),
    "gemma2": (2, 2),
}
FAMILIES = list(SEEDS)
KINDS = ["SSF", "sFC"]
# One token; past the window; over a page boundary.
PROMPTS = [prompt(n, n) for n in (1, WINDOW + 1, 70)]
TOKENS = 32


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """<family>/target and <family>/<kinds>."""
    root = tmp_path_factory.mktemp("families")
    for family, (target_seed, drafter_seed) in SEEDS.items():
        tiny.target(root / family / "target", family, seed=target_seed)
        for kinds in KINDS:
            tiny.drafter(root / family / kinds, kinds, window=WINDOW, block=K + 1, seed=drafter_seed)
    return root


def draft_config(folder: Path, kinds: str) -> DraftConfig:
    return load_draft_config(folder / kinds, target=load_target_config(folder / "target"))


def reference(folder: Path, kinds: str, prompts: list[list[int]], max_tokens: int) -> list[Generation]:
    config = draft_config(folder, kinds)
    # PyTorch's attention function knows no cap of attention logits, and transformers drops Gemma 2's without a word.
    model = AutoModelForCausalLM.from_pretrained(folder / "target", dtype=torch.float32, attn_implementation="eager")
    target, drafter = Target(model, config.tap_layer_ids), Drafter.load(config)
    return [generate(target, drafter, p, k=K, max_tokens=max_tokens) for p in prompts]


def job(folder: Path, kinds: str, prompts: list[list[int]], max_tokens: int) -> dict[str, Any]:
    requests = [{"prompt": p, "max_tokens": max_tokens, "ignore_eos": True} for p in prompts]
    more = {"model_impl": "transformers"} if folder.name in ("gemma2", "gemma3") else {}
    return {"llm": llm(folder / "target", folder / kinds, K, **more), "requests": requests}


def assert_same(result: dict[str, Any], expected: list[Generation]) -> None:
    accepted = sum(sum(g.accepted) for g in expected)
    assert accepted > 5, "the pair accepts too little to prove anything"
    for tokens, steps, want in zip(result["tokens"], result["drafts"], expected, strict=True):
        assert tokens == want.tokens
        assert [step[0] for step in steps][: len(want.drafts)] == want.drafts
    by_position = [sum(a > i for g in expected for a in g.accepted) for i in range(K)]
    assert result["metrics"]["spec_decode_num_accepted_tokens_per_pos"] == by_position
    assert result["metrics"]["spec_decode_num_drafts"] == sum(len(g.accepted) for g in expected)


@pytest.fixture(scope="module")
def v1_results(pairs: Path, engines: Any) -> dict[tuple[str, str], Any]:
    cases = [(family, kinds) for family in FAMILIES for kinds in KINDS]
    jobs = [job(pairs / family, kinds, PROMPTS, TOKENS) for family, kinds in cases]
    return dict(zip(cases, engines(jobs), strict=True))


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_v1_equals_reference(pairs: Path, v1_results: dict[tuple[str, str], Any], family: str, kinds: str) -> None:
    assert_same(v1_results[family, kinds], reference(pairs / family, kinds, PROMPTS, TOKENS))


@pytest.mark.parametrize("family", ["gpt_oss", "gemma4", "gemma2"])
def test_v2_equals_reference(pairs: Path, engines: Any, family: str) -> None:
    (result,) = engines([job(pairs / family, "SSF", PROMPTS[1:2], 14)], runner="V2")
    assert "(V2)" in result["log"][0]
    assert_same(result, reference(pairs / family, "SSF", PROMPTS[1:2], 14))


@pytest.mark.parametrize("family", ["gemma2", "gemma4"])
def test_gemma_drafters_borrow_its_scale_and_cap(pairs: Path, family: str) -> None:
    config = draft_config(pairs / family, "SSF")
    assert config.embed_scale == tiny.HIDDEN**0.5
    assert config.logit_softcap == 2.0


def test_gemma2_without_its_cap_of_attention_logits_says_other_things(pairs: Path) -> None:
    """So equality with the reference shows that the engine's target has the cap."""
    folder = pairs / "gemma2" / "target"
    capped = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    uncapped = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    ids = torch.tensor([PROMPTS[2]])
    with torch.inference_mode():
        choices = [model(ids).logits[0].argmax(-1) for model in (capped, uncapped)]
    assert (choices[0] != choices[1]).sum() > len(PROMPTS[2]) // 10
