# SPDX-License-Identifier: Apache-2.0
"""The last cached block of a prefix stays cached with our drafter.

EAGLE-like drafters compute a position's K/V from its hidden state and the token after it, so the K/V of a cached
block's last position depends on a token outside the block, and vLLM drops the block at each hit. DFlash computes it
from the target's hidden state alone. vLLM 0.33 knows that; 0.32 drops the block all the same, and where recurrent
states are cached at block boundaries only (gated-delta-net hybrids) that costs most hits, in `find_longest_cache_hit`
and in `Scheduler._mamba_block_aligned_split`. Both ask `SpeculativeConfig.use_eagle_block_drop`.
"""

import functools

from vllm.config.speculative import SpeculativeConfig

from vllm_dflash.engine.model_hook import drafts_with_us


def install() -> None:
    original = SpeculativeConfig.use_eagle_block_drop

    @functools.wraps(original)
    def use_eagle_block_drop(self: SpeculativeConfig) -> bool:
        return original(self) and not drafts_with_us(self)

    SpeculativeConfig.use_eagle_block_drop = use_eagle_block_drop
