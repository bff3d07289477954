# SPDX-License-Identifier: Apache-2.0
"""The V1 runner's DFlash proposer, for draft layers that lie in several KV cache groups.

Each group has a block table and a page size of its own, so every position has one slot in each group. vLLM's proposer
knows one group and raises "same kv cache group" otherwise. This one has every group's slots filled, by our kernel at
once or by vLLM's one after the other, and gives every draft layer the slots and the metadata of its own group.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.utils import PAD_SLOT_ID
from vllm.v1.spec_decode.dflash import DFlashProposer

from vllm_dflash.engine.mask_fill_hook import v1_kernels
from vllm_dflash.reference.mask_fill import KVGroup


@dataclass
class DraftGroup:
    """One KV cache group that holds draft layers.

    id: its index in the engine's KV cache groups; attention: vLLM AttentionGroups over its draft layers.
    context_slots: int64 [max tokens a step]; query_slots: int64 [max query rows, padded].
    """

    id: int
    layer_names: set[str]
    attention: list[Any]
    context_slots: torch.Tensor
    query_slots: torch.Tensor
    metadata: CommonAttentionMetadata | None = None


class LayerSlots(list[torch.Tensor]):
    """The context slots of each draft layer; a slice takes these rows of every layer, as the draft model wants them."""

    def __getitem__(self, rows: Any) -> Any:
        return [slots[rows] for slots in self] if isinstance(rows, slice) else super().__getitem__(rows)


class GroupedProposer(DFlashProposer):
    """Takes DFlashProposer's place on the V1 runner."""

    _draft_attn_layer_names: set[str]
    draft_attn_groups: list[Any]
    _context_slot_mapping_buffer: Any  # a tensor, or LayerSlots once the slots are filled in

    def __init__(self, vllm_config: VllmConfig, device: torch.device, runner: Any = None) -> None:
        super().__init__(vllm_config, device, runner)
        self.runner = runner
        self.groups: list[DraftGroup] = []
        self.kv_groups: list[KVGroup] = []  # the groups' tables and slots of this step; V1Fill reads them

    def validate_same_kv_cache_group(self, kv_cache_config: Any) -> None:
        """Nothing to refuse: any grouping is served."""

    def initialize_attn_backend(self, kv_cache_config: Any, kernel_block_sizes: list[int] | None = None) -> None:
        """vLLM's set-up once for each group with draft layers."""
        every_layer = self._draft_attn_layer_names
        self.groups = []
        count = sum(not every_layer.isdisjoint(group.layer_names) for group in kv_cache_config.kv_cache_groups)
        buffers = (self._context_slot_mapping_buffer, self._slot_mapping_buffer)
        slots = [buffer.new_zeros(count, buffer.shape[0]) for buffer in buffers]
        try:
            for gid, group in enumerate(kv_cache_config.kv_cache_groups):
                self._draft_attn_layer_names = every_layer & set(group.layer_names)
                if not self._draft_attn_layer_names:
                    continue
                super().initialize_attn_backend(kv_cache_config, kernel_block_sizes)
                rows = (buffer[len(self.groups)] for buffer in slots)
                self.groups.append(DraftGroup(gid, self._draft_attn_layer_names, self.draft_attn_groups, *rows))
        finally:
            self._draft_attn_layer_names = every_layer
        # The runner hands over the metadata of `kv_cache_gid`, and warms up what `draft_attn_groups` lists.
        self.kv_cache_gid = self.groups[0].id
        self.draft_attn_groups = [attention for group in self.groups for attention in group.attention]

    def set_inputs_first_pass(
        self,
        target_token_ids: torch.Tensor,
        next_token_ids: torch.Tensor,
        target_positions: torch.Tensor,
        target_hidden_states: torch.Tensor,
        token_indices_to_sample: torch.Tensor | None,
        cad: CommonAttentionMetadata,
        num_rejected_tokens_gpu: torch.Tensor | None,
    ) -> tuple[int, torch.Tensor, CommonAttentionMetadata]:
        """vLLM's first pass: once where our kernel fills every group's slots, else once for each group.

        The rows are the same each time, the slots are the group's.
        """
        given = (target_token_ids, next_token_ids, target_positions, target_hidden_states, token_indices_to_sample)
        tables = [self.runner.input_batch.block_table[group.id] for group in self.groups]
        # Pages as the kernels see them; the manager's block may be several of them.
        self.kv_groups = [
            KVGroup(table.get_device_tensor(cad.num_reqs), table.block_size, group.query_slots, group.context_slots)
            for group, table in zip(self.groups, tables, strict=True)
        ]
        if v1_kernels(self) is not None:
            filled = self._first_pass(self.kv_groups[0], given, cad, num_rejected_tokens_gpu)
            for group, kv in zip(self.groups, self.kv_groups, strict=True):
                slots = kv.query_slots[: filled[0]]
                group.metadata = replace(filled[2], block_table_tensor=kv.block_table, slot_mapping=slots)
        else:
            for group, kv in reversed(list(zip(self.groups, self.kv_groups, strict=True))):
                filled = self._first_pass(kv, given, cad, num_rejected_tokens_gpu)
                group.metadata = filled[2]
                context = kv.context_slots[: self._dflash_num_context]
                context.masked_fill_(context < kv.block_size, PAD_SLOT_ID)  # pages out of every window: the null block
        of_layer = {name: group.context_slots for group in self.groups for name in group.layer_names}
        self._context_slot_mapping_buffer = LayerSlots(
            [of_layer[name] for name in self.model.get_draft_kv_cache_layer_names()]
        )
        return filled

    def _first_pass(
        self, kv: KVGroup, given: tuple[Any, ...], cad: CommonAttentionMetadata, num_rejected: torch.Tensor | None
    ) -> tuple[int, torch.Tensor, CommonAttentionMetadata]:
        """vLLM's, on one group's pages."""
        self.block_size = kv.block_size
        self._context_slot_mapping_buffer, self._slot_mapping_buffer = kv.context_slots, kv.query_slots
        filled: Any = super().set_inputs_first_pass(
            *given, replace(cad, block_table_tensor=kv.block_table), num_rejected
        )
        return filled

    def build_per_group_and_layer_attn_metadata(
        self, cad: CommonAttentionMetadata, draft_index: int = 0
    ) -> tuple[list[object], dict[str, object]]:
        """Metadata of each layer from its own group's block table and slots."""
        every_group = self.draft_attn_groups
        per_group: list[object] = []
        per_layer: dict[str, object] = {}
        try:
            for group in self.groups:
                self.draft_attn_groups = group.attention
                built, by_layer = super().build_per_group_and_layer_attn_metadata(group.metadata or cad, draft_index)
                per_group += built
                per_layer |= by_layer
        finally:
            self.draft_attn_groups = every_group
        return per_group, per_layer

    def _get_slot_mapping(self, num_tokens: int, slot_mapping: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Query slots of each layer, padding rows masked; the groups' buffers were filled with the block."""
        if slot_mapping is not None:
            for group in self.groups:
                group.query_slots[slot_mapping.shape[0] : num_tokens].fill_(PAD_SLOT_ID)
        return {name: group.query_slots[:num_tokens] for group in self.groups for name in group.layer_names}
