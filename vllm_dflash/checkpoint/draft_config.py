# SPDX-License-Identifier: Apache-2.0
"""What a drafter checkpoint says, in one frozen object."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vllm_dflash.checkpoint.finding import Finding


@dataclass(frozen=True)
class Source:
    """Where a field's value came from.

    `file` and `key` name the place in the checkpoint (`key` is dotted: `dflash_config.mask_token_id`; for
    safetensors, a tensor name). A default or derived value has an empty `file` and says its `rule` instead.
    """

    file: str = ""
    key: str = ""
    rule: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.key}" if self.file else "default"
        return f"{place} ({self.rule})" if self.rule else place


@dataclass(frozen=True)
class Rope:
    """Rotary embedding of one draft layer.

    rotary_dim: number of leading head dimensions that rotate.
    scaling: the checkpoint's own `rope_scaling` / `rope_parameters` entry when its type is not "default",
        else None. Its type is always under "rope_type"; theta and the partial factor are taken out, because
        `theta` and `rotary_dim` hold them.
    is_neox_style: rotate dimensions i and i + rotary_dim/2 together; False rotates neighbours 2i and 2i + 1.
    """

    theta: float
    rotary_dim: int
    scaling: Mapping[str, Any] | None = None
    is_neox_style: bool = True


@dataclass(frozen=True)
class DraftLayer:
    """Attention rule of one draft layer.

    window: a row at position p sees position c only if p - c < window; None means no limit.
    causal: whether a row sees only block rows up to itself; a non-causal layer sees the whole block
    (|p - q| < window in a windowed layer).
    """

    window: int | None
    causal: bool
    rope: Rope


@dataclass(frozen=True)
class DraftConfig:
    """Everything model, kernels, doctor, trainer and reference need to know about a drafter.

    Made by `checkpoint.load_draft_config` from raw JSON and safetensors headers, never through
    transformers' config classes, which drop and invent fields.

    tap_layer_ids: zero-based target layers whose outputs feed `fc`, in the order of its columns.
    block_size: rows of a trained block, anchor included; a drafter proposes up to block_size - 1 tokens
        (block_size with sample_from_anchor).
    draft_vocab_size: rows of the head that scores drafts; differs from vocab_size when `has_d2t`.
    embed_scale: factor on the borrowed embeddings of the block rows.
    logit_scale: factor on the head's output; logit_softcap: cap * tanh(logits / cap) after that factor.
    value_scale: factor on every attention value, context and block (MiMo's `attention_value_scale`).
    sources: for every field above, and "layers.<i>.window" / ".causal" / ".rope", where it came from.
    findings: what the reader had to decide or could not check, for doctor and the log.
    has_weights: False when no tensor header could be read; the shape-derived fields are then format defaults.
    """

    path: Path
    format: Literal["native", "speculators"]
    layers: tuple[DraftLayer, ...]
    tap_layer_ids: tuple[int, ...]
    block_size: int
    sample_from_anchor: bool
    mask_token_id: int
    mask_embedding_file: Path | None
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    hidden_act: str
    rms_norm_eps: float
    attention_bias: bool
    attention_sinks: bool
    target_hidden_size: int
    num_target_layers: int | None
    vocab_size: int
    draft_vocab_size: int
    has_d2t: bool
    own_lm_head: bool
    own_embed_tokens: bool
    embed_scale: float
    logit_scale: float
    logit_softcap: float | None
    max_position_embeddings: int
    dtype: str
    quantization: Mapping[str, Any] | None
    sources: Mapping[str, Source]
    value_scale: float = 1.0
    findings: tuple[Finding, ...] = ()
    has_weights: bool = True

    @property
    def max_draft_tokens(self) -> int:
        """Most draft tokens one pass can propose (`num_speculative_tokens` upper limit of training)."""
        return self.block_size if self.sample_from_anchor else self.block_size - 1

    def describe_layers(self) -> str:
        """Short form for the ACTIVE line, e.g. `SSF window 128, causal TTF`."""
        kinds = "".join("F" if layer.window is None else "S" for layer in self.layers)
        windows = sorted({layer.window for layer in self.layers if layer.window is not None})
        causal = "".join("T" if layer.causal else "F" for layer in self.layers)
        window = f" window {'/'.join(map(str, windows))}" if windows else ""
        return f"{kinds}{window}, causal {causal}"
