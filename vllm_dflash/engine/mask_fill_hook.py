# SPDX-License-Identifier: Apache-2.0
"""Our mask filling in place of vLLM's, on both runners.

vLLM's function fills one KV cache group of the drafter; ours fills all of them in one launch. On the V1 runner our
proposer hands over the groups and runs vLLM's first pass once; on V2, which calls the function once for each group, the
first call fills all and the others find their work done. It runs before the draft's CUDA graph, as vLLM's does: its
inputs lie elsewhere at each step, and the context rows of a prefill that go before the graph need its slots.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from vllm.config import VllmConfig

from vllm_dflash.engine import probe
from vllm_dflash.engine.model_hook import drafts_with_us
from vllm_dflash.engine.options import Options
from vllm_dflash.kernels.mask_fill import BlockInputs, KVGroup, KVGroups, TargetStep, mask_fill
from vllm_dflash.plugin import logger

_PLAN = "vllm_dflash_mask_fill"  # attribute of the V2 speculator's input buffers


def install(vllm_config: VllmConfig) -> None:
    """Called when the draft model is built; once in a process for each runner."""
    v2 = vllm_config.use_v2_model_runner
    problem = probe.first_problem(probe.FILL_NEEDS_V2 if v2 else probe.FILL_NEEDS_V1)
    if problem is not None:
        logger.warning("vllm-dflash leaves mask filling to vLLM's kernel: %s", problem)
        return
    _install_v2() if v2 else _install_v1()


def kernels_of(vllm_config: VllmConfig) -> str | None:
    """The kernels option; None where mask filling is vLLM's."""
    kernels = Options.parse(vllm_config.additional_config).kernels
    return kernels if kernels != "stock" and drafts_with_us(vllm_config.speculative_config) else None


class V1Fill:
    """Stands where the V1 proposer looks up its input kernel. Everything it does not replace is the original's."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.kernels: str | None = None  # of the proposer that calls; None: not ours
        self.groups: list[KVGroup] = []  # of that proposer; none: the one in the arguments
        self.max_model_len = 0
        self._groups: dict[int, KVGroups] = {}  # by the address of the query slots

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __call__(self, **given: Any) -> Any:
        if self.kernels is None:
            return self.original(**given)
        rows, starts = given["num_query_per_req"], given["query_start_loc_ptr"]
        requests, context = starts.shape[0] - 1, given["total_input_tokens"]
        groups = self.groups or [
            KVGroup(
                given["block_table_ptr"],
                given["block_size"],
                given["out_query_slot_mapping_ptr"],
                given["out_context_slot_mapping_ptr"],
            )
        ]
        rejected = given["num_rejected_tokens_ptr"] if given["has_num_rejected"] else None
        mask_fill(
            TargetStep(given["target_positions_ptr"], starts, given["next_token_ids_ptr"], rejected),
            self._kept(groups, requests),
            BlockInputs(
                given["out_input_ids_ptr"],
                given["out_query_positions_ptr"],
                given["out_context_positions_ptr"],
                given["out_token_indices_ptr"],
            ),
            num_reqs=requests,
            longest_context=min(given["max_tokens_per_req"] - rows, context),
            mask_token_id=given["parallel_drafting_token_id"],
            num_drafts=given["num_speculative_tokens"],
            max_model_len=self.max_model_len,
            plain=self.kernels == "torch",
        )

    def _kept(self, groups: list[KVGroup], requests: int) -> KVGroups:
        """As built before, while the tensors stay where they are."""
        address = groups[0].query_slots.data_ptr()
        kept = self._groups.get(address)
        if kept is None or kept.requests < requests or not kept.same(groups):
            kept = self._groups[address] = KVGroups(groups)
        return kept


def v1_kernels(proposer: Any) -> str | None:
    """The kernels option, where our function fills this V1 proposer's blocks; None where vLLM's does."""
    from vllm.v1.spec_decode import dflash

    if not hasattr(proposer, "vllm_dflash_kernels"):
        ours = isinstance(dflash._copy_and_expand_dflash_inputs, V1Fill)
        proposer.vllm_dflash_kernels = kernels_of(proposer.vllm_config) if ours else None
    kernels: str | None = proposer.vllm_dflash_kernels
    return kernels


def _install_v1() -> None:
    from vllm.v1.spec_decode import dflash

    if isinstance(dflash._copy_and_expand_dflash_inputs, V1Fill):
        return
    fill = V1Fill(dflash._copy_and_expand_dflash_inputs)
    dflash._copy_and_expand_dflash_inputs = fill
    original = dflash.DFlashProposer.set_inputs_first_pass

    @functools.wraps(original)
    def set_inputs_first_pass(self: Any, *args: Any, **kwargs: Any) -> Any:
        fill.kernels, fill.max_model_len = v1_kernels(self), self.max_model_len
        fill.groups = getattr(self, "kv_groups", [])
        try:
            return original(self, *args, **kwargs)
        finally:
            fill.kernels = None

    dflash.DFlashProposer.set_inputs_first_pass = set_inputs_first_pass


class V2Plan:
    """One speculator's buffers, which stay where they are from `set_attn` on."""

    def __init__(self, speculator: Any, kernels: str) -> None:
        tables, ids = speculator.block_tables, speculator.draft_kv_cache_group_ids
        self.groups = KVGroups.of(
            [tables.input_block_tables[i] for i in ids],
            [tables.block_sizes[i] for i in ids],
            [tables.slot_mappings[i] for i in ids],
            list(speculator._context_slot_mappings),
        )
        self.plain = kernels == "torch"
        self.first = tables.slot_mappings[ids[0]].data_ptr()

    def fill(self, given: dict[str, Any]) -> None:
        """given: the arguments of vLLM's function, by name."""
        if given["query_slot_mapping"].data_ptr() != self.first:
            return  # done with the first group
        batch, buffers = given["input_batch"], given["input_buffers"]
        requests = given.get("num_reqs_override")
        requests = batch.num_reqs if requests is None else requests
        mask_fill(
            TargetStep(
                batch.positions,
                batch.query_start_loc,
                given["last_sampled"],
                given["num_rejected"],
                batch.idx_mapping,
                given["num_sampled"],
                given["next_prefill_tokens"],
                given["input_temperature"],
                given["input_seeds"],
            ),
            self.groups,
            BlockInputs(
                buffers.input_ids,
                buffers.positions,
                given["context_positions"],
                given["sample_indices"],
                buffers.query_start_loc,
                buffers.seq_lens,
                given["sample_pos"],
                given["sample_idx_mapping"],
                getattr(buffers, "is_padding", None),  # read from 0.33 on
                given["temperature"],
                given["seeds"],
            ),
            num_reqs=requests,
            # What is scheduled may be an upper bound.
            longest_context=min(int(batch.num_scheduled_tokens[:requests].max()), batch.positions.shape[0]),
            mask_token_id=given["parallel_drafting_token_id"],
            num_drafts=given["num_speculative_steps"],
            max_model_len=given["max_model_len"],
            padded_tokens=given["max_num_tokens"],
            plain=self.plain,
        )


def planned(original: Callable[..., None]) -> Callable[..., None]:
    """vLLM's function, but for buffers that carry a plan."""
    names = tuple(inspect.signature(original).parameters)

    @functools.wraps(original)
    def prepare_dflash_inputs(*args: Any, **kwargs: Any) -> None:
        given = dict(zip(names, args, strict=False)) | kwargs
        plan: V2Plan | None = getattr(given["input_buffers"], _PLAN, None)
        if plan is None:
            original(*args, **kwargs)
        else:
            plan.fill(given)

    return prepare_dflash_inputs


def _install_v2() -> None:
    from vllm.v1.worker.gpu.spec_decode.dflash import speculator

    original = speculator.DFlashSpeculator.set_attn
    if hasattr(original, "vllm_dflash"):
        return

    @functools.wraps(original)
    def set_attn(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        setattr(self.input_buffers, _PLAN, None)
        kernels = kernels_of(self.vllm_config)
        if kernels is None or self.sample_from_anchor:
            return
        if self.dcp_size != 1:
            logger.warning(
                "vllm-dflash leaves mask filling to vLLM's kernel: context parallelism over %d", self.dcp_size
            )
            return
        setattr(self.input_buffers, _PLAN, V2Plan(self, kernels))

    set_attn.vllm_dflash = True  # type: ignore[attr-defined]
    speculator.DFlashSpeculator.set_attn = set_attn
    speculator.prepare_dflash_inputs = planned(speculator.prepare_dflash_inputs)
