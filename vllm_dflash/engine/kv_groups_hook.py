# SPDX-License-Identifier: Apache-2.0
"""Gives vLLM's planning our KV cache groups on a hybrid target, and the layout that packing needs."""

import functools
import importlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.utils import get_current_attn_backends
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.kv_cache_interface import KVCacheGroupSpec, UniformTypeKVCacheSpecs
from vllm.v1.kv_cache_spec_registry import KVCacheSpecRegistry
from vllm.v1.worker.worker_base import WorkerBase

from vllm_dflash.engine import kv_groups, recurrent_block
from vllm_dflash.engine.config_hook import draft_config_of
from vllm_dflash.engine.draft_window import DraftWindowManager, DraftWindowSpec
from vllm_dflash.engine.model_hook import drafts_with_us
from vllm_dflash.engine.needs.kv_groups import PLANNING_NEEDS
from vllm_dflash.engine.options import Options
from vllm_dflash.errors import UserError
from vllm_dflash.plugin import logger

BLOCK_OUTERMOST = ("BLNHC", "BLHNC")


def planning_module() -> Any:
    """vLLM's module whose get_kv_cache_groups its engine calls."""
    for need in PLANNING_NEEDS:
        if need.missing() is None:
            return importlib.import_module(need.module)
    raise AttributeError("; ".join(str(need.missing()) for need in PLANNING_NEEDS))


def draft_windows(config: Any, layer_names: Iterable[str]) -> dict[str, int]:
    """Window of each windowed draft layer. Draft layers are numbered on from the target's."""
    layers = draft_config_of(config).layers
    first = config.model_config.get_total_num_hidden_layers()
    windows = {}
    for name in layer_names:
        number = re.search(r"(?:^|\.)layers\.(\d+)\.", name)
        index = int(number[1]) - first if number else -1
        if 0 <= index < len(layers) and (window := layers[index].window) is not None:
            windows[name] = window
    return windows


def asked(config: Any) -> str:
    """The user's `kv_groups`."""
    return Options.parse(config.additional_config).kv_groups


def kinds_of(config: Any, specs: Mapping[str, Any]) -> kv_groups.Kinds | None:
    """The layers of a hybrid target with our drafter; None where the groups stay vLLM's.

    KV transfer and several ranks of context or pipeline have rules of their own for pages.
    """
    parallel = config.parallel_config
    if (
        not drafts_with_us(config.speculative_config)
        or asked(config) == "stock"
        or config.scheduler_config.disable_hybrid_kv_cache_manager
        or config.kv_transfer_config is not None
        or parallel.pipeline_parallel_size * parallel.decode_context_parallel_size != 1
        or getattr(parallel, "prefill_context_parallel_size", 1) != 1
    ):
        return None
    return kv_groups.Kinds.of(specs, draft_windows(config, specs))


def needed_to_pack(config: Any, specs: Mapping[str, Any], kinds: kv_groups.Kinds | None) -> str | None:
    """What packing lacks before layouts and backends are asked; None: nothing."""
    if kinds is None:
        return "a hybrid target of full attention and recurrent layers, one pipeline and context rank, no KV transfer"
    if config.cache_config.enable_prefix_caching:
        return "enable_prefix_caching=False"
    if not kv_groups.can_pack(specs, kinds):
        return "recurrent layers that are gated delta nets"
    return None


def can_pack(config: Any, specs: Mapping[str, Any], kinds: kv_groups.Kinds | None) -> bool:
    """Unless told otherwise; where the user names a layout, it is not known to be one that we preferred.

    Raises UserError where the user insists on what cannot be.
    """
    insists = asked(config) == "packed"
    if not insists and (asked(config) != "auto" or os.environ.get("VLLM_KV_CACHE_LAYOUT")):
        return False
    needed = needed_to_pack(config, specs, kinds)
    if needed is not None and insists:
        raise not_packed(needed)
    return needed is None


def needed_layout(here: str) -> str:
    return f"a KV cache layout among {', '.join(BLOCK_OUTERMOST)} (here {here})"


def not_packed(needed: str) -> UserError:
    return UserError(
        "the KV cache groups cannot be packed",
        field='additional_config["dflash"].kv_groups',
        found="packed",
        needed=f'{needed}, or "auto"',
    )


def plan(config: Any, specs: dict[str, Any], stock: Any) -> list[KVCacheGroupSpec]:
    """Our groups, or vLLM's where the drafter is not ours or the target no hybrid.

    Raises UserError where the user insists on packed groups and they cannot be.
    """
    kinds = kinds_of(config, specs)
    wanted = drafts_with_us(config.speculative_config) and can_pack(config, specs, kinds)
    if kinds is None:
        groups: list[KVCacheGroupSpec] = stock(config, specs)
        return groups
    layout = config.cache_config.get_resolved_kv_cache_layout()
    fits = layout.is_block_outermost and layout.is_block_compact
    if wanted and not fits and asked(config) == "packed":
        raise not_packed(needed_layout(layout.name))
    register_draft_window(next(iter(specs.values())))
    k, longest = config.speculative_config.num_speculative_tokens, config.model_config.max_model_len
    if wanted and fits:
        groups = kv_groups.packed(specs, kinds, k, longest)
    else:
        groups = stock(config, kv_groups.draft_windows(specs, kinds, k))
        one_page_size = len({group.kv_cache_spec.page_size_bytes for group in groups}) == 1
        if one_page_size and not any(isinstance(group.kv_cache_spec, UniformTypeKVCacheSpecs) for group in groups):
            groups = kv_groups.even(
                groups, lambda spec: -(-spec.max_memory_usage_bytes(config) // spec.page_size_bytes)
            )
    logger.info("KV cache groups: %s", describe(groups))
    return groups


def describe(groups: list[KVCacheGroupSpec]) -> str:
    """Groups that are alike together: how many, of how many layers, of what kind and block."""
    kinds: Counter[str] = Counter()
    for group in groups:
        spec = group.kv_cache_spec
        each = next(iter(spec.kv_cache_specs.values())) if isinstance(spec, UniformTypeKVCacheSpecs) else spec
        kinds[f"{len(group.layer_names)} {type(each).__name__} of {each.block_size} tokens"] += 1
    return "; ".join(f"{count} x {kind}" for kind, count in kinds.items())


def register_draft_window(any_spec: Any) -> None:
    KVCacheSpecRegistry.get_manager_class(any_spec)  # vLLM registers its own at the first question, and only if alone
    KVCacheSpecRegistry.register(DraftWindowSpec, DraftWindowManager)


def takes_whole_pages(backend: Any, spec: Any) -> bool:
    """Whether an attention backend reads this layer's pages, of any multiple of GRANULE, without splitting them."""
    sizes = [size for size in backend.get_supported_kernel_block_sizes(spec) if isinstance(size, MultipleOf)]
    return backend.is_ssm() or any(kv_groups.GRANULE % size.base == 0 for size in sizes)


def needed_of_backends(config: Any, specs: Mapping[str, Any]) -> str | None:
    """What packing lacks in the layers' attention backends; None: nothing."""
    for name, spec in specs.items():
        for backend in get_current_attn_backends(config, [name]):
            if not takes_whole_pages(backend, spec):
                return f"an attention backend that reads pages of {kv_groups.GRANULE} whole (here {backend.get_name()})"
    return None


def prefer_packing(worker: Any, layouts: list[str]) -> list[str]:
    """A worker's KV cache layouts, block-outermost ones first when its engine can be packed.

    Asked for before any cache is made, so the worker's recurrent layers learn to share a block here.
    Raises UserError where the user insists on packed groups and a backend or layout does not allow them.
    """
    config = worker.vllm_config
    if not drafts_with_us(config.speculative_config):
        return layouts
    specs = worker.get_kv_cache_spec()
    if not can_pack(config, specs, kinds_of(config, specs)):
        return layouts
    usable = [name for name in BLOCK_OUTERMOST if name in layouts]
    needed = needed_of_backends(config, specs) if usable else needed_layout(", ".join(layouts))
    if needed is None:
        recurrent_block.install()
        return usable + [name for name in layouts if name not in usable]
    if asked(config) == "packed":
        raise not_packed(needed)
    return layouts


def install() -> None:
    planning = planning_module()
    stock_groups, stock_layouts = planning.get_kv_cache_groups, WorkerBase.get_supported_kv_cache_layouts

    @functools.wraps(stock_groups)
    def get_kv_cache_groups(vllm_config: Any, kv_cache_spec: dict[str, Any]) -> list[KVCacheGroupSpec]:
        return plan(vllm_config, kv_cache_spec, stock_groups)

    @functools.wraps(stock_layouts)
    def get_supported_kv_cache_layouts(self: Any) -> list[str]:
        return prefer_packing(self, stock_layouts(self))

    planning.get_kv_cache_groups = get_kv_cache_groups
    WorkerBase.get_supported_kv_cache_layouts = get_supported_kv_cache_layouts
