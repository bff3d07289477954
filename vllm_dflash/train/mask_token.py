# SPDX-License-Identifier: Apache-2.0
"""The token that stands for "to be drafted". It must never occur in text."""

from vllm_dflash.errors import UserError
from vllm_dflash.train.answers import Answers
from vllm_dflash.train.target_model import FrozenTarget

PREFERRED = ("mask", "reserved", "unused", "empty_output", "reponame", "extra", "fim", "file", "repo")


def pick_mask_token(text: str, target: FrozenTarget, answers: Answers | None) -> tuple[int, str]:
    """The mask token id and its name, from "auto" or an id.

    "auto" takes an added token that occurs neither in the training data nor in the chat template and has no
    other role, by the words in PREFERRED, then the highest id; failing that, a row beyond the tokenizer.

    Raises:
        UserError: not an id, an id outside the vocabulary, or no unused token.
    """
    vocabulary, tokenizer = target.shape.vocabulary, target.tokenizer
    if text != "auto":
        if not text.isdigit() or int(text) >= vocabulary:
            raise UserError(
                "the mask token is not in the vocabulary", field="mask_token", found=text,
                needed=f"auto or 0 to {vocabulary - 1}",
            )  # fmt: skip
        return int(text), str(tokenizer.convert_ids_to_tokens(int(text)))
    used = set(target.eos) | (set(answers.tokens.tolist()) if answers else set())
    used |= {
        i for i in (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id) if i is not None
    }
    added = {
        index: token.content
        for index, token in tokenizer.added_tokens_decoder.items()
        if index < vocabulary and index not in used and token.content not in tokenizer.chat_template
    }
    for word in PREFERRED:
        for index in sorted(added):
            if word in added[index].lower():
                return index, added[index]
    if added:
        return max(added), added[max(added)]
    for index in range(vocabulary - 1, len(tokenizer) - 1, -1):
        if index not in used:
            return index, "a row beyond the tokenizer"
    raise UserError("no unused token to serve as mask", field="mask_token", found="auto", needed="an id")
