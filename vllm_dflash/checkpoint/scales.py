# SPDX-License-Identifier: Apache-2.0
"""Factors around embedding, head and attention values, and attention sinks.

`input_embedding_scale`, `output_multiplier`, `final_logit_softcapping`: z-lab dflash 0.1.0, at top level
or in `dflash_config`. `logit_scale`: vLLM's name for the second. Without a key of its own a native
drafter borrows what its target's family puts on the embeddings and logits it shares (Gemma; z-lab's
reference calls the target's own modules). The speculators trainer embeds with the target's bare matrix
and caps nothing.
"""

from typing import NamedTuple

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.checkpoint.raw import RawCheckpoint
from vllm_dflash.checkpoint.section import Answer, agree, default
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.checkpoint.vocabulary import Vocabulary
from vllm_dflash.errors import UserError

SINK = "attention_sink_bias"


class Scales(NamedTuple):
    embed_scale: Answer[float]
    logit_scale: Answer[float]
    logit_softcap: Answer[float] | Answer[None]
    value_scale: Answer[float]
    attention_sinks: Answer[bool]


def resolve_scales(raw: RawCheckpoint, target: TargetConfig | None, vocabulary: Vocabulary) -> Scales:
    places = (raw.dflash, raw.top, raw.layer)

    def either(key: str, positive: bool = True) -> Answer[float] | None:
        return agree(key, raw.path, *(place.number(key, positive) for place in places))

    shared = None if raw.speculators else target
    return Scales(
        embed_scale=either("input_embedding_scale")
        or _target_embed_scale(shared, vocabulary.own_embed_tokens.value),
        logit_scale=agree("the logit scale", raw.path, either("output_multiplier"), either("logit_scale"))
        or default(1.0, "no scale is written"),
        logit_softcap=_softcap(either("final_logit_softcapping", positive=False))
        or _target_softcap(shared, vocabulary.own_lm_head.value),
        value_scale=either("attention_value_scale") or default(1.0, "no scale is written"),
        attention_sinks=_sinks(raw),
    )


def _target_embed_scale(target: TargetConfig | None, own_embedding: bool) -> Answer[float]:
    if target is None or own_embedding or target.embed_scale == 1.0:
        return default(1.0, "no scale is written")
    return default(target.embed_scale, f"the {target.model_type} target scales the embeddings that it shares")


def _softcap(written: Answer[float] | None) -> Answer[float] | Answer[None] | None:
    return Answer(None, written.source) if written is not None and written.value <= 0 else written


def _target_softcap(target: TargetConfig | None, own_head: bool) -> Answer[float] | Answer[None]:
    if target is None or own_head or target.logit_softcap is None:
        return default(None, "no cap is written")
    return default(target.logit_softcap, "final_logit_softcapping of the target, whose head is shared")


def _sinks(raw: RawCheckpoint) -> Answer[bool]:
    written = raw.dflash.boolean(SINK) or raw.top.boolean("add_swa_attention_sink_bias")
    stored = raw.tensors.ending(f"self_attn.{SINK}")
    if stored:
        return Answer(True, Source(raw.tensors.infos[stored[0]].file, stored[0], "the tensor is there"))
    if written is not None and written.value and raw.tensors.complete:
        raise UserError(
            "the config asks for attention sinks and the weights have none",
            field=written.source.key,
            found=True,
            needed=f"tensors layers.<i>.self_attn.{SINK}, or false",
            file=raw.path,
        )
    return written or default(False, "no sinks are written")
