# SPDX-License-Identifier: Apache-2.0
"""The demo pair on a CUDA device, bf16, CUDA graphs: the engine accepts what the reference accepts, on both runners."""

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

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]
K, PROMPTS, TOKENS = 7, 64, 96


@pytest.fixture(scope="module")
def prompts(demo: DemoPair) -> list[list[int]]:
    return demo_prompts(demo, PROMPTS)


@pytest.fixture(scope="module")
def reference_length(demo: DemoPair, prompts: list[list[int]]) -> float:
    config = load_draft_config(demo.drafter)
    model = AutoModelForCausalLM.from_pretrained(demo.target, dtype=torch.bfloat16).cuda()
    target, drafter = Target(model, config.tap_layer_ids), Drafter.load(config, torch.bfloat16).cuda()
    stop = {model.generation_config.eos_token_id}
    runs = [generate(target, drafter, p, k=K, max_tokens=TOKENS, stop=stop) for p in prompts]
    steps = [a for run in runs for a in run.accepted]
    return 1 + sum(steps) / len(steps)


@pytest.mark.parametrize("runner", ["V1", "V2"])
def test_acceptance_length_is_the_references(
    demo: DemoPair, prompts: list[list[int]], reference_length: float, engines: Any, runner: str
) -> None:
    job = {
        "llm": llm(
            demo.target, demo.drafter, K, dtype="bfloat16", enforce_eager=False, max_num_seqs=16, max_model_len=1024
        ),
        "requests": [{"prompt": p, "max_tokens": TOKENS} for p in prompts],
        "together": True,
    }
    (result,) = engines([job], runner=runner)
    assert f"({runner})" in result["log"][0]
    assert "kernels flash_attn" in result["log"][0]
    counted = result["metrics"]
    length = 1 + counted["spec_decode_num_accepted_tokens"] / counted["spec_decode_num_drafts"]
    print(f"{runner}: engine {length:.4f}, reference {reference_length:.4f}")
    assert length == pytest.approx(reference_length, rel=0.02)
