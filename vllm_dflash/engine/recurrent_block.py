# SPDX-License-Identifier: Apache-2.0
"""One KV block a request for a gated-delta-net layer: its convolution state once, and its 1 + k recurrent states.

vLLM gives each of the 1 + k states that verification writes a block of its own, and every block has room for a
convolution state, of which only the first block's is used: at Qwen3.6-27B dimensions 265 MB a request for k = 15.

A block here is [convolution state | recurrent state 0 | ... | recurrent state k]. vLLM's kernels take one index for
both kinds of state, so both are viewed with one unit as the stride of that index, a common divisor of everything:
state j of block b stands at index b * units_per_block + j * units_per_state, the convolution state of block b at
b * units_per_block. The metadata builder's block table gets these indices.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

import torch
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.utils.torch_utils import get_dtype_size
from vllm.v1.kv_cache_interface import MambaSpec

GDN = "GDN_ATTN"


@dataclass(frozen=True)
class StateIndex:
    """Indices of a layer's states: see the module. offsets: int32 [1 + k], of a block's states from its first."""

    units_per_block: int
    offsets: torch.Tensor

    def of_blocks(self, block_table: torch.Tensor) -> torch.Tensor:
        """[requests, >= 1] block ids -> [requests, 1 + k] indices, in one launch; 0 leads to 0, the null index."""
        return torch.add(self.offsets, block_table[:, :1], alpha=self.units_per_block)


def bytes_of(shape: Sequence[int], dtype: torch.dtype) -> int:
    return prod(shape) * get_dtype_size(dtype)


def can_share_a_block(spec: Any) -> bool:
    """Whether this is a gated-delta-net layer with speculative states of its own, and no prefix caching."""
    return (
        isinstance(spec, MambaSpec)
        and spec.mamba_type.name == GDN
        and spec.mamba_cache_mode == "none"
        and spec.num_speculative_blocks > 0
        and spec.num_prefill_checkpoint_blocks == 0
        and len(spec.shapes) == 2
    )


def one_block(spec: MambaSpec) -> MambaSpec:
    """The same layer with all its states in one block."""
    convolution, recurrent = spec.shapes
    return replace(
        spec,
        shapes=(convolution, (1 + spec.num_speculative_blocks, *recurrent)),
        page_size_padded=None,
        num_speculative_blocks=0,
    )


def unit_views(
    pages: torch.Tensor, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]
) -> tuple[tuple[torch.Tensor, ...], StateIndex] | None:
    """Views of [blocks, bytes] int8 pages as (convolution, recurrent) states with the unit as stride of dimension 0.

    Returns None when a page holds one state of each kind (vLLM's own layout). The views overlap themselves: only
    the indices of StateIndex are states.
    """
    convolution, recurrent = (bytes_of(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
    blocks, page = pages.shape
    states = (page - convolution) // recurrent
    if states < 2:
        return None
    stride = pages.stride(0)
    unit = gcd(convolution, recurrent, stride)
    flat = pages.as_strided(((blocks - 1) * stride + page,), (1,))
    rows = [(flat.numel() - convolution - recurrent) // unit + 1] * 2
    views = []
    for offset, count, shape, dtype in zip((0, convolution), rows, shapes, dtypes, strict=True):
        size = get_dtype_size(dtype)
        typed = flat[: flat.numel() // size * size].view(dtype)
        inner = torch.empty(shape, device="meta").stride()
        views.append(typed.as_strided((count, *shape), (unit // size, *inner), typed.storage_offset() + offset // size))
    offsets = torch.arange(states, dtype=torch.int32, device=pages.device) * (recurrent // unit)
    return tuple(views), StateIndex(stride // unit, offsets)


def install() -> None:
    """Once in a worker: layers whose pages hold several states get unit views; their builders get state indices."""
    from vllm.v1.attention.backends.gdn_attn import GDNAttentionMetadataBuilder

    if hasattr(MambaBase.bind_kv_cache, "vllm_dflash"):
        return
    bind, build = MambaBase.bind_kv_cache, GDNAttentionMetadataBuilder.build
    update = GDNAttentionMetadataBuilder.update_block_table

    @functools.wraps(bind)
    def bind_kv_cache(self: Any, kv_cache: torch.Tensor) -> None:
        bind(self, kv_cache)
        self.vllm_dflash_states = None
        shapes, dtypes = tuple(self.get_state_shape()), tuple(self.get_state_dtype())
        if self.mamba_type.name != GDN or len(shapes) != 2:
            return
        found = unit_views(kv_cache.squeeze(dim=(1, 2)), shapes, dtypes)
        if found is not None:
            self.kv_cache, self.vllm_dflash_states = found

    def index_of(builder: Any) -> StateIndex | None:
        layers = builder.vllm_config.compilation_config.static_forward_context
        return getattr(layers[builder.layer_names[0]], "vllm_dflash_states", None)

    @functools.wraps(build)
    def build_with_states(self: Any, common_prefix_len: int, common_attn_metadata: Any, *args: Any, **kw: Any) -> Any:
        index = index_of(self)
        if index is not None:
            table = index.of_blocks(common_attn_metadata.block_table_tensor)
            common_attn_metadata = common_attn_metadata.replace(block_table_tensor=table)
        return build(self, common_prefix_len, common_attn_metadata, *args, **kw)

    @functools.wraps(update)
    def update_with_states(self: Any, metadata: Any, blk_table: torch.Tensor, slot_mapping: torch.Tensor) -> Any:
        index = index_of(self)
        return update(self, metadata, blk_table if index is None else index.of_blocks(blk_table), slot_mapping)

    bind_kv_cache.vllm_dflash = True  # type: ignore[attr-defined]
    MambaBase.bind_kv_cache = bind_kv_cache
    GDNAttentionMetadataBuilder.build = build_with_states
    GDNAttentionMetadataBuilder.update_block_table = update_with_states
