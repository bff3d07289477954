# SPDX-License-Identifier: Apache-2.0
"""KV cache groups for a hybrid target with a drafter.

vLLM splits a hybrid's layers into groups of one size, the smallest kind's count. A drafter adds a small kind of its
own, and the memory goes into padding or into one group a layer. Two plans, by what the engine allows:

packed: without prefix caching, on backends that take whole pages, and blocks as the outermost dimension. One group
    for everything that attends to the whole context, one for the drafter's windows (draft_window.py), one block a
    request for each recurrent layer (recurrent_block.py). The block holds a recurrent layer's states, and as many
    tokens of the other groups as fill it best.
even: in every other case. vLLM's groups of one size, the size chosen for the memory of a full-length request; the
    drafter's windows apart from the rest here too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    UniformTypeKVCacheSpecs,
    replace_as,
)

from vllm_dflash.engine.draft_window import DraftWindowSpec, slack
from vllm_dflash.engine.recurrent_block import can_share_a_block, one_block

Specs = Mapping[str, KVCacheSpec]
GRANULE = 32  # tokens; pages of every backend that can be packed are multiples of it


@dataclass(frozen=True)
class Kinds:
    """Layer names: attention over the whole context, the drafter's windows (with their window), recurrent."""

    full: tuple[str, ...]
    windows: dict[str, int]
    recurrent: tuple[str, ...]

    @classmethod
    def of(cls, specs: Specs, windows: Mapping[str, int]) -> "Kinds | None":
        """None when there is a layer of another kind, or the target is no hybrid."""
        recurrent = tuple(n for n, s in specs.items() if isinstance(s, MambaSpec))
        attention = {n: s for n, s in specs.items() if type(s) is FullAttentionSpec}
        if not recurrent or not attention or len(recurrent) + len(attention) != len(specs):
            return None
        inside = {n: w for n, w in windows.items() if n in attention}
        return cls(tuple(n for n in attention if n not in inside), inside, recurrent)


def can_pack(specs: Specs, kinds: Kinds) -> bool:
    return bool(kinds.full) and all(can_share_a_block(specs[n]) for n in kinds.recurrent)


def token_bytes(spec: AttentionSpec) -> int:
    return spec.unpadded_page_size_bytes // spec.block_size


def resized(spec: KVCacheSpec, block_size: int) -> KVCacheSpec:
    return replace(spec, block_size=block_size, page_size_padded=None)


def group(specs: Specs) -> KVCacheGroupSpec:
    together = UniformTypeKVCacheSpecs.from_specs(dict(specs))
    assert together is not None, f"layers that cannot share a block table: {list(specs)}"
    return KVCacheGroupSpec(list(specs), together)


def packed(specs: Specs, kinds: Kinds, k: int, max_model_len: int) -> list[KVCacheGroupSpec]:
    """The plan with the least memory for a request of max_model_len tokens."""
    recurrent = {n: one_block(specs[n]) for n in kinds.recurrent}
    state_bytes = max(spec.page_size_bytes for spec in recurrent.values())
    full_bytes = sum(token_bytes(specs[n]) for n in kinds.full)
    window_bytes = sum(token_bytes(specs[n]) for n in kinds.windows)
    behind = min(max(kinds.windows.values(), default=0) + slack(k), max_model_len)

    def window_page(block_bytes: int) -> int:
        return block_bytes // window_bytes // GRANULE * GRANULE

    def request_bytes(full_page: int) -> int:
        block_bytes = max(state_bytes, full_page * full_bytes)
        blocks = len(recurrent) + -(-max_model_len // full_page)
        if window_bytes:
            blocks += -(-behind // window_page(block_bytes)) + 1
        return blocks * block_bytes

    pages = range(GRANULE, max(max_model_len, 2 * GRANULE) + GRANULE, GRANULE)
    fitting = [p for p in pages if not window_bytes or p * full_bytes >= GRANULE * window_bytes]
    full_page = min(fitting, key=request_bytes)
    block_bytes = max(state_bytes, full_page * full_bytes)
    groups = [group({n: resized(specs[n], full_page) for n in kinds.full})]
    if window_bytes:
        page = min(window_page(block_bytes), -(-max_model_len // GRANULE) * GRANULE)
        groups.append(group(draft_windows({n: resized(specs[n], page) for n in kinds.windows}, kinds, k)))
    return groups + [KVCacheGroupSpec([name], spec) for name, spec in recurrent.items()]


def draft_windows(specs: Specs, kinds: Kinds, k: int) -> dict[str, KVCacheSpec]:
    """The specs with those of the drafter's windowed layers replaced; one window, the widest, makes one group."""
    of_full_attention_only = ("attention_chunk_size", "non_causal")
    widest = {"sliding_window": max(kinds.windows.values(), default=0), "extra_retained_tokens": slack(k)}
    return {
        n: replace_as(spec, DraftWindowSpec, drop=of_full_attention_only, **widest) if n in kinds.windows else spec
        for n, spec in specs.items()
    }


def even(groups: list[KVCacheGroupSpec], blocks_of: Callable[[KVCacheSpec], int]) -> list[KVCacheGroupSpec]:
    """vLLM's groups, split anew: as many layers in each as costs the least memory.

    groups: of one page size. blocks_of: blocks that one group needs for a full-length request.
    """
    layers: dict[KVCacheSpec, list[str]] = {}
    for old in groups:
        layers.setdefault(old.kv_cache_spec, []).extend(old.layer_names)
    needed = {spec: blocks_of(spec) for spec in layers}

    def cost(size: int) -> int:
        return size * sum(-(-len(names) // size) * needed[spec] for spec, names in layers.items())

    sizes = range(1, max(map(len, layers.values())) + 1)
    size = max(s for s in sizes if cost(s) == min(map(cost, sizes)))
    return [
        KVCacheGroupSpec(names[i::count], spec)
        for spec, names in layers.items()
        for count in [-(-len(names) // size)]
        for i in range(count)
    ]
