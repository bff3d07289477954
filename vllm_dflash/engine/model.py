# SPDX-License-Identifier: Apache-2.0
"""The draft model: vLLM's DFlash model whose layers follow DraftConfig."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from vllm import _custom_ops as ops
from vllm.config import VllmConfig, get_current_vllm_config
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.model_executor.models.qwen3_dflash import (
    DFlashQwen3DecoderLayer,
    DFlashQwen3ForCausalLM,
    DFlashQwen3Model,
)

from vllm_dflash import __version__
from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.engine import mask_fill_hook, probe
from vllm_dflash.engine.attention import DraftAttention
from vllm_dflash.engine.config_hook import draft_config_of
from vllm_dflash.engine.context_kv_hook import ContextStore
from vllm_dflash.engine.options import Options
from vllm_dflash.engine.positions import positions_reached
from vllm_dflash.engine.rope import rotary_embedding
from vllm_dflash.plugin import logger


class DraftDecoderLayer(DFlashQwen3DecoderLayer):
    def __init__(
        self,
        vllm_config: VllmConfig,
        *,
        config: Any,
        layer_idx: int,
        cache_config: Any = None,
        quant_config: Any = None,
        prefix: str = "",
    ) -> None:
        super().__init__(
            vllm_config,
            config=config,
            layer_idx=layer_idx,
            cache_config=cache_config,
            quant_config=quant_config,
            prefix=prefix,
        )
        draft = draft_config_of(get_current_vllm_config())
        rule, attention = draft.layers[layer_idx], self.self_attn
        attention.sliding_window, attention.causal = rule.window, rule.causal
        attention.attn = DraftAttention(
            attention.attn, rule, cache_config, quant_config, sinks=attention.attention_sink_bias
        )
        attention.rotary_emb = rotary_embedding(
            rule.rope, draft.head_dim, draft.max_position_embeddings, positions_reached(get_current_vllm_config())
        )


class DraftModel(DFlashQwen3Model):
    decoder_layer_cls = DraftDecoderLayer
    embed_scale = 1.0
    context_store: ContextStore | None = None  # None: vLLM's own kernels

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """[N] -> [N, hidden], with the factor that the drafter was trained with (Gemma: sqrt(hidden))."""
        embeddings = super().embed_input_ids(input_ids)
        return embeddings if self.embed_scale == 1.0 else embeddings * self.embed_scale

    def _project_context_kv(
        self, context_states: torch.Tensor, num_ctx: int, num_layers: int, num_kv_heads: int, head_dim: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [layers, N, kv_heads, head_dim], views of the projection's output: our kernel reads it in place."""
        if self.context_store is None or self._fused_kv_weight is None:
            return super()._project_context_kv(context_states, num_ctx, num_layers, num_kv_heads, head_dim)
        normed = torch.empty_like(context_states)
        ops.rms_norm(normed, context_states, self.hidden_norm.weight.data, self.hidden_norm.variance_epsilon)
        projected = F.linear(normed, self._fused_kv_weight, self._fused_kv_bias)
        keys, values = projected.unflatten(-1, (num_layers, 2, num_kv_heads, head_dim)).movedim((2, 1), (0, 1))
        return keys, values

    def _normalize_context_k(self, all_k: torch.Tensor) -> torch.Tensor:
        """Each layer's own K-norm on [layers, N, kv_heads, head_dim].

        vLLM passes the layers' weights to one grouped kernel; its CPU kernel reads only the first layer's.
        """
        if all_k.device.type != "cpu":
            return super()._normalize_context_k(all_k)
        return torch.stack([layer.self_attn.k_norm(k) for layer, k in zip(self.layers, all_k, strict=True)])

    def precompute_and_store_context_kv(
        self,
        context_states: torch.Tensor,
        context_positions: torch.Tensor,
        context_slot_mapping: torch.Tensor | Sequence[torch.Tensor | None] | None = None,
    ) -> None:
        """Project context features to every layer's K/V, norm and rotate K by the layer's own rope, store.

        Args:
            context_states: [N, hidden] after `fc`; positions: [N]; slots: [N], one for each layer, or None to
                only compute (memory profiling).
        """
        if not hasattr(self, "_num_attn_layers"):  # weights were not loaded: dummy weights
            self._build_fused_kv_buffers()
        slots: Any = context_slot_mapping
        stores = slots is not None and (isinstance(slots, torch.Tensor) or all(each is not None for each in slots))
        if stores and self.context_store is not None and (problem := self.context_store.problem()) is not None:
            logger.warning("vllm-dflash leaves context K/V to vLLM's kernels: %s", problem)
            self.context_store = None
        if self.context_store is None:
            self._store_as_vllm(context_states, context_positions, slots)
            return
        keys, values = self._project(context_states)
        if stores:
            self.context_store.store(keys, values, context_positions, slots)

    def _project(self, context_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._project_context_kv(
            context_states, context_states.shape[0], self._num_attn_layers, self._num_kv_heads, self._head_dim
        )

    def _store_as_vllm(self, context_states: torch.Tensor, context_positions: torch.Tensor, slot_mapping: Any) -> None:
        """vLLM's sequence of kernels; layer by layer where their ropes differ, which it does not know."""
        ropes = [layer.self_attn.rotary_emb for layer in self.layers]
        if all(rope is ropes[0] for rope in ropes):
            super().precompute_and_store_context_kv(context_states, context_positions, slot_mapping)
            return
        keys, values = self._project(context_states)
        keys = self._normalize_context_k(keys)
        for i, (layer, rope) in enumerate(zip(self.layers, ropes, strict=True)):
            flat = keys[i].flatten(1)
            key, _ = rope(context_positions, flat, None)
            slots = slot_mapping[i] if isinstance(slot_mapping, (list, tuple)) else slot_mapping
            if slots is None:
                continue
            attention, scale = layer.self_attn.attn, getattr(layer.self_attn, "v_scale", None)
            value = values[i] if scale is None else values[i] * scale
            attention.impl.do_kv_cache_update(attention, key.view_as(keys[i]), value, attention.kv_cache, slots)


class DFlashDraftModel(DFlashQwen3ForCausalLM):
    """Registered as model_hook.ARCHITECTURE."""

    scale_is_settled = False

    model_cls = DraftModel

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        self.draft_config = draft_config_of(vllm_config)
        self.model.embed_scale = self.draft_config.embed_scale
        kernels = Options.parse(vllm_config.additional_config).kernels
        if kernels != "stock":
            self.model.context_store = ContextStore([layer.self_attn for layer in self.model.layers], kernels)
            mask_fill_hook.install(vllm_config)
        self.logits_processor.soft_cap = self.draft_config.logit_softcap
        if get_tensor_model_parallel_rank() == 0:
            logger.info(active_line(self.draft_config, vllm_config, self.model.layers[0].self_attn.attn.kernels))

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, inputs_embeds: torch.Tensor | None = None
    ) -> torch.Tensor:
        """As vLLM's. The embedding is shared by now: if its module scales by itself, ours leaves that factor out.

        vLLM's Transformers backend keeps Gemma's scaled module; its native models scale outside.
        """
        if not self.scale_is_settled:
            self.model.embed_scale /= float(getattr(self.model.embed_tokens, "embed_scale", 1.0))
            self.scale_is_settled = True
        return super().forward(input_ids, positions, inputs_embeds)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Any:
        """Checkpoint weights, with `fc`'s columns moved to vLLM's order of taps (ascending)."""
        return super().load_weights(
            (name, ascending_taps(weight, self.draft_config.tap_layer_ids) if name.endswith("fc.weight") else weight)
            for name, weight in weights
        )

    def get_draft_attn_causal(self) -> list[bool]:
        """What the engine builds metadata with: bidirectional for all; the layers apply their own rule."""
        return [False] * len(self.model.layers)


def ascending_taps(fc: torch.Tensor, taps: Sequence[int]) -> torch.Tensor:
    """[hidden, n_taps * target_hidden]: the columns of each tap, taps in ascending order."""
    order = sorted(range(len(taps)), key=taps.__getitem__)
    return torch.cat([fc.chunk(len(taps), dim=1)[i] for i in order], dim=1)


def active_line(config: DraftConfig, vllm_config: VllmConfig, kernels: str) -> str:
    """The one line that says what the plugin made of this drafter."""
    runner = "V2" if vllm_config.use_v2_model_runner else "V1"
    assert vllm_config.speculative_config is not None
    return (
        f"vllm-dflash {__version__} ACTIVE on vLLM {probe.vllm_release()} ({runner}): "
        f"taps {','.join(map(str, config.tap_layer_ids))}, layers {config.describe_layers()}, "
        f"mask {config.mask_token_id}, block {config.block_size}, "
        f"k {vllm_config.speculative_config.num_speculative_tokens}, kernels {kernels}"
    )
