# SPDX-License-Identifier: Apache-2.0
"""Tokens that a trainer may have used as mask."""

from vllm_dflash.fit.loaded_target import LoadedTarget
from vllm_dflash.train.mask_token import PREFERRED

SMALL_VOCABULARY = 512
BEYOND_TOKENIZER = 32


def mask_candidates(target: LoadedTarget) -> tuple[int, ...]:
    """Added and special tokens, some rows beyond the tokenizer, or every id of a small vocabulary.

    Those that the words in PREFERRED name come first, then other added tokens, then the rest.
    """
    tokenizer, vocabulary = target.tokenizer, target.config.vocab_size
    added = {i: str(token.content) for i, token in tokenizer.added_tokens_decoder.items() if i < vocabulary}
    roles = set(target.eos) | {
        i for i in (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id) if i is not None
    }
    rest = set(range(vocabulary)) if vocabulary <= SMALL_VOCABULARY else roles
    beyond = range(len(tokenizer), vocabulary)
    rest |= set(beyond[:: max(1, len(beyond) // BEYOND_TOKENIZER)])

    def rank(token: int) -> tuple[int, int]:
        name = added.get(token, "").lower()
        word = next((n for n, word in enumerate(PREFERRED) if word in name), len(PREFERRED))
        return word + (token in roles) + 2 * (token not in added), token

    return tuple(sorted(set(added) | {i for i in rest if i < vocabulary}, key=rank))
