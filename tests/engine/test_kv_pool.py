# SPDX-License-Identifier: Apache-2.0
"""KV groups of a hybrid target with a drafter: how many tokens they keep, and that no page is missed."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("vllm", reason="needs vLLM")
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionBackend, MultipleOf
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheGroupSpec

from benchmarks import kv_pool
from tests import tiny_hybrid
from tests.engine.conftest import HERE, K, llm, prompt
from tests.engine.hybrid import engine_path, target_gap
from tests.engine.test_hybrid import LENGTHS, MAX_LEN, NEAR_TIE, check
from vllm_dflash.engine import kv_groups, kv_groups_hook
from vllm_dflash.engine.draft_window import DraftWindowManager, DraftWindowSpec, slack
from vllm_dflash.engine.kv_groups_hook import can_pack, takes_whole_pages
from vllm_dflash.engine.recurrent_block import unit_views
from vllm_dflash.errors import UserError


def test_pool_of_qwen36_27b() -> None:
    """vLLM's own plan gives the measured pool to the token; ours more than 525,000 of the 545,000 that bytes allow."""
    found = kv_pool.compare()
    assert found["stock"]["tokens"] == kv_pool.MEASURED_STOCK
    assert found["ours, packed"]["tokens"] >= 525_000
    assert found["ours, packed"]["groups"] < found["stock"]["groups"]
    assert found["ours, even (no block-outermost layout)"]["tokens"] > 1.05 * found["stock"]["tokens"]
    assert found["prefix caching: ours, even"]["tokens"] > 1.05 * found["prefix caching: stock"]["tokens"]


@pytest.mark.parametrize(
    ("given", "layout", "caching", "packs"),
    [
        ({}, None, False, True),
        ({}, None, True, False),
        ({}, "BLNHC", False, False),
        ({"kv_groups": "packed"}, "BLNHC", False, True),
        ({"kv_groups": "even"}, None, False, False),
    ],
)
def test_packed_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], layout: str | None, caching: bool, packs: bool
) -> None:
    """On every device: where packing cannot be is for the layouts to say."""
    monkeypatch.delenv("VLLM_KV_CACHE_LAYOUT", raising=False)
    if layout is not None:
        monkeypatch.setenv("VLLM_KV_CACHE_LAYOUT", layout)
    monkeypatch.setattr(current_platform, "is_cpu", lambda: False)
    config, specs = kv_pool.config("BLNHC", caching=caching), kv_pool.specs(stock_windows=False, caching=caching)
    config.additional_config = {"dflash": given}
    assert can_pack(config, specs, kv_pool.our_kinds(specs)) == packs


@pytest.fixture
def insisting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, dict[str, Any]]]:
    """insisting(layout, caching) -> the config and layers of a 27B hybrid whose user asked for packed groups."""

    def make(layout: str = "BLNHC", caching: bool = False) -> tuple[Any, dict[str, Any]]:
        config, specs = kv_pool.config(layout, caching=caching), kv_pool.specs(stock_windows=False, caching=caching)
        config.additional_config = {"dflash": {"kv_groups": "packed"}}
        monkeypatch.setattr(kv_groups_hook, "drafts_with_us", lambda speculative: True)
        monkeypatch.setattr(kv_groups_hook, "kinds_of", lambda config, specs: kv_pool.our_kinds(specs))
        return config, specs

    return make


@pytest.mark.parametrize(
    ("layout", "caching", "needed"),
    [("BLNHC", True, "needed enable_prefix_caching=False"), ("LBNHC", False, "BLNHC, BLHNC (here LBNHC)")],
)
def test_packed_by_name_is_refused_where_it_cannot_be(
    insisting: Callable[..., Any], layout: str, caching: bool, needed: str
) -> None:
    config, specs = insisting(layout, caching)
    with pytest.raises(UserError) as refused:
        kv_groups_hook.plan(config, specs, pytest.fail)
    assert needed in str(refused.value) and "kv_groups" in str(refused.value)


def test_packed_by_name_is_refused_on_a_target_without_recurrent_layers(
    insisting: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, specs = insisting()
    monkeypatch.setattr(kv_groups_hook, "kinds_of", lambda config, specs: None)
    with pytest.raises(UserError, match="needed a hybrid target"):
        kv_groups_hook.plan(config, specs, pytest.fail)


@pytest.mark.parametrize(("layouts", "splits"), [(["LBNHC"], False), (["LBNHC", "BLNHC"], True)])
def test_packed_by_name_is_refused_where_a_backend_cannot(
    insisting: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, layouts: list[str], splits: bool
) -> None:
    config, specs = insisting()

    class Splitting(AttentionBackend):
        get_name = staticmethod(lambda: "SPLITTING")
        is_ssm = staticmethod(lambda: not splits)
        get_supported_kernel_block_sizes = staticmethod(lambda kv_cache_spec=None: [128])

    monkeypatch.setattr(kv_groups_hook, "get_current_attn_backends", lambda config, names: [Splitting])
    worker = SimpleNamespace(vllm_config=config, get_kv_cache_spec=lambda: specs)
    with pytest.raises(UserError, match="SPLITTING" if splits else "BLNHC, BLHNC"):
        kv_groups_hook.prefer_packing(worker, layouts)


def test_a_backend_may_split_the_pages_of_some_layers_only() -> None:
    """As FlashAttention 4 does at head size 256."""

    class Splitting(AttentionBackend):
        @staticmethod
        def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
            return [128] if kv_cache_spec is not None and kv_cache_spec.head_size == 256 else [MultipleOf(16)]

    shape = {"block_size": 128, "num_kv_heads": 1, "dtype": torch.bfloat16}
    assert takes_whole_pages(Splitting, FullAttentionSpec(head_size=128, **shape))
    assert not takes_whole_pages(Splitting, FullAttentionSpec(head_size=256, **shape))


def test_even_groups_hold_every_layer_once() -> None:
    spec = FullAttentionSpec(block_size=32, num_kv_heads=1, head_size=32, dtype=torch.bfloat16)
    other = FullAttentionSpec(block_size=32, num_kv_heads=2, head_size=16, dtype=torch.bfloat16)
    stock = [KVCacheGroupSpec(["a", "b", "c"], spec), KVCacheGroupSpec(["d", "e", "f"], spec)]
    stock.append(KVCacheGroupSpec(["x", "y", "z"], other))
    groups = kv_groups.even(stock, lambda s: 4 if s is spec else 5)
    assert sorted(n for g in groups for n in g.layer_names) == list("abcdefxyz")
    assert {len(g.layer_names) for g in groups} == {3}  # no padding, and the largest such size
    assert all(g.kv_cache_spec == (other if "x" in g.layer_names else spec) for g in groups)


@pytest.mark.parametrize("padding", [0, 64])
def test_unit_views_are_the_states_of_each_block(padding: int) -> None:
    """Written through the indices, every state lies where the block's layout says, and on no other."""
    shapes, dtypes, states, blocks = [(7, 16), (2, 4, 8)], [torch.bfloat16, torch.float32], 5, 4
    convolution, recurrent = 7 * 16 * 2, 2 * 4 * 8 * 4
    page = convolution + states * recurrent
    raw = torch.zeros(blocks * (page + padding), dtype=torch.int8)
    found = unit_views(raw.view(blocks, page + padding)[:, :page], shapes, dtypes)
    assert found is not None
    (conv, state), index = found
    table = index.of_blocks(torch.tensor([[3], [1], [0]], dtype=torch.int32))
    assert table.shape == (3, states) and table.dtype == torch.int32 and table[2, 0] == 0
    for row, block in enumerate((3, 1)):
        conv[table[row, 0]] = float(block)
        for j in range(states):
            state[table[row, j]] = 10.0 * block + j
    for block in range(blocks):
        part = raw[block * (page + padding) :][: page + padding]
        written = block in (1, 3)
        assert torch.equal(
            part[:convolution].view(torch.bfloat16).unique(), torch.tensor([float(block)]).bfloat16()
        ) == (written or block == 0)
        for j in range(states):
            at = convolution + j * recurrent
            values = part[at : at + recurrent].view(torch.float32).unique().tolist()
            assert values == ([10.0 * block + j] if written else [0.0])
        assert not part[page:].any()
    assert unit_views(raw[: blocks * (convolution + recurrent)].view(blocks, -1), shapes, dtypes) is None


@pytest.mark.parametrize("seed", range(20))
def test_no_live_page_is_missing(seed: int) -> None:
    """Random chunks, rejections and asynchronous scheduling: every page that a draft may read is there."""
    choose = random.Random(seed)
    window, k, page = choose.choice([4, 16, 100]), choose.choice([1, 4, 15]), choose.choice([32, 64, 160])
    spec = DraftWindowSpec(
        block_size=page, num_kv_heads=1, head_size=32, dtype=torch.bfloat16,
        sliding_window=window, extra_retained_tokens=slack(k),
    )  # fmt: skip
    most = spec.max_admission_blocks_per_request(10**6, 10**6)
    pool = BlockPool(200, False, page)
    manager = DraftWindowManager(
        spec, block_pool=pool, enable_caching=False, kv_cache_group_id=0, scheduler_block_size=page,
        max_admission_blocks_per_request=most,
    )  # fmt: skip
    prompt_tokens, scheduled, processed, first = choose.randint(1, 2000), 0, 0, True
    table: list[Any] = []
    while scheduled < prompt_tokens + 400:
        prefill = scheduled < prompt_tokens
        count = min(choose.randint(1, 700), prompt_tokens - scheduled) if prefill else 1 + k
        slots = scheduled + count + k + 2  # lookahead of a DFlash step
        manager.remove_skipped_blocks("r", processed)
        free = pool.get_num_free_blocks()
        needed = manager.get_num_blocks_to_allocate("r", slots, [], scheduled, 0, scheduled + count)
        assert needed <= most
        if first:
            manager.add_local_computed_blocks("r", [], 0, 0)
        table += manager.allocate_new_blocks("r", slots, scheduled + count)
        first = False
        assert free - pool.get_num_free_blocks() <= needed
        blocks = manager.req_to_blocks["r"]
        assert len(blocks) == len(table)
        assert sum(not block.is_null for block in blocks) <= most
        anchor = scheduled + count if prefill else scheduled + 1 - k
        for position in range(max(0, anchor - window + 1), slots):
            assert not blocks[position // page].is_null
            assert table[position // page] is blocks[position // page]
        if prefill:
            processed = scheduled = scheduled + count
        else:  # the next step is scheduled before this one's rejections are known, up to k tokens too far
            processed, accepted = scheduled, choose.randint(0, k)
            scheduled += 1 + accepted
    manager.free("r")
    assert pool.get_num_free_blocks() == 199


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("packed")
    tiny_hybrid.target(root / "target")
    tiny_hybrid.drafter(root / "SSSSF", "SSSSF", K)
    return root


SETTINGS: dict[str, Any] = {
    "dtype": "bfloat16", "enable_prefix_caching": False, "max_model_len": MAX_LEN,
}  # fmt: skip


def packing(runner: str) -> dict[str, str]:
    """Environment of an engine that packs: as it comes on a GPU, with block_outermost on the CPU."""
    found = engine_path(runner)
    if torch.cuda.is_available():
        return found
    return found | {"PYTHONPATH": f"{HERE / 'block_outermost'}:{found.get('PYTHONPATH', '')}"}


def is_packed(result: dict[str, Any]) -> bool:
    return any("1 x 4 DraftWindowSpec" in line and "6 x 1 MambaSpec" in line for line in result["log"])


@pytest.mark.parametrize(("runner", "lengths", "max_tokens"), [("V1", LENGTHS, 40), ("V2", [200], 8)])
def test_packed_engine_drafts_as_the_reference(
    hybrid: Path, engines: Any, runner: str, lengths: list[int], max_tokens: int
) -> None:
    """Packed blocks: tokens, drafts and counts, past the window and its freed pages."""
    requests = [{"prompt": prompt(n, 300 + n), "max_tokens": max_tokens, "ignore_eos": True} for n in lengths]
    jobs = [
        {"llm": llm(hybrid / "target", drafter, K, **SETTINGS), "requests": requests}
        for drafter in (None, hybrid / "SSSSF")
    ]
    found = engines(jobs, runner, **packing(runner))
    assert is_packed(found[1])
    check(hybrid, dict(zip(("none", "SSSSF"), found, strict=True)), "SSSSF", lengths)


def test_packed_engine_with_preempted_requests(hybrid: Path, engines: Any) -> None:
    """Six requests on a pool for two: blocks change hands, requests start again, tokens stay the target's.

    Packed by name here, by default in the tests above.
    """
    lengths = [200, 440, 30, 500, 90, 300]
    requests = [{"prompt": prompt(n, 300 + n), "max_tokens": 60, "ignore_eos": True} for n in lengths]
    small = SETTINGS | {"max_model_len": 640, "num_gpu_blocks_override": 20}
    small["additional_config"] = {"dflash": {"kv_groups": "packed"}}
    jobs = [
        {"llm": llm(hybrid / "target", **SETTINGS), "requests": requests},
        {"llm": llm(hybrid / "target", hybrid / "SSSSF", K, **small), "requests": requests, "together": True},
    ]
    plain, packed = engines(jobs, "V1", **packing("V1"))
    assert is_packed(packed) and packed["metrics"]["num_preemptions"] > 0
    for request, tokens, alone in zip(requests, packed["tokens"], plain["tokens"], strict=True):
        assert target_gap(hybrid / "target", request["prompt"], tokens, alone) < NEAR_TIE
    assert packed["metrics"]["spec_decode_num_accepted_tokens"] > 20
