# SPDX-License-Identifier: Apache-2.0
"""The attention rule against loops written from its definition, and the attention against float64 arithmetic."""

import itertools

import pytest
import torch

from vllm_dflash.checkpoint import DraftLayer, Rope
from vllm_dflash.reference.attention import attention, visible_block, visible_context

ROPE = Rope(10000.0, 8)
RULES = [DraftLayer(w, c, ROPE) for w, c in itertools.product((None, 1, 2, 5, 9), (True, False))]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.window}-{'causal' if r.causal else 'bidirectional'}")
@pytest.mark.parametrize("anchor", [0, 1, 4, 5, 6, 12])
def test_visibility(rule: DraftLayer, anchor: int) -> None:
    rows, context = list(range(anchor, anchor + 5)), list(range(15))
    seen = visible_context(torch.tensor(rows), torch.full((5,), anchor), torch.tensor(context), rule)
    block = visible_block(torch.tensor(rows), torch.full((5,), anchor), rule)
    for i, p in enumerate(rows):
        for j, c in enumerate(context):
            assert seen[i, j] == (c < anchor and (rule.window is None or p - c < rule.window))
        for j, q in enumerate(rows):
            near = rule.window is None or abs(p - q) < rule.window
            assert block[i, j] == (near and (q <= p or not rule.causal))


def test_rows_of_other_blocks_are_invisible() -> None:
    rows, anchors = torch.tensor([3, 4, 4, 5]), torch.tensor([3, 3, 4, 4])
    seen = visible_block(rows, anchors, DraftLayer(None, False, ROPE))
    assert seen.tolist() == [
        [True, True, False, False],
        [True, True, False, False],
        [False, False, True, True],
        [False, False, True, True],
    ]


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
def test_attention_against_loops(sinks: bool, groups: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 5, 2 * groups, 8, generator=generator)
    k, v = (torch.randn(2, 7, 2, 8, generator=generator) for _ in range(2))
    visible = torch.rand(2, 5, 7, generator=generator) > 0.4
    visible[..., 0] = True
    sink = torch.randn(2 * groups, generator=generator) if sinks else None
    out = attention(q, k, v, visible, 0.3, sink)
    for b, r, h in itertools.product(range(2), range(5), range(2 * groups)):
        weights = [
            torch.exp(0.3 * (q[b, r, h].double() @ k[b, s, h // groups].double())) if visible[b, r, s] else 0.0
            for s in range(7)
        ]
        total = sum(weights) + (torch.exp(sink[h].double()) if sink is not None else 0.0)
        want = sum(w * v[b, s, h // groups].double() for s, w in enumerate(weights)) / total
        torch.testing.assert_close(out[b, r, h].double(), want, atol=1e-5, rtol=1e-5)
