# SPDX-License-Identifier: Apache-2.0
"""Context K/V on a CUDA device: our one launch, vLLM's sequence, and vLLM's fused kernel for the Beam drafter.

Qwen3.6-27B's drafter: 5 layers, 8 KV heads of 128, bf16, pages of 16. What is timed starts after the projection: its
output is read, K is normalised and rotated, K and V reach the pages. vLLM's sequence is vLLM's own method, run on a
stand-in for the model that hands it the projection's output (copied apart, as vLLM does); without vLLM, the same steps
in torch. `--whole` times input norm and projection too. Inputs and caches rotate; 20 launches in one CUDA graph, median
of 15 replays. Bytes: K and V, read once and written once.

    python benchmarks/context_kv.py --save results.json
    python benchmarks/context_kv.py --sweep      # our kernel with other tiles
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.nn.functional as F

from vllm_dflash.bench.conditions import describe_run
from vllm_dflash.bench.gpu_timing import copy_rate, time_graph
from vllm_dflash.kernels.context_kv import context_kv, launch
from vllm_dflash.kernels.context_kv_arguments import ContextLayers
from vllm_dflash.reference.context_kv import ContextLayer, rms_norm, rotate

ROWS = (1, 8, 16, 64, 256, 1024, 8192)
LAYERS, HEADS, DIM, PAGE, HIDDEN, EPS = 5, 8, 128, 16, 5120, 1e-6
L2_BYTES = 160e6
BF16 = torch.bfloat16


def bytes_of(rows: int) -> int:
    return rows * LAYERS * 2 * HEADS * DIM * 2 * 2


class Inputs:
    """The projection's output for some rows, with caches of its own; pages in random order."""

    def __init__(self, rows: int, seed: int) -> None:
        generator = torch.Generator("cuda").manual_seed(seed)
        options: dict[str, Any] = {"device": "cuda", "dtype": BF16, "generator": generator}
        self.rows = rows
        pages = max(256, rows // PAGE + 1)
        self.states = torch.randn(rows, HIDDEN, **options)
        self.weight = torch.empty(0)
        self.kv = torch.randn(rows, LAYERS, 2, HEADS, DIM, **options)
        self.caches = [torch.zeros(pages, HEADS, PAGE, 2 * DIM, device="cuda", dtype=BF16) for _ in range(LAYERS)]
        order = torch.randperm(pages, device="cuda", generator=generator)
        self.positions = torch.arange(rows, device="cuda") + 1000
        self.slots = order[torch.arange(rows, device="cuda") // PAGE] * PAGE + torch.arange(rows, device="cuda") % PAGE
        self.norm_weights = torch.rand(LAYERS, DIM, **options) + 0.5
        angles = torch.rand(16384, DIM // 2, device="cuda", generator=generator) * 6.3
        self.rope = torch.cat([angles.cos(), angles.sin()], 1).to(BF16)
        layers = [
            ContextLayer(paged[..., :DIM], paged[..., DIM:], weight, self.rope)
            for paged, weight in zip(self.caches, self.norm_weights, strict=True)
        ]
        self.layers = ContextLayers(layers, BF16, eps=EPS)
        self.addresses = torch.tensor([paged.data_ptr() for paged in self.caches], device="cuda")
        self.stand_in: Any = None

    def ours(self, tile: tuple[int, int] | None = None) -> None:
        keys, values = self.kv.permute(2, 1, 0, 3, 4)
        if tile is not None:
            launch(keys, values, self.positions, self.slots[None], self.layers, *tile)
        else:
            context_kv(keys, values, self.positions, self.slots[None], self.layers)

    def stock(self) -> None:
        from vllm.model_executor.models.qwen3_dflash import DFlashQwen3Model

        if self.stand_in is None:
            self.stand_in = stand_in_model(self)
        DFlashQwen3Model.precompute_and_store_context_kv(self.stand_in, self.states, self.positions, self.slots)

    def beam(self) -> None:
        beam_ops().store_context_kv(
            self.kv, self.norm_weights, self.positions, self.rope, self.addresses, self.slots, self.caches[0], EPS
        )

    def in_torch(self) -> None:
        """What vLLM's sequence does, step by step, without vLLM's kernels."""
        keys, values = self.kv.permute(2, 1, 0, 3, 4).contiguous()
        for key, value, weight, paged in zip(keys, values, self.norm_weights, self.caches, strict=True):
            key = rotate(rms_norm(key, weight, EPS), self.positions, self.rope, True)
            block, offset = self.slots // PAGE, self.slots % PAGE
            paged[block, :, offset, :DIM] = key
            paged[block, :, offset, DIM:] = value


@cache
def beam_ops() -> Any:
    """vLLM's file with that kernel, by path: its package imports the whole Beam model, with CUDA DSLs of its own."""
    import vllm

    path = Path(vllm.__file__).parent / "models/beam/nvidia/dflash2_context_ops.py"
    spec = importlib.util.spec_from_file_location("vllm_beam_context_ops", path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"{path} is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in_model(inputs: Inputs) -> Any:
    """The attributes of vLLM's draft model that its method reads, over these inputs."""
    from vllm.model_executor.models.qwen3_dflash import DFlashQwen3Model
    from vllm.v1.attention.backends.flash_attn import FlashAttentionImpl

    impl = SimpleNamespace(attn_type="decoder", head_size=DIM, kv_cache_dtype="auto")
    impl.do_kv_cache_update = partial(FlashAttentionImpl.do_kv_cache_update, impl)
    one = torch.ones(1, device="cuda")
    model = SimpleNamespace(
        _num_attn_layers=LAYERS, _kv_size=HEADS * DIM, _head_dim=DIM, _num_kv_heads=HEADS, _rms_norm_eps=EPS,
        _k_norm_weights=inputs.norm_weights, _rope_cos_sin_cache=inputs.rope, _rope_head_size=DIM, _rope_is_neox=True,
        layers=[SimpleNamespace(self_attn=SimpleNamespace(v_scale=None))],
        _attn_layers=[SimpleNamespace(kv_cache=c, impl=impl, _k_scale=one, _v_scale=one) for c in inputs.caches],
        _hidden_norm_weight=torch.ones(HIDDEN, device="cuda", dtype=BF16), _fused_kv_weight=inputs.weight,
        _fused_kv_bias=None,
    )  # fmt: skip
    model._normalize_context_k = partial(DFlashQwen3Model._normalize_context_k, model)
    if inputs.weight.numel():
        model._project_context_kv = partial(DFlashQwen3Model._project_context_kv, model)
    else:
        model._project_context_kv = lambda *_: tuple(inputs.kv.permute(2, 1, 0, 3, 4).contiguous())
    return model


def with_projection(inputs: Inputs, weight: torch.Tensor) -> Callable[[Inputs], None]:
    """Ours after vLLM's input norm and the projection."""
    from vllm import _custom_ops as ops

    ones = torch.ones(HIDDEN, device="cuda", dtype=BF16)

    def run(one: Inputs) -> None:
        normed = torch.empty_like(one.states)
        ops.rms_norm(normed, one.states, ones, EPS)
        keys, values = F.linear(normed, weight).view(one.rows, LAYERS, 2, HEADS, DIM).permute(2, 1, 0, 3, 4)
        context_kv(keys, values, one.positions, one.slots[None], one.layers)

    return run


def compared(method: Callable[[Inputs], None], inputs: Inputs) -> float:
    """Largest difference, over all caches, between this method and ours."""
    found = []
    for run in (Inputs.ours, method):
        for paged in inputs.caches:
            paged.zero_()
        run(inputs)
        found.append(torch.stack(inputs.caches).float())
    return (found[0] - found[1]).abs().max().item()


def measure(rows: int, methods: dict[str, Callable[[Inputs], None]], rate: float, whole: bool) -> dict[str, Any]:
    count = max(2, min(20, int(L2_BYTES / bytes_of(rows)) + 1))
    inputs = [Inputs(rows, seed) for seed in range(count)]
    if whole:
        weight = torch.randn(LAYERS * 2 * HEADS * DIM, HIDDEN, device="cuda", dtype=BF16) * 0.02
        for one in inputs:
            one.weight = weight
        methods = {"ours": with_projection(inputs[0], weight), "vLLM": Inputs.stock}
    row: dict[str, Any] = {"rows": rows, "bytes": bytes_of(rows), "copy_TB_s": rate, "projection": whole}
    for name, method in methods.items():
        try:
            timing = time_graph([partial(method, one) for one in inputs])
            apart = None if whole else compared(method, inputs[0])
        except Exception as error:
            row[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
            continue
        row[name] = asdict(timing) | {
            "TB_s": timing.rate(bytes_of(rows)), "of_copy": timing.rate(bytes_of(rows)) / rate, "apart": apart,
        }  # fmt: skip
    return row


def line(row: dict[str, Any]) -> str:
    cells = []
    for name, found in row.items():
        if not isinstance(found, dict):
            continue
        if "error" in found:
            cells.append(f"{name}: {found['error'][:60]}")
            continue
        times = found["median"] / row["ours"]["median"]
        apart = "" if found["apart"] is None else f" apart {found['apart']:.3g}"
        cells.append(
            f"{name}: {found['median']:8.2f} us {found['TB_s']:5.2f} TB/s {found['of_copy']:4.0%} x{times:.2f}{apart}"
        )
    return f"{row['rows']:5d} rows {row['bytes'] / 1e6:7.2f} MB  " + " | ".join(cells)


def sweep(rate: float) -> list[dict[str, Any]]:
    tiles = [(block, warps) for block in (4, 8, 16, 32, 64) for warps in (1, 2, 4, 8)]
    found = []
    for rows in (16, 64, 256, 1024, 8192):
        row = measure(rows, {"ours": Inputs.ours, **{str(t): partial(Inputs.ours, tile=t) for t in tiles}}, rate, False)
        order = sorted((str(t) for t in tiles), key=lambda name: row[name].get("median", 1e9))
        print(f"{rows} rows, ours {row['ours']['median']:.2f} us; tile, us:", end=" ")
        print(", ".join(f"{name} {row[name]['median']:.2f}" for name in order[:6]), flush=True)
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, help="JSON file to write")
    parser.add_argument("--sweep", action="store_true", help="our kernel only, with other tiles")
    parser.add_argument("--whole", action="store_true", help="with input norm and projection (needs vLLM)")
    options = parser.parse_args()
    rate = copy_rate()
    print(f"{torch.cuda.get_device_name()}: copy {rate:.2f} TB/s")
    if options.sweep:
        rows = sweep(rate)
    else:
        methods: dict[str, Callable[[Inputs], None]] = {"ours": Inputs.ours}
        try:
            import vllm  # noqa: F401

            methods |= {"vLLM": Inputs.stock, "vLLM Beam": Inputs.beam}
        except ImportError as problem:
            print(f"vLLM is not importable ({problem}): the rival is torch, not vLLM's kernels")
            methods["torch"] = Inputs.in_torch
        rows = []
        for count in ROWS:
            rows.append(measure(count, methods, rate, options.whole))
            print(line(rows[-1]), flush=True)
    if options.save:
        options.save.write_text(json.dumps({"conditions": describe_run(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
