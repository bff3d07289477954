# SPDX-License-Identifier: Apache-2.0
"""Context K/V of the draft model through our kernel: vLLM's projection before it, all layers' pages behind it."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from vllm_dflash.kernels import context_kv as kernel
from vllm_dflash.kernels.context_kv import context_kv
from vllm_dflash.kernels.context_kv_arguments import CACHE_DTYPES, ContextLayers, cache_addresses
from vllm_dflash.plugin import logger
from vllm_dflash.reference.context_kv import FP8, ContextLayer


def by_group(slots: torch.Tensor | Sequence[torch.Tensor], layers: int) -> tuple[torch.Tensor, tuple[int, ...]]:
    """([groups, N] slots, the row of each layer), from one tensor [N] or one for each layer.

    Rows of one buffer, as the runners keep them, become a view of it.
    """
    if isinstance(slots, torch.Tensor):
        return slots[None], (0,) * layers
    addresses = [each.data_ptr() for each in slots]
    distinct = sorted(set(addresses))
    first = slots[addresses.index(distinct[0])]
    if len(distinct) == 1:
        return first[None], (0,) * layers
    apart = math.gcd(*(address - distinct[0] for address in distinct))
    buffers = {each.untyped_storage().data_ptr() for each in slots}
    if len(buffers) == 1 and apart % first.itemsize == 0 and first.stride(0) == 1:
        rows = tuple((address - distinct[0]) // apart for address in addresses)
        return first.as_strided((max(rows) + 1, first.shape[0]), (apart // first.itemsize, 1)), rows
    stacked = torch.stack([slots[addresses.index(address)] for address in distinct])
    return stacked, tuple(distinct.index(address) for address in addresses)


class ContextStore:
    """One draft model's context K/V kernel, with what it needs to know of each layer."""

    def __init__(self, attentions: Sequence[Any], kernels: str = "auto") -> None:
        """attentions: vLLM's DFlashQwen3Attention of each draft layer; kernels: as in Options."""
        self.attentions, self.plain = attentions, kernels == "torch"
        self._built: dict[tuple[Any, ...], ContextLayers] = {}
        self._addresses: tuple[int, ...] = ()
        self._problem: str | None = None

    def problem(self) -> str | None:
        """Why the kernel cannot serve the caches as they are now, or None. Looks again only when a cache moved."""
        addresses = cache_addresses([(attention.attn.kv_cache,) for attention in self.attentions])
        if addresses != self._addresses:
            self._built, self._addresses, self._problem = {}, addresses, self._look()
        return self._problem

    def _look(self) -> str | None:
        first = self.attentions[0]
        for attention in self.attentions:
            layer, heads, dim = attention.attn, attention.num_kv_heads, attention.head_dim
            cache = self._cache(layer)
            if cache.dim() != 4 or (cache.shape[1], cache.shape[3]) != (heads, 2 * dim) or cache.stride(3) != 1:
                return f"{layer.layer_name} has a cache of shape {tuple(cache.shape)}, strides {cache.stride()}"
            if cache.dtype not in CACHE_DTYPES:
                return f"{layer.layer_name} has a cache of kind {layer.kv_cache_dtype} ({cache.dtype})"
            if attention.rotary_emb.cos_sin_cache.shape[1] != first.rotary_emb.cos_sin_cache.shape[1]:
                return "its layers rotate different numbers of dimensions"
        return None

    def store(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor | Sequence[torch.Tensor],
    ) -> None:
        """keys, values: [layers, N, kv_heads, head_dim] as projected; slots: [N], or one such tensor a layer.

        `problem` must have been None.
        """
        rows, groups = by_group(slots, len(self.attentions))
        layers = self._built.get((groups, keys.dtype))
        if layers is None:
            layers = self._built[groups, keys.dtype] = self._build(groups, keys.dtype)
            if layers.device.type == "cuda":
                kernel.compile_for(keys, values, positions, rows, layers)
        context_kv(keys, values, positions, rows, layers, plain=self.plain)

    def _build(self, groups: tuple[int, ...], dtype: torch.dtype) -> ContextLayers:
        layers = []
        for attention, group in zip(self.attentions, groups, strict=True):
            cache, dim = self._cache(attention.attn), attention.head_dim
            scaled = cache.dtype == FP8
            layers.append(
                ContextLayer(
                    cache[..., :dim],
                    cache[..., dim:],
                    attention.k_norm.weight.data,
                    attention.rotary_emb.cos_sin_cache,
                    group,
                    attention.attn._k_scale if scaled else None,
                    attention.attn._v_scale if scaled else None,
                )
            )
        first = self.attentions[0]
        factor = getattr(first, "v_scale", None)
        logger.debug("context K/V of %d draft layers through our kernel, KV groups %s", len(layers), groups)
        return ContextLayers(
            layers,
            dtype,
            eps=first.k_norm.variance_epsilon,
            neox=first.rotary_emb.is_neox_style,
            factor=1.0 if factor is None else factor,
        )

    @staticmethod
    def _cache(layer: Any) -> torch.Tensor:
        """The layer's pages; vLLM keeps fp8 as bytes."""
        cache: torch.Tensor = layer.kv_cache
        return cache.view(FP8) if layer.kv_cache_dtype in ("fp8", "fp8_e4m3") else cache
