# SPDX-License-Identifier: Apache-2.0
"""Arguments of the context_kv kernel: the draft layers' addresses on the device, and the checks of a call."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from vllm_dflash.errors import UserError
from vllm_dflash.reference.context_kv import FP8, ContextLayer

COLUMNS = 16  # of the device table, see ContextLayers._row
CACHE_DTYPES = (torch.float32, torch.float16, torch.bfloat16, FP8)


class ContextLayers:
    """The draft layers' caches, weights and tables, checked, with their addresses on the device.

    Built once, outside CUDA graphs, and again only when a cache moves (`addresses` tells). Holds references to
    everything that the device table points to.
    """

    def __init__(
        self, layers: Sequence[ContextLayer], dtype: torch.dtype, *, eps: float, neox: bool = True, factor: float = 1.0
    ) -> None:
        """dtype: of keys and values. Raises UserError for what the kernel cannot do."""
        _check_layers(layers, dtype)
        self.eps, self.neox, self.factor, self.dtype = eps, neox, factor, dtype
        self.layers = [_with_dtype(layer, dtype) for layer in layers]
        self.addresses = cache_addresses([(layer.key_cache, layer.value_cache) for layer in layers])
        first = layers[0].key_cache
        self.kv_heads, self.head_dim, self.cache_dtype = first.shape[1], first.shape[3], first.dtype
        self.rotary_dim, self.device = layers[0].rope_table.shape[1], first.device
        self.groups = max(layer.group for layer in layers) + 1
        self._one = torch.ones(1, dtype=torch.float32, device=self.device)
        entries = [self._row(layer) for layer in self.layers]
        self.aligned = _alignment(entries, self.cache_dtype.itemsize, (0, 1), range(2, 8))
        self.weights_aligned = _alignment(entries, dtype.itemsize, (9, 10), (11,))
        self.table = torch.tensor(entries, dtype=torch.int64, device=self.device)

    def _row(self, layer: ContextLayer) -> list[int]:
        key, value, one = layer.key_cache, layer.value_cache, self._one
        return [
            key.data_ptr(),
            value.data_ptr(),
            *key.stride()[:3],
            *value.stride()[:3],
            key.shape[2],
            layer.norm_weight.data_ptr(),
            layer.rope_table.data_ptr(),
            layer.rope_table.stride(0),
            layer.group,
            (one if layer.key_scale is None else layer.key_scale).data_ptr(),
            (one if layer.value_scale is None else layer.value_scale).data_ptr(),
            layer.rope_table.shape[0] - 1,
        ]


def cache_addresses(caches: Sequence[tuple[torch.Tensor, ...]]) -> tuple[int, ...]:
    """Where the caches are: compare to know whether ContextLayers must be built anew."""
    return tuple(tensor.data_ptr() for pair in caches for tensor in pair)


def _with_dtype(layer: ContextLayer, dtype: torch.dtype) -> ContextLayer:
    """Weights in the activation dtype, as vLLM's sequence takes them; a copy only where they are not."""
    return ContextLayer(
        layer.key_cache,
        layer.value_cache,
        layer.norm_weight.to(dtype),
        layer.rope_table.to(dtype),
        layer.group,
        layer.key_scale,
        layer.value_scale,
    )


def _alignment(table: list[list[int]], itemsize: int, addresses: Iterable[int], strides: Iterable[int]) -> int:
    """Elements, at most 16 bytes' worth, by which what these columns hold is aligned: a power of two."""
    byte_counts = [row[i] for row in table for i in addresses]
    byte_counts += [row[i] * itemsize for row in table for i in strides]
    return math.gcd(16, *byte_counts) // itemsize


def _bad(message: str, field: str, found: object, needed: str) -> UserError:
    return UserError(f"context_kv: {message}", field=field, found=found, needed=needed)


def _check_layers(layers: Sequence[ContextLayer], dtype: torch.dtype) -> None:
    if not layers:
        raise _bad("no layers", "layers", list(layers), "one or more")
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise _bad("no kernel for this activation dtype", "dtype", dtype, "float32, float16 or bfloat16")
    first = layers[0]
    if first.key_cache.dim() != 4:
        found = tuple(first.key_cache.shape)
        raise _bad("not a cache", "layers[0].key_cache.shape", found, "[blocks, kv_heads, block_size, head_dim]")
    heads, head_dim = first.key_cache.shape[1], first.key_cache.shape[3]
    rotary_dim = first.rope_table.shape[-1]
    for i, layer in enumerate(layers):
        for name, cache in (("key_cache", layer.key_cache), ("value_cache", layer.value_cache)):
            place = f"layers[{i}].{name}"
            if cache.dim() != 4 or (cache.shape[1], cache.shape[3]) != (heads, head_dim):
                needed = f"[blocks, {heads}, block_size, {head_dim}]"
                raise _bad("a cache of another shape", f"{place}.shape", tuple(cache.shape), needed)
            if cache.dtype != first.key_cache.dtype or cache.dtype not in CACHE_DTYPES:
                raise _bad("no kernel for this cache dtype", f"{place}.dtype", cache.dtype, _dtypes(first))
            if cache.stride(3) != 1:
                raise _bad("a head must be contiguous", f"{place}.stride()", cache.stride(), "last stride 1")
            if cache.device != first.key_cache.device:
                raise _bad("caches on two devices", f"{place}.device", cache.device, str(first.key_cache.device))
            if cache.shape[0] * cache.shape[2] >= 2**31:
                raise _bad("too many slots", f"{place}.shape", tuple(cache.shape), "blocks * block_size below 2^31")
        if layer.key_cache.shape != layer.value_cache.shape:
            shapes = tuple(layer.key_cache.shape), tuple(layer.value_cache.shape)
            raise _bad("key and value cache differ", f"layers[{i}]", shapes, "equal shapes")
        if layer.norm_weight.shape != (head_dim,) or not layer.norm_weight.is_contiguous():
            found = tuple(layer.norm_weight.shape)
            raise _bad("not a K-norm weight", f"layers[{i}].norm_weight.shape", found, f"contiguous [{head_dim}]")
        width = layer.rope_table.shape[-1]
        if layer.rope_table.dim() != 2 or width != rotary_dim or width % 2 or not 0 < width <= head_dim:
            needed = f"[positions, rotary_dim], rotary_dim even, at most {head_dim} and the same in every layer"
            raise _bad("not a rope table", f"layers[{i}].rope_table.shape", tuple(layer.rope_table.shape), needed)
        if layer.rope_table.stride(1) != 1:
            found = layer.rope_table.stride()
            raise _bad("not a rope table", f"layers[{i}].rope_table.stride()", found, "last stride 1")
        if layer.group < 0:
            raise _bad("not a group", f"layers[{i}].group", layer.group, "0 or more")
        for name, scale in (("key_scale", layer.key_scale), ("value_scale", layer.value_scale)):
            if scale is not None and (scale.numel() != 1 or scale.dtype != torch.float32):
                kind = scale.dtype, tuple(scale.shape)
                raise _bad("not a scale", f"layers[{i}].{name}", kind, "one float32")
    _check_fp8(first.key_cache)


def _check_fp8(cache: torch.Tensor) -> None:
    if cache.dtype == FP8 and cache.device.type == "cuda" and torch.cuda.get_device_capability(cache.device) < (8, 9):
        found = "sm_{}{}".format(*torch.cuda.get_device_capability(cache.device))
        raise _bad("this GPU does not convert to fp8", "cache dtype", f"{cache.dtype} on {found}", "sm_89 or later")


def _dtypes(first: ContextLayer) -> str:
    known = ", ".join(str(dtype).removeprefix("torch.") for dtype in CACHE_DTYPES)
    return f"one of {known}; the same in every layer (first: {first.key_cache.dtype})"


def check_call(
    keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, layers: ContextLayers
) -> None:
    count, heads, head_dim = len(layers.layers), layers.kv_heads, layers.head_dim
    named: tuple[tuple[str, torch.Tensor], ...] = (("keys", keys), ("values", values))
    for name, tensor in named:
        shape: tuple[Any, ...] = tuple(tensor.shape)
        if tensor.dim() != 4 or (shape[0], shape[2], shape[3]) != (count, heads, head_dim):
            raise _bad("not this drafter's K/V", f"{name}.shape", shape, f"[{count}, N, {heads}, {head_dim}]")
        if tensor.dtype != layers.dtype:
            raise _bad("another dtype than the layers were built for", f"{name}.dtype", tensor.dtype, str(layers.dtype))
        if tensor.stride(3) != 1:
            raise _bad("a head must be contiguous", f"{name}.stride()", tensor.stride(), "last stride 1")
    rows = keys.shape[1]
    if values.shape[1] != rows:
        raise _bad("keys and values differ", "values.shape", tuple(values.shape), f"{rows} rows")
    if positions.shape != (rows,) or positions.dtype not in (torch.int32, torch.int64):
        found = tuple(positions.shape), positions.dtype
        raise _bad("not the rows' positions", "positions", found, f"[{rows}] int64 or int32")
    if slots.dim() != 2 or slots.shape[1] != rows or slots.shape[0] < layers.groups:
        needed = f"[groups, N] with {layers.groups} groups or more, {rows} rows"
        raise _bad("not the rows' slots", "slots.shape", tuple(slots.shape), needed)
    if slots.dtype not in (torch.int32, torch.int64) or (
        rows > 1 and (slots.stride(1) != 1 or positions.stride(0) != 1)
    ):
        dense = slots.dtype, slots.stride(), positions.stride()
        raise _bad("slots and positions must be dense", "slots", dense, "int64 or int32, stride 1 over rows")
    for name, tensor in (*named, ("positions", positions), ("slots", slots)):
        if tensor.device != layers.device:
            raise _bad("another device than the caches'", f"{name}.device", tensor.device, str(layers.device))
