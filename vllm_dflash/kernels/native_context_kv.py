# SPDX-License-Identifier: Apache-2.0
"""Context K/V on the CPU, compiled: the calls. The kernel is csrc/cpu/context_kv_kernel.cpp.

`context_kv` computes what reference/context_kv.py computes, with the same roundings; `store` is the scatter alone.
"""

import ctypes
import weakref
from ctypes import c_float, c_int32, c_int64, c_void_p

import torch

from vllm_dflash.kernels import native
from vllm_dflash.kernels.context_kv_arguments import ContextLayers
from vllm_dflash.kernels.native_arguments import DTYPES, INTEGERS, require

MOST_HEAD_DIM = 1024  # kMostHeadDim of csrc/cpu/kernels.h


class _Layer(ctypes.Structure):
    """dflash_context_layer of csrc/include/dflash_cpu.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("key", "value", "norm_weight", "rope_table", "slots")),
        *((f"key_{name}_stride", c_int64) for name in ("block", "head", "slot")),
        *((f"value_{name}_stride", c_int64) for name in ("block", "head", "slot")),
        ("rope_row_stride", c_int64),
        *((name, c_int32) for name in ("blocks", "block_size", "rope_rows")),
    ]


class _Arguments(ctypes.Structure):
    """dflash_context_kv_args."""

    _fields_ = [
        *((name, c_void_p) for name in ("keys", "values", "positions", "layers")),
        *((f"key_{name}_stride", c_int64) for name in ("layer", "row", "head")),
        *((f"value_{name}_stride", c_int64) for name in ("layer", "row", "head")),
        *((name, c_int32) for name in ("layer_count", "rows", "kv_heads", "head_dim", "rotary_dim")),
        *((name, c_int32) for name in ("dtype", "cache_dtype", "position_bytes", "slot_bytes", "neox")),
        *((name, c_float) for name in ("eps", "factor")),
    ]


_tables: "weakref.WeakKeyDictionary[ContextLayers, ctypes.Array[_Layer]]" = weakref.WeakKeyDictionary()


def takes(layers: ContextLayers) -> bool:
    """Whether the compiled kernel can serve these layers: on the CPU, no fp8, heads of ordinary size."""
    known = layers.dtype in DTYPES and layers.cache_dtype in DTYPES
    return layers.device.type == "cpu" and known and layers.head_dim <= MOST_HEAD_DIM and native.problem() is None


def context_kv(
    keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, layers: ContextLayers
) -> None:
    """Norm, rotate, scale and store; arguments as context_kv_arguments.check_call has checked them.

    Raises UserError for a slot outside its cache; nothing is written then.
    """
    table = _tables.get(layers)
    if table is None:
        table = _tables[layers] = _table(layers)
    first, row, size = slots.data_ptr(), slots.stride(0), slots.element_size()
    for entry, layer in zip(table, layers.layers, strict=True):
        entry.slots = first + layer.group * row * size
    arguments = _Arguments(
        keys.data_ptr(),
        values.data_ptr(),
        positions.data_ptr(),
        ctypes.addressof(table),
        *keys.stride()[:3],
        *values.stride()[:3],
        len(table),
        keys.shape[1],
        layers.kv_heads,
        layers.head_dim,
        layers.rotary_dim,
        DTYPES[layers.dtype],
        DTYPES[layers.cache_dtype],
        positions.element_size(),
        size,
        layers.neox,
        layers.eps,
        layers.factor,
    )
    native.call("dflash_context_kv", arguments)


def store(key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slots: torch.Tensor) -> None:
    """Scatter K/V to their slots.

    Args:
        key, value: [N, kv_heads, head_dim] float32, bfloat16 or float16, last dimension contiguous.
        kv_cache: [blocks, kv_heads, block_size, 2 * head_dim], key first; its own dtype of those three.
        slots: [up to N] int64 or int32; negative: the row is left out; rows past them are too.

    Raises:
        UserError: a shape, dtype or stride that the kernel does not take, or a slot outside the cache.
    """
    require(
        ("key.dim()", key.dim(), (3,)), ("kv_cache.dim()", kv_cache.dim(), (4,)), ("slots.dim()", slots.dim(), (1,))
    )
    heads, head_dim = key.shape[1:]
    rows, cache_stride = len(slots), kv_cache.stride()
    require(
        ("key.dtype", key.dtype, DTYPES),
        ("value.dtype", value.dtype, (key.dtype,)),
        ("kv_cache.dtype", kv_cache.dtype, DTYPES),
        ("slots.dtype", slots.dtype, INTEGERS),
        ("value.shape", value.shape, (key.shape,)),
        ("kv_cache.shape[1]", kv_cache.shape[1], (heads,)),
        ("kv_cache.shape[3]", kv_cache.shape[3], (2 * head_dim,)),
        ("len(slots)", min(rows, len(key)), (rows,)),
        ("key.stride(-1)", key.stride(-1), (1,)),
        ("value.stride(-1)", value.stride(-1), (1,)),
        ("kv_cache.stride(-1)", cache_stride[3], (1,)),
        ("slots.stride(-1)", slots.stride(-1), (1,)),
        ("key.is_cpu", key.is_cpu and value.is_cpu and kv_cache.is_cpu and slots.is_cpu, (True,)),
    )
    if rows == 0:
        return
    base = kv_cache.data_ptr()
    layer = _Layer(
        base,
        base + head_dim * kv_cache.element_size(),
        None,
        None,
        slots.data_ptr(),
        *cache_stride[:3],
        *cache_stride[:3],
        0,
        kv_cache.shape[0],
        kv_cache.shape[2],
        0,
    )
    arguments = _Arguments(
        key.data_ptr(),
        value.data_ptr(),
        None,
        ctypes.addressof(layer),
        0,
        *key.stride()[:2],
        0,
        *value.stride()[:2],
        1,
        rows,
        heads,
        head_dim,
        0,
        DTYPES[key.dtype],
        DTYPES[kv_cache.dtype],
        8,
        slots.element_size(),
        True,
        0.0,
        1.0,
    )
    native.call("dflash_context_kv", arguments)


def _table(layers: ContextLayers) -> "ctypes.Array[_Layer]":
    entries = [
        _Layer(
            layer.key_cache.data_ptr(),
            layer.value_cache.data_ptr(),
            layer.norm_weight.data_ptr(),
            layer.rope_table.data_ptr(),
            None,
            *layer.key_cache.stride()[:3],
            *layer.value_cache.stride()[:3],
            layer.rope_table.stride(0),
            layer.key_cache.shape[0],
            layer.key_cache.shape[2],
            layer.rope_table.shape[0],
        )
        for layer in layers.layers
    ]
    return (_Layer * len(entries))(*entries)
