# SPDX-License-Identifier: Apache-2.0
"""Run-time visibility: one warning when acceptance is not what a working drafter gives, and Prometheus gauges."""

import functools
from collections import deque
from typing import Any

import prometheus_client
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.metrics.utils import create_metric_per_engine
from vllm.v1.request import Request
from vllm.v1.spec_decode.metrics import SpecDecodingProm

from vllm_dflash.engine.acceptance import AcceptanceWatch
from vllm_dflash.engine.config_hook import draft_config_of
from vllm_dflash.engine.model_hook import drafts_with_us
from vllm_dflash.engine.options import Options
from vllm_dflash.plugin import logger

RECENT = 200  # scheduler steps with drafts that the gauges average over


def watch_of(scheduler: Any) -> AcceptanceWatch | None:
    """The scheduler's watch, made at its first draft; None when the drafter is not ours."""
    if not hasattr(scheduler, "vllm_dflash_watch"):
        config, watch = scheduler.vllm_config, None
        options = Options.parse(config.additional_config)
        if options.warn_below > 0 and drafts_with_us(config.speculative_config):
            windows = [layer.window for layer in draft_config_of(config).layers if layer.window is not None]
            watch = AcceptanceWatch(min(windows, default=None), options.warn_below, options.warn_after)
        scheduler.vllm_dflash_watch = watch
    return scheduler.vllm_dflash_watch


def remember_cached_tokens() -> None:
    """vLLM drops a request's prefill statistics once reported; its cached tokens are kept for the watch."""
    original = Request.take_prefill_stats

    @functools.wraps(original)
    def take_prefill_stats(self: Any) -> Any:
        stats = original(self)
        if stats is not None:
            self.vllm_dflash_cached = stats.num_cached_tokens
        return stats

    Request.take_prefill_stats = take_prefill_stats


def look(scheduler: Any, request: Any, accepted: int) -> None:
    """Show one verified draft to the watch; log what it says."""
    watch = watch_of(scheduler)
    if watch is None or request is None:
        return
    cached = getattr(request, "vllm_dflash_cached", 0)
    cause = watch.observe(request.num_computed_tokens - accepted, cached, accepted)
    if cause is not None:
        config = scheduler.vllm_config
        drafter, target = config.speculative_config.draft_model_config.model, config.model_config.model
        logger.warning(
            "Low DFlash acceptance: %s. Run: vllm-dflash doctor %s --target %s --probe", cause, drafter, target
        )


def install_warning() -> None:
    original = Scheduler.make_spec_decoding_stats

    @functools.wraps(original)
    def make_spec_decoding_stats(
        self: Any,
        spec_decoding_stats: Any,
        num_draft_tokens: int,
        num_accepted_tokens: int,
        num_invalid_spec_tokens: Any,
        request_id: str,
    ) -> Any:
        if num_draft_tokens:
            try:
                look(self, self.requests.get(request_id), num_accepted_tokens)
            except Exception as problem:  # visibility must not end an engine
                self.vllm_dflash_watch = None
                logger.warning("vllm-dflash: the acceptance watch is off: %r", problem)
        return original(
            self, spec_decoding_stats, num_draft_tokens, num_accepted_tokens, num_invalid_spec_tokens, request_id
        )

    Scheduler.make_spec_decoding_stats = make_spec_decoding_stats


class Gauges:
    """`vllm:dflash_*`, beside vLLM's own counters; one value for each engine."""

    def __init__(self, num_tokens: int, labelnames: list[str], per_engine: dict[int, list[object]]) -> None:
        def gauge(name: str, text: str, labels: list[str]) -> Any:
            return prometheus_client.Gauge(f"vllm:dflash_{name}", text, labels, multiprocess_mode="mostrecent")

        self.length = create_metric_per_engine(
            gauge("acceptance_length", f"Accepted draft tokens + 1, mean of the last {RECENT} steps.", labelnames),
            per_engine,
        )
        self.drafting = create_metric_per_engine(
            gauge("drafting", "1 while the last step had drafts, else 0.", labelnames), per_engine
        )
        rate = gauge("acceptance_rate_per_pos", f"Acceptance rate, last {RECENT} steps.", [*labelnames, "position"])
        self.rates = {
            engine: [rate.labels(*values, str(position)) for position in range(num_tokens)]
            for engine, values in per_engine.items()
        }
        self.recent: dict[int, deque[tuple[int, list[int]]]] = {engine: deque(maxlen=RECENT) for engine in per_engine}

    def observe(self, stats: Any, engine: int) -> None:
        self.drafting[engine].set(1 if stats.num_drafts else 0)
        if not stats.num_drafts:
            return
        recent = self.recent[engine]
        recent.append((stats.num_drafts, list(stats.num_accepted_tokens_per_pos)))
        drafts = sum(count for count, _ in recent)
        accepted = [sum(column) for column in zip(*(positions for _, positions in recent), strict=True)]
        self.length[engine].set(1 + sum(accepted) / drafts)
        for gauge, count in zip(self.rates[engine], accepted, strict=True):
            gauge.set(count / drafts)


def install_gauges() -> None:
    init, observe = SpecDecodingProm.__init__, SpecDecodingProm.observe

    @functools.wraps(init)
    def with_gauges(
        self: Any, speculative_config: Any, labelnames: Any, per_engine_labelvalues: Any, *args: Any, **kwargs: Any
    ) -> None:
        init(self, speculative_config, labelnames, per_engine_labelvalues, *args, **kwargs)
        self.vllm_dflash_gauges = None
        if drafts_with_us(speculative_config):
            self.vllm_dflash_gauges = Gauges(
                speculative_config.num_speculative_tokens, labelnames, per_engine_labelvalues
            )

    @functools.wraps(observe)
    def and_gauges(self: Any, spec_decoding_stats: Any, engine_idx: int = 0) -> None:
        observe(self, spec_decoding_stats, engine_idx)
        if self.vllm_dflash_gauges is not None:
            self.vllm_dflash_gauges.observe(spec_decoding_stats, engine_idx)

    SpecDecodingProm.__init__ = with_gauges
    SpecDecodingProm.observe = and_gauges


def install() -> None:
    remember_cached_tokens()
    install_warning()
    install_gauges()
