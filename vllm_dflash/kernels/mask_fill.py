# SPDX-License-Identifier: Apache-2.0
"""Block-diffusion mask filling in one launch: everything the drafter's pass reads that is not a hidden state.

For request r with context rows query_start_loc[r] to query_start_loc[r + 1], the last num_rejected[r] of which do not
count, Q = 1 + k, and a = (position of the last row that counts) + 1:

    input_ids[r Q + i]       = anchor if i == 0 else mask_token_id
    positions[r Q + i]       = min(a + i, max_model_len - 1)
    query_slots[g][r Q + i]  = slot of position a + i in group g      PAD from max_model_len on
    context_positions[c]     = positions of the target; 0 if rejected
    context_slots[g][c]      = slot of that position in group g       PAD if rejected
    seq_lens[r]              = min(a + Q, max_model_len)
    sample_rows[r k + i]     = r Q + 1 + i, with sample_positions a + 1 + i and sample_requests the state row

where the slot of p in group g is table[r, p // size] * size + p % size, or PAD where the page is vLLM's null page 0 or
p // size is past the table. What follows the last request, up to the sizes a captured graph may read, is padding.
Shapes and dtypes: vllm_dflash.reference.mask_fill, whose result this equals bit for bit.
"""

from vllm_dflash.kernels import mask_fill_triton, native, native_mask_fill
from vllm_dflash.kernels.mask_fill_arguments import KVGroups, check_call
from vllm_dflash.reference import mask_fill as reference
from vllm_dflash.reference.mask_fill import PAD, BlockInputs, KVGroup, TargetStep

__all__ = ["PAD", "BlockInputs", "KVGroup", "KVGroups", "TargetStep", "mask_fill"]


def mask_fill(
    step: TargetStep,
    groups: KVGroups,
    out: BlockInputs,
    *,
    num_reqs: int,
    longest_context: int,
    mask_token_id: int,
    num_drafts: int,
    max_model_len: int,
    padded_tokens: int | None = None,
    plain: bool = False,
) -> None:
    """Fill the drafter's inputs: with Triton on a CUDA device, else in C++ where that is built, else in torch.

    Args:
        num_reqs: R, one or more.
        longest_context: context rows of the longest request, or more than that.
        padded_tokens: rows of the query buffers to write, R Q or more; None: R Q.
        plain: the torch reference in any case.

    Raises:
        UserError: naming the argument at fault.
    """
    padded = num_reqs * (1 + num_drafts) if padded_tokens is None else padded_tokens
    check_call(step, groups, out, num_reqs, longest_context, num_drafts, max_model_len, padded)
    if groups.device.type == "cuda" and not plain:
        mask_fill_triton.launch(
            step, groups, out, num_reqs, longest_context, mask_token_id, num_drafts, max_model_len, padded
        )
        return
    in_cpp = groups.device.type == "cpu" and not plain and native.problem() is None
    fill = native_mask_fill.mask_fill if in_cpp else reference.mask_fill
    fill(
        step,
        groups.groups,
        out,
        num_reqs=num_reqs,
        mask_token_id=mask_token_id,
        num_drafts=num_drafts,
        max_model_len=max_model_len,
        padded_tokens=padded,
    )
