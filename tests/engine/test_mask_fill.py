# SPDX-License-Identifier: Apache-2.0
"""V1 mask filling through our kernel: what vLLM's function fills, and every KV cache group at once."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.engine.conftest import K


def vllms_fill(given: dict[str, Any]) -> None:
    """vLLM's V1 kernel in its C++ version, which a CPU worker puts in the Triton kernel's place."""
    from vllm.utils.cpu_triton_utils import _copy_and_expand_dflash_inputs_kernel_impl

    rest = ("max_tokens_per_req", "triton_block_size", "has_num_rejected")
    kept = {name: value for name, value in given.items() if name not in rest}
    _copy_and_expand_dflash_inputs_kernel_impl(**kept, HAS_NUM_REJECTED=given["has_num_rejected"])


@pytest.mark.parametrize("rejects", [False, True])
def test_v1_fill_equals_vllms(rejects: bool) -> None:
    import vllm.v1.spec_decode.dflash as dflash

    from vllm_dflash.engine import mask_fill_hook

    starts, lengths = torch.tensor([0, 5, 6, 13], dtype=torch.int32), [5, 1, 7]
    positions = torch.cat([torch.arange(n) + 20 * i for i, n in enumerate(lengths)])
    table = torch.arange(1, 25, dtype=torch.int32).view(4, 6)

    def arguments() -> dict[str, Any]:
        def empty(n: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.full((n,), -7, dtype=dtype)

        return {
            "next_token_ids_ptr": torch.tensor([7, 8, 9], dtype=torch.int32),
            "target_positions_ptr": positions,
            "out_input_ids_ptr": empty(40, torch.int32),
            "out_context_positions_ptr": empty(40),
            "out_query_positions_ptr": empty(40),
            "out_context_slot_mapping_ptr": empty(40),
            "out_query_slot_mapping_ptr": empty(40),
            "out_token_indices_ptr": empty(3 * K, torch.int32),
            "block_table_ptr": table,
            "block_table_stride": table.stride(0),
            "query_start_loc_ptr": starts,
            "num_rejected_tokens_ptr": torch.tensor([2, 0, 3], dtype=torch.int32) if rejects else 0,
            "parallel_drafting_token_id": 99,
            "block_size": 16,
            "num_query_per_req": 1 + K,
            "num_speculative_tokens": K,
            "total_input_tokens": 13,
            "max_tokens_per_req": 7 + 1 + K,
            "triton_block_size": 16,
            "has_num_rejected": rejects,
        }

    original = dflash._copy_and_expand_dflash_inputs
    original = getattr(original, "original", original)
    fill = mask_fill_hook.V1Fill(original)
    assert fill.register_warmup == original.register_warmup
    fill.kernels, fill.max_model_len = "auto", 96
    ours, theirs = arguments(), arguments()
    fill(**ours)
    vllms_fill(theirs)
    valid = torch.ones(13, dtype=torch.bool)
    if rejects:
        valid[[3, 4, 10, 11, 12]] = False
    for name in ours:
        if name.startswith("out_context"):
            assert torch.equal(ours[name][:13][valid], theirs[name][:13][valid]), name
            assert (ours[name][:13][~valid] == (-1 if "slot" in name else 0)).all()
        elif name.startswith("out_"):
            assert torch.equal(ours[name], theirs[name]), name


class TwoGroups:
    """A V1 proposer whose layers lie in two groups of other pages, on the rows of one step.

    The second group has null pages where a window has passed, as far as the block's first row.
    """

    tables = (torch.arange(1, 25, dtype=torch.int32).view(3, 8), torch.arange(1, 97, dtype=torch.int32).view(3, 32))
    tables[1].masked_fill_(torch.arange(32) < torch.tensor([[1], [10], [22]]), 0)
    sizes = (16, 2)
    lengths = (5, 1, 7)
    positions = torch.cat([torch.arange(n) + 20 * i for i, n in enumerate(lengths)])

    def __init__(self) -> None:
        from vllm_dflash.engine.v1_proposer import DraftGroup, GroupedProposer

        self.proposer: Any = object.__new__(GroupedProposer)
        tables = [
            SimpleNamespace(block_size=size, get_device_tensor=lambda n, table=table: table[:n])
            for table, size in zip(self.tables, self.sizes, strict=True)
        ]
        self.groups = [
            DraftGroup(i, {f"layer {i}"}, [], torch.full((40,), -7), torch.full((40,), -7)) for i in range(2)
        ]
        vars(self.proposer).update(
            runner=SimpleNamespace(input_batch=SimpleNamespace(block_table=tables)),
            model=SimpleNamespace(get_draft_kv_cache_layer_names=lambda: ["layer 1", "layer 0"]),
            groups=self.groups,
            num_speculative_tokens=K,
            device=torch.device("cpu"),
            input_ids=torch.zeros(40, dtype=torch.int32),
            positions=torch.zeros(40, dtype=torch.int64),
            _context_positions_buffer=torch.zeros(40, dtype=torch.int64),
            parallel_drafting_token_id=99,
            arange=torch.arange(64, dtype=torch.int32),
            token_arange_np=torch.arange(64, dtype=torch.int32).numpy(),
            dflash_causal=False,
            max_model_len=96,
        )

    def first_pass(self) -> dict[str, torch.Tensor]:
        from vllm.v1.attention.backend import CommonAttentionMetadata

        starts = torch.tensor([0, 5, 6, 13], dtype=torch.int32)
        step = CommonAttentionMetadata(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=torch.tensor([5, 21, 47], dtype=torch.int32),
            num_reqs=3,
            num_actual_tokens=13,
            max_query_len=7,
            max_seq_len=47,
            block_table_tensor=torch.zeros(3, 8, dtype=torch.int32),
            slot_mapping=torch.zeros(13, dtype=torch.int64),
        )
        anchors = torch.tensor([7, 8, 9], dtype=torch.int32)
        rejected = torch.tensor([2, 0, 3], dtype=torch.int32)
        rows, samples, metadata = self.proposer.set_inputs_first_pass(
            torch.zeros(13), anchors, self.positions, torch.zeros(13, 4), None, step, rejected
        )
        found = {"samples": samples, "ids": self.proposer.input_ids, "positions": self.proposer.positions}
        found["returned slots"] = metadata.slot_mapping
        valid = torch.ones(13, dtype=torch.bool)
        valid[[3, 4, 10, 11, 12]] = False  # what rejected rows hold is never read
        for i, group in enumerate(self.groups):
            assert group.metadata is not None
            assert self.proposer._context_slot_mapping_buffer[1 - i] is group.context_slots
            found |= {f"{name} {i}": getattr(group.metadata, name) for name in ("slot_mapping", "seq_lens")}
            found[f"pages {i}"] = group.metadata.block_table_tensor
            found[f"context {i}"] = group.context_slots[:13][valid]
        assert rows == 3 * (1 + K)
        return found


def test_v1_groups_filled_at_once_equal_groups_filled_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm.v1.spec_decode.dflash as dflash

    from vllm_dflash.engine import mask_fill_hook

    calls: list[str] = []
    original = dflash.DFlashProposer.set_inputs_first_pass

    def one_by_one(**given: Any) -> None:
        calls.append("vLLM's")
        vllms_fill(given)

    monkeypatch.setattr(dflash, "_copy_and_expand_dflash_inputs", one_by_one)
    expected = TwoGroups().first_pass()
    fill = mask_fill_hook.mask_fill

    def at_once(*args: Any, **kwargs: Any) -> None:
        calls.append("ours")
        fill(*args, **kwargs)

    monkeypatch.setattr(mask_fill_hook, "mask_fill", at_once)
    monkeypatch.setattr(mask_fill_hook, "kernels_of", lambda config: "auto")
    monkeypatch.setattr(dflash.DFlashProposer, "set_inputs_first_pass", original)
    mask_fill_hook._install_v1()
    ours = TwoGroups()
    ours.proposer.vllm_config = None
    found = ours.first_pass()
    assert calls == ["vLLM's", "vLLM's", "ours"]
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
