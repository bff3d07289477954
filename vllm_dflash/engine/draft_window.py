# SPDX-License-Identifier: Apache-2.0
"""KV pages of windowed draft layers: those that a draft can still read, and no others.

vLLM's sliding-window manager keeps every page of a prefill chunk until the chunk is processed, and reserves for it.
A target layer needs that, for the chunk's first row reads back from its own position. A draft layer does not: it is
read from the anchor only, behind the chunk's last token. So the pages of a chunk that end before the anchor's window
are never allocated. Their slots fall on the null block, which nothing reads.

A cached prefix needs the window's pages at its end. Recurrent states are cached where a chunk ends, and there they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vllm.v1.core.single_type_kv_cache_manager import SlidingWindowManager
from vllm.v1.kv_cache_interface import SlidingWindowSpec


def slack(k: int) -> int:
    """Tokens kept behind the window, for what rejections may move a draft back by.

    The last slot of a step is at most 2k + 3 behind its first position (k drafts and the block's rows), which
    asynchronous scheduling may have put k too far, and the step after may stand k before this one: 4k + 3.
    """
    return 4 * (k + 1)


@dataclass(frozen=True, kw_only=True)
class DraftWindowSpec(SlidingWindowSpec):
    """`sliding_window` is the layer's window, `extra_retained_tokens` the slack."""

    @property
    def behind(self) -> int:
        """Tokens before the last slot of a step that stay."""
        return self.sliding_window + self.extra_retained_tokens

    def max_admission_blocks_per_request(self, max_in_flight_tokens: int, max_model_len: int) -> int:
        """Pages that a request holds at most: its window's, however long the chunks are."""
        return -(-min(self.behind, max_model_len) // self.block_size) + 1


class DraftWindowManager(SlidingWindowManager):
    kv_cache_spec: DraftWindowSpec

    def _first_kept(self, num_tokens: int) -> int:
        """Index of the first page that a step whose slots end at num_tokens keeps."""
        return max(0, num_tokens - self.kv_cache_spec.behind) // self.block_size

    def get_num_blocks_to_allocate(
        self, request_id: str, num_tokens: int, new_computed_blocks: Sequence[Any], *args: Any, **kwargs: Any
    ) -> int:
        stock = super().get_num_blocks_to_allocate(request_id, num_tokens, new_computed_blocks, *args, **kwargs)
        known = len(new_computed_blocks) + len(self.req_to_blocks.get(request_id, ()))
        fresh = -(-num_tokens // self.block_size) - max(self._first_kept(num_tokens), known)
        return min(stock, max(0, fresh) + self._get_num_evictable_blocks(new_computed_blocks))

    def allocate_new_blocks(self, request_id: str, num_tokens: int, num_tokens_main_model: int) -> list[Any]:
        blocks = self.req_to_blocks[request_id]
        first = self._first_kept(num_tokens)
        self._remove_blocks_in_range(request_id, 0, min(first, len(blocks)))
        skipped = [self._null_block] * (first - len(blocks))
        blocks.extend(skipped)
        return skipped + super().allocate_new_blocks(request_id, num_tokens, num_tokens_main_model)
