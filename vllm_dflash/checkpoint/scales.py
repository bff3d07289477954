# SPDX-License-Identifier: Apache-2.0
"""Factors around embedding, head and attention values, and attention sinks.

`input_embedding_scale`, `output_multiplier`, `final_logit_softcapping`: z-lab dflash 0.1.0, at top level or in
`dflash_config`. `logit_scale`: vLLM's name for the second. Without a key of its own a drafter borrows what its
target's family puts on the embeddings and logits it shares (Gemma).
"""

from typing import NamedTuple

from vllm_dflash.checkpoint.draft_config import Source
from vllm_dflash.checkpoint.section import Answer, Section, agree, default
from vllm_dflash.checkpoint.target_config import TargetConfig
from vllm_dflash.checkpoint.tensors import Tensors
from vllm_dflash.errors import UserError

SINK = "attention_sink_bias"


class Scales(NamedTuple):
    embed_scale: Answer[float]
    logit_scale: Answer[float]
    logit_softcap: Answer[float] | Answer[None]
    value_scale: Answer[float]
    attention_sinks: Answer[bool]


def resolve_scales(
    config: Section,
    dflash: Section,
    tensors: Tensors,
    target: TargetConfig | None,
    own_head: bool,
    own_embedding: bool,
) -> Scales:
    def either(key: str) -> Answer[float] | None:
        return agree(key, config.path, dflash.number(key, positive=False), config.number(key, positive=False))

    return Scales(
        embed_scale=either("input_embedding_scale") or _target_embed_scale(target, own_embedding),
        logit_scale=agree(
            "the scale of the logits", config.path, either("output_multiplier"), either("logit_scale")
        )
        or default(1.0, "no scale is written"),
        logit_softcap=either("final_logit_softcapping") or _target_softcap(target, own_head),
        value_scale=either("attention_value_scale") or default(1.0, "no scale is written"),
        attention_sinks=_sinks(config, dflash, tensors),
    )


def _target_embed_scale(target: TargetConfig | None, own_embedding: bool) -> Answer[float]:
    if target is None or own_embedding or target.embed_scale == 1.0:
        return default(1.0, "no scale is written")
    return default(target.embed_scale, f"the {target.model_type} target scales the embeddings that it shares")


def _target_softcap(target: TargetConfig | None, own_head: bool) -> Answer[float] | Answer[None]:
    if target is None or own_head or target.logit_softcap is None:
        return default(None, "no cap is written")
    return default(target.logit_softcap, "final_logit_softcapping of the target, whose head is shared")


def _sinks(config: Section, dflash: Section, tensors: Tensors) -> Answer[bool]:
    written = dflash.boolean(SINK) or config.boolean("add_swa_attention_sink_bias")
    stored = tensors.ending(f"self_attn.{SINK}")
    if stored:
        return Answer(True, Source(tensors.infos[stored[0]].file, stored[0], "the tensor is there"))
    if written is not None and written.value and tensors.complete:
        raise UserError(
            "the config asks for attention sinks and the weights have none",
            field=written.source.key,
            found=True,
            needed=f"tensors layers.<i>.self_attn.{SINK}, or false",
            file=config.path,
        )
    return written or default(False, "no sinks are written")
