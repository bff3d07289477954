# SPDX-License-Identifier: Apache-2.0
"""Runs real vLLM engines and records what they did. Started as a process of its own by tests/engine/conftest.py.

    python jobs.py JOBS.json RESULTS.json

A job is {"llm": {...LLM arguments...}, "requests": [{"prompt": [ids], "max_tokens": n, ...}], "together": bool,
"poison": bool}. With poison the draft layers' part of every page is NaN when a request gets the page.
Its result: {"tokens": [[...]], "drafts": [[...] a step], "verified": [[[drafted, accepted, position of the anchor] a
step with drafts] a request], "poisoned": pages, "metrics": {...}, "log": [lines of the plugin]},
or {"error": "...", "log": [...]}.
"""

import functools
import gc
import json
import logging
import sys
from pathlib import Path
from typing import Any


def record_drafts(drafts: list[list[list[int]]]) -> None:
    """Keep what the drafter proposes, on either runner, without changing it."""
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer
    from vllm.v1.worker.gpu.spec_decode.dflash.speculator import DFlashSpeculator

    for cls in (SpecDecodeBaseProposer, DFlashSpeculator):
        original = cls.propose

        def propose(self: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            proposed = _original(self, *args, **kwargs)
            if not kwargs.get("dummy_run"):
                drafts.append(proposed.tolist())
            return proposed

        cls.propose = propose


def record_verified(verified: dict[str, list[list[int]]]) -> None:
    """Keep how many draft tokens of each request were verified and accepted, step by step, on either runner."""
    from vllm.v1.core.sched.scheduler import Scheduler

    original = Scheduler.make_spec_decoding_stats

    @functools.wraps(original)
    def make(
        self: Any,
        spec_decoding_stats: Any,
        num_draft_tokens: int,
        num_accepted_tokens: int,
        num_invalid_spec_tokens: Any,
        request_id: str,
    ) -> Any:
        name = request_id.partition("-")[0]  # the engine adds "-" and a random part
        anchor = self.requests[request_id].num_computed_tokens - num_accepted_tokens - 1
        verified.setdefault(name, []).append([num_draft_tokens, num_accepted_tokens, anchor])
        return original(
            self, spec_decoding_stats, num_draft_tokens, num_accepted_tokens, num_invalid_spec_tokens, request_id
        )

    Scheduler.make_spec_decoding_stats = make


def draft_layers(worker: Any) -> list[Any]:
    """The drafter's attention layers, on either runner."""
    runner = worker.model_runner
    drafter = runner.drafter if hasattr(runner, "drafter") else runner.speculator
    return [layer.self_attn.attn for layer in drafter.model.model.layers]


class Poison:
    """Fills the draft layers' part of every page with NaN as a request gets the page."""

    def __init__(self) -> None:
        from vllm.v1.core.block_pool import BlockPool

        self.layers: list[Any] = []
        self.pages = 0
        original = BlockPool.get_new_blocks

        def get_new_blocks(pool: Any, *args: Any, **kwargs: Any) -> Any:
            blocks = original(pool, *args, **kwargs)
            for layer in self.layers:
                layer.kv_cache[[block.block_id for block in blocks]] = float("nan")
            self.pages += len(blocks)
            return blocks

        BlockPool.get_new_blocks = get_new_blocks

    def into(self, llm: Any) -> None:
        (self.layers,), self.pages = llm.collective_rpc(draft_layers), 0


def metrics(llm: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for metric in llm.get_metrics():
        if metric.name.startswith(("vllm:spec_decode", "vllm:dflash", "vllm:prefix_cache", "vllm:num_preemptions")):
            found[metric.name.removeprefix("vllm:")] = getattr(metric, "values", None) or getattr(metric, "value", None)
    return found


def run(
    job: dict[str, Any], drafts: list[list[list[int]]], verified: dict[str, list[list[int]]], poison: Poison
) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    log: list[str] = []

    def remember(record: logging.LogRecord) -> bool:
        log.append(record.getMessage())
        return True

    # A filter, because vLLM drops the handlers of loggers below its own when the first engine starts.
    plugin_log = logging.getLogger("vllm.plugins.vllm_dflash")
    plugin_log.addFilter(remember)
    try:
        llm = LLM(**job["llm"], disable_log_stats=False)
        if job.get("poison"):
            poison.into(llm)
        drafts.clear()
        verified.clear()
        requests = job["requests"]
        prompts = [{"prompt_token_ids": r["prompt"]} for r in requests]
        sampling = [
            SamplingParams(**({"temperature": 0.0} | {k: v for k, v in r.items() if k != "prompt"})) for r in requests
        ]
        batches = (
            [(prompts, sampling)]
            if job.get("together")
            else [([p], [s]) for p, s in zip(prompts, sampling, strict=True)]
        )
        tokens, steps, checked = [], [], []
        for batch_prompts, batch_sampling in batches:
            done = llm.generate(batch_prompts, batch_sampling, use_tqdm=False)
            tokens += [list(o.outputs[0].token_ids) for o in done]
            steps.append(list(drafts))
            checked += [verified.get(o.request_id, []) for o in done]
            drafts.clear()
        result: dict[str, Any] = {
            "tokens": tokens,
            "drafts": steps,
            "verified": checked,
            "metrics": metrics(llm),
            "log": log,
        }
        result["poisoned"] = poison.pages
        llm.llm_engine.engine_core.shutdown()
        del llm
    except Exception as error:  # the test asserts on what went wrong
        result = {"error": f"{type(error).__name__}: {error}", "log": log}
    finally:
        poison.layers = []
        plugin_log.removeFilter(remember)
    from vllm.distributed import cleanup_dist_env_and_memory

    cleanup_dist_env_and_memory()
    gc.collect()
    return result


def main() -> None:
    jobs = json.loads(Path(sys.argv[1]).read_text())
    drafts: list[list[list[int]]] = []
    record_drafts(drafts)
    verified: dict[str, list[list[int]]] = {}
    record_verified(verified)
    poison = Poison()
    results = []
    for job in jobs:
        results.append(run(job, drafts, verified, poison))
        Path(sys.argv[2]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
