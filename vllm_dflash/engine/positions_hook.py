# SPDX-License-Identifier: Apache-2.0
"""A request stops drafting at the end of the drafter's range or of the served length; the others in its batch go on.

The scheduler drops the draft tokens of such a request, so the target decodes it alone. The drafter itself always runs,
for context K/V must be stored at every step. vLLM's V1 runner skips it for a whole batch when one request comes near
the end, which leaves holes in the context of all the others: config_hook.py gives it room, and here the rows past the
end lose their slots, as on the V2 runner.
"""

import functools
from typing import Any

import torch
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.worker.worker_base import WorkerWrapperBase

from vllm_dflash.engine.model_hook import drafts_with_us
from vllm_dflash.engine.positions import draft_end


def end_of(scheduler: Any) -> int | None:
    """`draft_end` for this scheduler, kept; None when the drafter is not ours."""
    if not hasattr(scheduler, "vllm_dflash_draft_end"):
        config = scheduler.vllm_config
        ours = drafts_with_us(config.speculative_config)
        scheduler.vllm_dflash_draft_end = draft_end(config) if ours else None
    return scheduler.vllm_dflash_draft_end


def drop_drafts_past(end: int, requests: list[Any]) -> None:
    """Clear the draft tokens of every request whose last one would stand at `end` or behind it.

    A draft block stands or falls whole: its rows see each other. With asynchronous scheduling num_computed_tokens
    counts tokens in flight as accepted, so a request may stop up to a block early.
    """
    for request in requests:
        if request.spec_token_ids and request.num_computed_tokens + len(request.spec_token_ids) >= end:
            request.spec_token_ids = []


def install_in_scheduler() -> None:
    original = Scheduler.schedule

    @functools.wraps(original)
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        end = end_of(self)
        if end is not None:
            drop_drafts_past(end, self.running)
        return original(self, *args, **kwargs)

    Scheduler.schedule = schedule


def end_block_rows(positions: torch.Tensor, slots: torch.Tensor, metadata: Any, max_model_len: int) -> None:
    """Block rows past the served length lose their slot, and no read goes past it; in place.

    Args:
        positions, slots: [rows] integer; metadata: CommonAttentionMetadata of the block.
    """
    slots.masked_fill_(positions >= max_model_len, -1)
    metadata.seq_lens.clamp_(max=max_model_len)
    metadata.max_seq_len = min(metadata.max_seq_len, max_model_len)
    if metadata.seq_lens_cpu_upper_bound is not None:
        metadata.seq_lens_cpu_upper_bound = metadata.seq_lens_cpu_upper_bound.clamp(max=max_model_len)


def install_in_v1_proposer() -> None:
    """Once in a worker's process."""
    from vllm.v1.spec_decode.dflash import DFlashProposer

    original = DFlashProposer.set_inputs_first_pass
    if hasattr(original, "vllm_dflash"):
        return

    @functools.wraps(original)
    def set_inputs_first_pass(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows, to_sample, metadata = original(self, *args, **kwargs)
        if metadata.max_seq_len > self.max_model_len:
            end_block_rows(self.positions[:rows], metadata.slot_mapping, metadata, self.max_model_len)
        return rows, to_sample, metadata

    set_inputs_first_pass.vllm_dflash = True  # type: ignore[attr-defined]
    DFlashProposer.set_inputs_first_pass = set_inputs_first_pass


def install_in_worker() -> None:
    original = WorkerWrapperBase.init_device

    @functools.wraps(original)
    def init_device(self: Any) -> Any:
        config = self.vllm_config
        if drafts_with_us(config.speculative_config) and not config.use_v2_model_runner:
            install_in_v1_proposer()
        return original(self)

    WorkerWrapperBase.init_device = init_device


def install() -> None:
    install_in_scheduler()
    install_in_worker()
