# SPDX-License-Identifier: Apache-2.0
"""vLLM's configuration, made to agree with DraftConfig before the engine looks at it.

Stock vLLM derives a drafter's windows and causality from a transformers config that may have lost or invented
them, and refuses mixed drafters on the V1 runner because of what that config says. The draft layers of this plugin
carry their own rule (engine/attention.py), so the engine is shown a plain drafter: every layer full and
bidirectional, taps and mask token as DraftConfig resolved them.
"""

import functools
from typing import Any

from vllm.config.speculative import SpeculativeConfig
from vllm.config.vllm import VllmConfig

from vllm_dflash.checkpoint import (
    DraftConfig,
    TargetConfig,
    is_foreign_draft,
    load_draft_config,
    load_target_config,
)
from vllm_dflash.checkpoint.served import SILU, refusals
from vllm_dflash.engine import probe
from vllm_dflash.engine.model_hook import ARCHITECTURE
from vllm_dflash.engine.options import Options
from vllm_dflash.errors import UserError
from vllm_dflash.plugin import logger, stand_aside

_DECIDED_BY_LAYERS = ("causal", "use_swa", "swa_window_size", "layers", "layer_types", "sliding_window")
# Read by vLLM's draft model from a config that may lack them; transformers' defaults are not always the weights' sizes.
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "attention_bias",
    "target_hidden_size",
)


@functools.lru_cache(maxsize=8)
def draft_config(model: str, revision: str | None, target: str, target_revision: str | None) -> DraftConfig:
    """The drafter's DraftConfig, checked against its target, read once a process."""
    return load_draft_config(model, target=target_config(target, target_revision), revision=revision)


@functools.lru_cache(maxsize=8)
def target_config(target: str, revision: str | None) -> TargetConfig | None:
    """The target's raw config.json; None, with a line in the log, for a target that has none (a GGUF file, say)."""
    try:
        return load_target_config(target, revision=revision)
    except UserError as problem:
        logger.warning("vllm-dflash cannot check the drafter against the target's config: %s", problem)
        return None


def draft_config_of(vllm_config: VllmConfig) -> DraftConfig:
    """DraftConfig of the drafter that this engine is configured with."""
    assert vllm_config.speculative_config is not None
    draft, target = vllm_config.speculative_config.draft_model_config, vllm_config.model_config
    return draft_config(draft.model, draft.revision, target.model, target.revision)


def check_target(config: DraftConfig, target: Any) -> None:
    """Refuse a drafter that cannot belong to this target (vLLM ModelConfig), before any weight is read.

    load_draft_config has checked more where the target's config.json could be read.
    """
    layers, hidden = target.get_total_num_hidden_layers(), target.get_hidden_size()
    for tap in config.tap_layer_ids:
        if tap >= layers:
            raise UserError(
                f"the drafter taps layer {tap} but the target {target.model} has {layers} layers",
                field=str(config.sources.get("tap_layer_ids", "tap_layer_ids")),
                found=list(config.tap_layer_ids),
                needed=f"ids from 0 to {layers - 1}",
                file=config.path,
            )
    if config.target_hidden_size != hidden:
        raise UserError(
            f"the drafter does not fit the target {target.model}",
            field="target_hidden_size",
            found=config.target_hidden_size,
            needed=f"{hidden}, the target's hidden size",
            file=config.path,
        )
    check_served(config)


def check_served(config: DraftConfig) -> None:
    """Raise the first of `served.refusals`, before any weight is read."""
    for one in refusals(config):
        raise UserError(
            one.cause, field=str(config.sources[one.field]), found=one.found, needed=one.needed, file=config.path
        )


def trained_positions(config: DraftConfig, spec: SpeculativeConfig) -> int:
    """Positions that may be drafted at: max_position_embeddings, or fewer if the user says so.

    The checkpoint's value is the length after rope scaling; for YaRN, factor times the original length.
    """
    trained = config.max_position_embeddings
    return trained if spec.max_model_len is None else min(trained, spec.max_model_len)


def serve_past_range(spec: SpeculativeConfig, config: DraftConfig) -> None:
    """Let the engine serve what the target serves; drafting stops by itself (engine/positions_hook.py).

    Where the draft's length is shorter, vLLM 0.33's V2 runner lowers the served length to it and the V1 runner stops
    drafting for a whole batch.
    """
    served, trained = spec.target_model_config.max_model_len, trained_positions(config, spec)
    if served > trained:
        logger.warning(
            "max_model_len %d is more than the %d positions of %s (max_position_embeddings): a request that comes "
            "there goes on without drafts",
            served,
            trained,
            config.path,
        )
    spec.draft_model_config.max_model_len = served + max(config.block_size, spec.num_speculative_tokens + 1)


def show_plain_drafter(hf_config: Any, config: DraftConfig, target_vocabulary: int) -> None:
    """Rewrite the draft's transformers config in place: what the layers decide is removed, the rest made exact."""
    for key in ("layer_types", "sliding_window", "is_causal", "max_window_layers"):
        setattr(hf_config, key, None)
    hf_config.use_sliding_window = False
    kept = {k: v for k, v in (getattr(hf_config, "dflash_config", None) or {}).items() if k not in _DECIDED_BY_LAYERS}
    hf_config.dflash_config = kept | {
        "mask_token_id": config.mask_token_id,
        "target_layer_ids": list(config.tap_layer_ids),
        "attention_sink_bias": config.attention_sinks,
        "attention_value_scale": None if config.value_scale == 1.0 else config.value_scale,
    }
    if not (config.has_d2t or config.own_lm_head or config.own_embed_tokens):
        # Embedding and head are the target's, with its padding rows.
        hf_config.vocab_size = hf_config.draft_vocab_size = target_vocabulary
    hf_config.logit_scale = config.logit_scale
    for key in _SIZES:
        setattr(hf_config, key, getattr(config, key))
    hf_config.num_hidden_layers, hf_config.hidden_act = len(config.layers), SILU[0]
    # Only to build the stock layer; ours brings its own (engine/rope.py).
    hf_config.rope_parameters = {"rope_type": "default", "rope_theta": config.layers[0].rope.theta}
    hf_config.is_neox_style = config.layers[0].rope.is_neox_style
    # vLLM counts a tap by the layer that would read it: the output of layer i is "auxiliary state" i + 1.
    hf_config.eagle_aux_hidden_state_layer_ids = [tap + 1 for tap in config.tap_layer_ids]
    hf_config.architectures = [ARCHITECTURE]


def use_our_model(draft: Any) -> None:
    """Point vLLM's draft ModelConfig at our model. It has the traits of the stock class that vLLM inspected."""
    draft.model_arch_config = draft.get_model_arch_config()
    draft._architecture = ARCHITECTURE


def _before_speculative(spec: SpeculativeConfig) -> None:
    if (
        spec.method == "dflash"
        and spec.num_speculative_tokens is None
        and spec.model
        and not is_foreign_draft(spec.model)
    ):
        target = spec.target_model_config
        config = draft_config(spec.model, spec.revision, target.model, target.revision)
        spec.num_speculative_tokens = config.max_draft_tokens


def _after_speculative(spec: SpeculativeConfig) -> None:
    if spec.method != "dflash" or spec.draft_model_config is None:
        return
    draft = spec.draft_model_config
    foreign = is_foreign_draft(draft.model)
    if foreign:
        logger.info("vllm-dflash leaves %s to vLLM: it is a %s checkpoint", draft.model, foreign)
        return
    problem = probe.draft_model_problem()
    if problem is not None:
        stand_aside(problem)
        return
    target = spec.target_model_config
    config = draft_config(draft.model, draft.revision, target.model, target.revision)
    check_target(config, target)
    if spec.num_speculative_tokens > config.max_draft_tokens:
        logger.warning(
            "num_speculative_tokens %d is more than the %d that %s was trained for (block_size %d)",
            spec.num_speculative_tokens,
            config.max_draft_tokens,
            config.path,
            config.block_size,
        )
    serve_past_range(spec, config)
    show_plain_drafter(draft.hf_config, config, target.get_vocab_size())
    use_our_model(draft)


def install() -> None:
    """Wrap the two `__post_init__` methods. vLLM's config classes look them up by name at each construction."""
    speculative_post_init, vllm_post_init = SpeculativeConfig.__post_init__, VllmConfig.__post_init__

    @functools.wraps(speculative_post_init)
    def speculative(self: SpeculativeConfig) -> None:
        _before_speculative(self)
        speculative_post_init(self)
        _after_speculative(self)

    @functools.wraps(vllm_post_init)
    def whole(self: VllmConfig) -> None:
        Options.parse(self.additional_config)
        vllm_post_init(self)

    SpeculativeConfig.__post_init__ = speculative
    VllmConfig.__post_init__ = whole
