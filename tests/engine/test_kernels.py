# SPDX-License-Identifier: Apache-2.0
"""context_kv and mask_fill in the engine: they run on both runners, and agree with what of vLLM's they replace."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests import tiny_hybrid
from tests.engine.conftest import K, environment, llm, prompt
from tests.engine.hybrid import engine_path

HERE = Path(__file__).parent
LAYERS, HEADS, DIM, PAGE, BLOCKS, ROWS = 3, 2, 64, 16, 8, 11
# Runs jobs.py and counts calls of our kernels and of vLLM's functions that they replace.
COUNT_AND_RUN = """
import functools, json, sys
from pathlib import Path
import vllm.v1.spec_decode.dflash as v1
import vllm.v1.worker.gpu.spec_decode.dflash.speculator as v2
from vllm.model_executor.models.qwen3_dflash import DFlashQwen3Model
import vllm_dflash.engine.context_kv_hook as context
import vllm_dflash.engine.mask_fill_hook as fill
from tests.engine import jobs

counts = {}

def count(name, owner, attribute):
    original, counts[name] = getattr(owner, attribute), 0
    def call(*args, **kwargs):
        counts[name] += 1
        return original(*args, **kwargs)
    call.register_warmup = getattr(original, "register_warmup", None)
    setattr(owner, attribute, functools.wraps(original)(call))

count("context_kv", context, "context_kv")
count("mask_fill", fill, "mask_fill")
count("vLLM's context K/V", DFlashQwen3Model, "precompute_and_store_context_kv")
count("vLLM's fill, V2", v2, "prepare_dflash_inputs")
count("vLLM's fill, V1", v1, "_copy_and_expand_dflash_inputs")
jobs.main()
Path(sys.argv[3]).write_text(json.dumps(counts))
"""


def run_counted(folder: Path, job: dict[str, Any], runner: str, **extra: str) -> tuple[dict[str, Any], dict[str, int]]:
    paths = [folder / name for name in ("jobs.json", "results.json", "counts.json")]
    paths[0].write_text(json.dumps([job]))
    done = subprocess.run(
        [sys.executable, "-c", COUNT_AND_RUN, *map(str, paths)],
        env=environment(runner, **extra),
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert paths[2].exists(), done.stderr[-4000:]
    (result,) = json.loads(paths[1].read_text())
    assert "error" not in result, result
    return result, json.loads(paths[2].read_text())


@pytest.mark.parametrize(("runner", "tokens"), [("V1", 24), ("V2", 6)])
def test_our_kernels_run_and_vllms_do_not(pair: Path, tmp_path: Path, runner: str, tokens: int) -> None:
    requests = [{"prompt": prompt(19, 1), "max_tokens": tokens, "ignore_eos": True}]
    result, counts = run_counted(tmp_path, {"llm": llm(pair / "target", pair / "SSF", K), "requests": requests}, runner)
    steps = len(result["drafts"][0])
    assert steps > 1
    assert counts["context_kv"] >= steps
    assert counts["mask_fill"] >= steps
    assert [counts[name] for name in counts if name.startswith("vLLM")] == [0, 0, 0]


def test_v1_fills_several_groups_in_one_launch(tmp_path: Path) -> None:
    """Each draft layer lies in a group of its own: the even plan on a target as small as this."""
    tiny_hybrid.target(tmp_path / "target")
    tiny_hybrid.drafter(tmp_path / "SSSSF", "SSSSF", K)
    settings = {"dtype": "bfloat16", "enable_prefix_caching": False, "max_model_len": 1024}
    requests = [{"prompt": prompt(40, 1), "max_tokens": 12, "ignore_eos": True}]
    job = {"llm": llm(tmp_path / "target", tmp_path / "SSSSF", K, **settings), "requests": requests}
    result, counts = run_counted(tmp_path, job, "V1", **engine_path("V1"))
    assert any("4 x 1 DraftWindowSpec" in line for line in result["log"]), result["log"]
    steps = len(result["drafts"][0])
    assert steps > 1
    assert counts["mask_fill"] == steps
    assert counts["vLLM's fill, V1"] == 0


class Attention(SimpleNamespace):
    """What ContextStore reads of vLLM's DFlashQwen3Attention."""


def attentions(dtype: torch.dtype, kind: str = "auto") -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(64, DIM // 2, generator=generator) * 6
    rope = SimpleNamespace(cos_sin_cache=torch.cat([angles.cos(), angles.sin()], 1).to(dtype), is_neox_style=True)
    found = []
    for i in range(LAYERS):
        weight = (torch.rand(DIM, generator=generator) + 0.5).to(dtype)
        pages = torch.zeros(BLOCKS, HEADS, PAGE, 2 * DIM, dtype=torch.uint8 if kind == "fp8" else dtype)
        scales = {"_k_scale": torch.tensor(0.5 + i), "_v_scale": torch.tensor(0.25 + i)}
        layer = SimpleNamespace(layer_name=f"layer {i}", kv_cache=pages, kv_cache_dtype=kind, **scales)
        norm = SimpleNamespace(weight=weight, variance_epsilon=1e-6)
        found.append(Attention(attn=layer, num_kv_heads=HEADS, head_dim=DIM, rotary_emb=rope, k_norm=norm, v_scale=0.5))
    return found


def vllm_store(layers: list[Any], keys: torch.Tensor, values: torch.Tensor, positions: Any, slots: Any) -> None:
    """vLLM's own sequence behind its projection, each layer apart (its CPU norm knows one layer's weight)."""
    from vllm.model_executor.models.qwen3_dflash import DFlashQwen3Model

    from vllm_dflash.engine.attention_torch import store

    for i, attention in enumerate(layers):
        impl = SimpleNamespace(do_kv_cache_update=lambda layer, key, value, pages, rows: store(pages, key, value, rows))
        attention.attn.impl = impl
        one = (keys[i : i + 1].contiguous(), values[i : i + 1].clone())
        model = SimpleNamespace(
            _num_attn_layers=1,
            _kv_size=HEADS * DIM,
            _head_dim=DIM,
            _num_kv_heads=HEADS,
            _rms_norm_eps=1e-6,
            _k_norm_weights=attention.k_norm.weight[None],
            _rope_cos_sin_cache=attention.rotary_emb.cos_sin_cache,
            _rope_head_size=DIM,
            _rope_is_neox=True,
            layers=[SimpleNamespace(self_attn=attention)],
            _attn_layers=[attention.attn],
            _project_context_kv=lambda *_, found=one: found,
        )
        model._normalize_context_k = partial(DFlashQwen3Model._normalize_context_k, model)
        each = slots if isinstance(slots, torch.Tensor) else slots[i]
        DFlashQwen3Model.precompute_and_store_context_kv(model, torch.zeros(ROWS, 1), positions, each)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("groups", [1, 2])
def test_context_store_equals_vllms_sequence(dtype: torch.dtype, groups: int) -> None:
    from vllm_dflash.engine.context_kv_hook import ContextStore

    keys, values = torch.randn(ROWS, LAYERS, 2, HEADS, DIM).to(dtype).permute(2, 1, 0, 3, 4)
    positions = torch.randint(0, 64, (ROWS,))
    buffer = torch.stack([torch.randperm(BLOCKS * PAGE)[:40] for _ in range(3)])
    buffer[:, 4] = -1
    slots: Any = buffer[0][2 : 2 + ROWS] if groups == 1 else [buffer[i][2 : 2 + ROWS] for i in (0, 2, 0)]
    mine, theirs = attentions(dtype), attentions(dtype)
    context = ContextStore(mine)
    assert context.problem() is None
    context.store(keys, values, positions, slots)
    vllm_store(theirs, keys, values, positions, slots)
    for a, b in zip(mine, theirs, strict=True):
        # One rounding more where the order of a sum differs.
        near = {"rtol": torch.finfo(dtype).eps * 2, "atol": torch.finfo(dtype).eps * 4}
        torch.testing.assert_close(a.attn.kv_cache, b.attn.kv_cache, **near)
        assert (a.attn.kv_cache != 0).any()
        assert torch.equal(a.attn.kv_cache[..., DIM:], b.attn.kv_cache[..., DIM:])


def test_context_store_follows_a_cache_that_moves_and_keeps_fp8_as_bytes() -> None:
    from vllm_dflash.engine.context_kv_hook import ContextStore

    layers = attentions(torch.bfloat16, "fp8")
    context = ContextStore(layers)
    values = torch.full((LAYERS, ROWS, HEADS, DIM), 3.0, dtype=torch.bfloat16)
    for _ in range(2):
        for attention in layers:
            attention.attn.kv_cache = torch.zeros_like(attention.attn.kv_cache)
        assert context.problem() is None
        context.store(values, values, torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS))
        for i, attention in enumerate(layers):
            stored = attention.attn.kv_cache.view(torch.float8_e4m3fn)[0, 0, 0, DIM:].float()
            assert torch.equal(stored, (torch.tensor(1.5) / (0.25 + i)).to(torch.float8_e4m3fn).float().expand(DIM))


def test_context_store_says_what_it_cannot_serve() -> None:
    from vllm_dflash.engine.context_kv_hook import ContextStore

    layers = attentions(torch.float32)
    layers[1].attn.kv_cache = layers[1].attn.kv_cache.transpose(1, 2)
    assert "layer 1 has a cache of shape (8, 16, 2, 128)" in str(ContextStore(layers).problem())
    layers = attentions(torch.float32)
    layers[2].attn.kv_cache, layers[2].attn.kv_cache_dtype = (
        layers[2].attn.kv_cache.to(torch.int8),
        "int8_per_token_head",
    )
    assert "int8_per_token_head" in str(ContextStore(layers).problem())
    layers = attentions(torch.float32)
    layers[0].rotary_emb = SimpleNamespace(cos_sin_cache=torch.zeros(9, 10), is_neox_style=True)
    assert "rotate different numbers" in str(ContextStore(layers).problem())


def test_slots_of_one_buffer_become_a_view() -> None:
    from vllm_dflash.engine.context_kv_hook import by_group

    buffer = torch.arange(40).view(4, 10)
    view, rows = by_group([buffer[i, 3:8] for i in (3, 1, 3, 0)], 4)
    assert [view[row].tolist() for row in rows] == [buffer[i, 3:8].tolist() for i in (3, 1, 3, 0)]
    assert view.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()
    apart = [torch.arange(5), torch.arange(5, 10)]
    stacked, rows = by_group([apart[1], apart[0], apart[1]], 3)
    assert [stacked[row].tolist() for row in rows] == [each.tolist() for each in (apart[1], apart[0], apart[1])]
    assert by_group(buffer[2], 3)[1] == by_group([buffer[2]] * 3, 3)[1] == (0, 0, 0)
