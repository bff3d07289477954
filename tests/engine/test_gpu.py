# SPDX-License-Identifier: Apache-2.0
"""The demo pair on a CUDA device, bf16, CUDA graphs: the engine accepts what the reference accepts, on both runners.

In bf16 two greedy decoders part at near ties, and from there on they accept on different texts. So the reference is
led along the engine's own text: it drafts and accepts there as it would anywhere.
"""

from collections.abc import Sequence
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
K, PROMPTS, TOKENS = 7, 40, 96


class LedTarget(Target):
    """A target whose choice at each position of `text` (prompt and output) is that text's next token."""

    text: Sequence[int] = ()

    def forward(self, token_ids: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor, Any]:
        start = kwargs["past_key_values"].get_seq_length()
        logits, taps, cache = super().forward(token_ids, **kwargs)
        for row in range(token_ids.shape[1]):
            if start + row + 1 < len(self.text):
                logits[0, row, self.text[start + row + 1]] = torch.inf
        return logits, taps, cache


@pytest.fixture(scope="module")
def prompts(demo: DemoPair) -> list[list[int]]:
    return demo_prompts(demo, PROMPTS)


def reference_length(demo: DemoPair, prompts: list[list[int]], outputs: list[list[int]]) -> float:
    """Acceptance length of the reference along these outputs."""
    config = load_draft_config(demo.drafter)
    model = AutoModelForCausalLM.from_pretrained(demo.target, dtype=torch.bfloat16).cuda()
    target, drafter = LedTarget(model, config.tap_layer_ids), Drafter.load(config, torch.bfloat16).cuda()
    stop = {model.generation_config.eos_token_id}
    accepted: list[int] = []
    for prompt, output in zip(prompts, outputs, strict=True):
        target.text = [*prompt, *output]
        run = generate(target, drafter, prompt, k=K, max_tokens=TOKENS, stop=stop)
        assert run.tokens == output
        accepted += run.accepted
    return 1 + sum(accepted) / len(accepted)


@pytest.mark.parametrize("kernels", ["triton", "stock"])
@pytest.mark.parametrize("runner", ["V1", "V2"])
def test_acceptance_length_is_the_references(
    demo: DemoPair, prompts: list[list[int]], engines: Any, runner: str, kernels: str
) -> None:
    job = {
        "llm": llm(
            demo.target,
            demo.drafter,
            K,
            dtype="bfloat16",
            enforce_eager=False,
            max_num_seqs=16,
            max_model_len=1024,
            additional_config={"dflash": {"kernels": kernels}},
            kv_cache_memory_bytes=4_000_000_000,  # no memory profiling, which other processes on the card upset
        ),
        "requests": [{"prompt": p, "max_tokens": TOKENS} for p in prompts],
        "together": True,
    }
    (result,) = engines([job], runner=runner)
    assert f"({runner})" in result["log"][0]
    counted = result["metrics"]
    length = 1 + counted["spec_decode_num_accepted_tokens"] / counted["spec_decode_num_drafts"]
    expected = reference_length(demo, prompts, result["tokens"])
    print(f"{runner}, {kernels}: engine {length:.4f}, reference {expected:.4f}")
    assert length == pytest.approx(expected, rel=0.02)
