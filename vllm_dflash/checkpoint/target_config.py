# SPDX-License-Identifier: Apache-2.0
"""What DFlash needs to know about the target model, from its raw config.json."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from vllm_dflash.checkpoint.json_file import read_json_object
from vllm_dflash.checkpoint.location import locate
from vllm_dflash.checkpoint.section import Section
from vllm_dflash.errors import UserError

T = TypeVar("T")
CAUSAL_ENDINGS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ChatModel")
TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
GEMMA = "gemma"
RECURRENT_KEYS = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "mamba_d_state",
    "ssm_state_size",
    "mamba_n_heads",
)
RECURRENT_LAYER_TYPES = ("linear_attention", "mamba", "mamba2", "recurrent", "conv")


@dataclass(frozen=True)
class TargetConfig:
    """A causal language model's dimensions; for multimodal wrappers, those of its text part.

    rope_theta: base of the full-attention layers, None when the config does not say.
    is_hybrid: some layers keep a recurrent state instead of K/V (gated delta net, Mamba).
    embed_scale: factor that the family puts on token embeddings (Gemma: sqrt(hidden_size)).
    logit_softcap: `final_logit_softcapping`, None without.
    """

    path: Path
    model_type: str
    architectures: tuple[str, ...]
    hidden_size: int
    num_hidden_layers: int
    vocab_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int | None
    rope_theta: float | None
    tie_word_embeddings: bool
    is_hybrid: bool
    embed_scale: float = 1.0
    logit_softcap: float | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def load_target_config(path: str | Path, *, revision: str | None = None) -> TargetConfig:
    """Read a target's config.json (local folder or hub id).

    Raises UserError for a missing or broken file and for a model that is not a causal language model.
    """
    folder = locate(path, revision=revision)
    config_path = folder / "config.json"
    if not config_path.is_file():
        raise UserError("the target has no config.json", needed="a Hugging Face model folder", file=folder)
    return target_config(read_json_object(config_path), config_path)


def target_config(values: Mapping[str, Any], path: Path) -> TargetConfig:
    """The same from parsed JSON; `path` is named in errors."""
    top = Section(values, path)
    architectures = top.strings("architectures")
    names = architectures.value if architectures else ()
    _refuse_other_models(top, names)
    text = _text_section(top)
    hidden = _required(text, top, "hidden_size")
    heads = _required(text, top, "num_attention_heads")
    kv_heads, head_dim, positions = (
        text.values.get(key) for key in ("num_key_value_heads", "head_dim", "max_position_embeddings")
    )
    model_type = text.text("model_type") or top.text("model_type")
    family = model_type.value if model_type else ""
    tied = text.boolean("tie_word_embeddings") or top.boolean("tie_word_embeddings")
    softcap = text.number("final_logit_softcapping", positive=False)
    return TargetConfig(
        path=path.parent,
        model_type=family,
        architectures=names,
        hidden_size=hidden,
        num_hidden_layers=_required(text, top, "num_hidden_layers"),
        vocab_size=_required(text, top, "vocab_size"),
        num_attention_heads=heads,
        num_key_value_heads=_size_or(kv_heads, heads),
        head_dim=_size_or(head_dim, max(hidden // heads, 1)),
        max_position_embeddings=_size_or(positions, None),
        rope_theta=_theta(text),
        tie_word_embeddings=tied.value if tied else family.startswith(GEMMA),
        is_hybrid=_is_hybrid(text),
        embed_scale=hidden**0.5 if family.startswith(GEMMA) else 1.0,
        logit_softcap=softcap.value if softcap and softcap.value > 0 else None,
        raw=values,
    )


def _size_or(value: Any, otherwise: T) -> int | T:
    """Fields that only inform: a spelling of its own (a list by layer) is not an error."""
    return value if type(value) is int and value > 0 else otherwise


def _required(section: Section, top: Section, key: str) -> int:
    answer = section.integer(key, 1) or top.integer(key, 1)
    if answer is None:
        section.missing(key, "the config.json of a causal language model")
    return answer.value


def _text_section(top: Section) -> Section:
    for name in TEXT_SECTIONS:
        section = top.section(name)
        if section is not None:
            return section
    thinker = top.section("thinker_config")
    inner = thinker.section("text_config") if thinker is not None else None
    return inner or top


def _refuse_other_models(top: Section, names: tuple[str, ...]) -> None:
    needed = "a causal language model"
    if top.values.get("is_encoder_decoder") is True:
        raise UserError("the target is an encoder-decoder model", needed=needed, file=top.path)
    if names and not any(name.endswith(CAUSAL_ENDINGS) for name in names):
        raise UserError(
            "the target is not a causal language model",
            field="architectures",
            found=names[0][:80],
            needed=needed,
            file=top.path,
        )


def _theta(text: Section) -> float | None:
    flat = text.number("rope_theta")
    if flat is not None:
        return flat.value
    parameters = text.values.get("rope_parameters") or text.values.get("rope_scaling")
    if not isinstance(parameters, dict):
        return None
    inner = parameters.get("full_attention", parameters)
    theta = inner.get("rope_theta") if isinstance(inner, dict) else None
    return float(theta) if isinstance(theta, (int, float)) and not isinstance(theta, bool) else None


def _is_hybrid(text: Section) -> bool:
    kinds = text.values.get("layer_types") or text.values.get("layers_block_type")
    if isinstance(kinds, list) and any(
        kind in RECURRENT_LAYER_TYPES for kind in kinds if isinstance(kind, str)
    ):
        return True
    return any(key in text for key in RECURRENT_KEYS)
