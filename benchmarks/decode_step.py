# SPDX-License-Identifier: Apache-2.0
"""Time of a decode step at Qwen3.6-27B dimensions, random weights: stock DFlash, or this plugin's, or no speculation.

Target: 64 layers (48 gated-delta-net, 16 full attention with 24/4 heads of 256), hidden 5120, FFN 17408, vocabulary
248320. Drafter: 5 layers SSSSF, window 2048, 32/8 heads of 128, FFN 17408, taps 1,16,31,46,61, block 16. bf16.
Synthetic verification rejects every draft token, so that each step yields one token and always drafts k. A step is
(time of n2 tokens - time of n1 tokens) / (n2 - n1), best of the repeats; a profile gives every kernel of a step.

    python benchmarks/decode_step.py --method dflash --save ours.json
    VLLM_DFLASH=0 python benchmarks/decode_step.py --method dflash --save stock.json
    python benchmarks/decode_step.py --method none --save none.json
"""

import argparse
import json
import os
import struct
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

DIMENSIONS: dict[str, dict[str, Any]] = {
    "27b": {
        "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64, "num_attention_heads": 24,
        "num_key_value_heads": 4, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
        "vocab_size": 248320, "draft_heads": 32, "draft_kv_heads": 8, "draft_head_dim": 128,
        "taps": [1, 16, 31, 46, 61], "window": 2048,
    },
    "tiny": {
        "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 64, "linear_num_key_heads": 1, "linear_num_value_heads": 2,
        "vocab_size": 256, "draft_heads": 4, "draft_kv_heads": 2, "draft_head_dim": 32,
        "taps": [0, 1, 3, 4, 6], "window": 64,
    },
}  # fmt: skip
BLOCK = 16
FILLS = ("_prepare_dflash_inputs", "_mask_fill")  # vLLM's kernel and ours
Event = tuple[float, float, str]  # start, end in microseconds, name


def write_target(folder: Path, size: dict[str, Any]) -> Path:
    """config.json of a text-only Qwen3.5 model; its weights are dummies."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {k: v for k, v in size.items() if not k.startswith("draft") and k not in ("taps", "window")}
    config = own | {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "layer_types": [
            "full_attention" if i % 4 == 3 else "linear_attention" for i in range(size["num_hidden_layers"])
        ],
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "attn_output_gate": True,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 262144,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        "tie_word_embeddings": False,
        "mamba_ssm_dtype": "float32",
        "dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder


def write_drafter(folder: Path, size: dict[str, Any]) -> Path:
    """config.json and a sparse safetensors file: a true header, no data."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden, ffn, dim = size["hidden_size"], size["intermediate_size"], size["draft_head_dim"]
    heads, kv_heads, layers = size["draft_heads"], size["draft_kv_heads"], len(size["taps"])
    config = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": dim,
        "vocab_size": size["vocab_size"],
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e7,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "block_size": BLOCK,
        "num_target_layers": size["num_hidden_layers"],
        "use_sliding_window": True,
        "sliding_window": size["window"],
        "layer_types": ["sliding_attention"] * (layers - 1) + ["full_attention"],
        "dflash_config": {"mask_token_id": 2, "target_layer_ids": size["taps"]},
        "dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    shapes: dict[str, list[int]] = {
        "fc.weight": [hidden, hidden * len(size["taps"])],
        "hidden_norm.weight": [hidden],
        "norm.weight": [hidden],
    }
    for i in range(layers):
        shapes |= {
            f"layers.{i}.input_layernorm.weight": [hidden],
            f"layers.{i}.post_attention_layernorm.weight": [hidden],
            f"layers.{i}.self_attn.q_proj.weight": [heads * dim, hidden],
            f"layers.{i}.self_attn.k_proj.weight": [kv_heads * dim, hidden],
            f"layers.{i}.self_attn.v_proj.weight": [kv_heads * dim, hidden],
            f"layers.{i}.self_attn.o_proj.weight": [hidden, heads * dim],
            f"layers.{i}.self_attn.q_norm.weight": [dim],
            f"layers.{i}.self_attn.k_norm.weight": [dim],
            f"layers.{i}.mlp.gate_proj.weight": [ffn, hidden],
            f"layers.{i}.mlp.up_proj.weight": [ffn, hidden],
            f"layers.{i}.mlp.down_proj.weight": [hidden, ffn],
        }
    header, at = {}, 0
    for name, shape in shapes.items():
        size_ = 2 * (shape[0] * shape[1] if len(shape) == 2 else shape[0])
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size_]}
        at += size_
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return folder


def prompts_of(batch: int, length: int, vocabulary: int) -> list[dict[str, list[int]]]:
    return [
        {"prompt_token_ids": [3 + (31 * i + 7 * b) % (vocabulary - 3) for i in range(length)]} for b in range(batch)
    ]


def measure(llm: Any, prompts: list[Any], lengths: tuple[int, int], repeats: int) -> dict[str, Any]:
    """Milliseconds a step with these prompts running together."""
    from vllm import SamplingParams

    def run(tokens: int) -> float:
        sampling = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
        start = time.perf_counter()
        done = llm.generate(prompts, sampling, use_tqdm=False)
        assert all(len(one.outputs[0].token_ids) == tokens for one in done)
        return time.perf_counter() - start

    run(lengths[0])
    times = [[run(n) for n in lengths] for _ in range(repeats)]
    short, long = (min(column) for column in zip(*times, strict=True))
    return {
        "batch": len(prompts),
        "ms_a_step": 1000 * (long - short) / (lengths[1] - lengths[0]),
        "seconds": times,
        "tokens": lengths,
    }


def device_activities(llm: Any, prompts: list[Any], steps: int = 24) -> list[Event]:
    """Every device activity of a run of `steps` decode steps, in order."""
    import torch
    from vllm import SamplingParams

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=steps + 1, ignore_eos=True), use_tqdm=False)
        torch.cuda.synchronize()
    events = sorted(
        (e.time_range.start, e.time_range.end, e.name) for e in profile.events() if "CUDA" in str(e.device_type)
    )
    return events


def steps_of(events: list[Event]) -> list[list[Event]]:
    """Full steps, each from the filling of the draft's inputs to the next, without the first three and the last."""
    fills = [i for i, (_, _, name) in enumerate(events) if any(word in name for word in FILLS)]
    starts = [i for previous, i in zip([-(10**9), *fills], fills, strict=False) if i - previous > 100]
    return [events[start:stop] for start, stop in pairwise(starts[3:])]


def draft_part(step: list[Event]) -> list[Event]:
    """Up to the argmax over the draft's logits: the first reduction behind the longest matrix product, the head's."""
    head = max((i for i, one in enumerate(step[:220]) if "nvjet" in one[2]), key=lambda i: step[i][1] - step[i][0])
    last = next(i for i in range(head, head + 8) if "reduce_kernel" in step[i][2])
    return step[: last + 1]


def summary(events: list[Event]) -> dict[str, Any]:
    """Medians over the steps: microseconds and launches of the draft part and of the step."""
    steps = steps_of(events)
    parts = [draft_part(step) for step in steps]
    return {
        "steps": len(steps),
        "draft_us": median(part[-1][1] - part[0][0] for part in parts),
        "draft_busy_us": median(sum(end - start for start, end, _ in part) for part in parts),
        "draft_kernels": median(sum(not name.startswith(("Memcpy", "Memset")) for *_, name in part) for part in parts),
        "draft_activities": median(len(part) for part in parts),
        "step_activities": median(len(step) for step in steps),
    }


def write_step(step: list[Event], path: Path) -> None:
    """One line a device activity: microseconds since the step's start, microseconds, name without its parameters."""
    lines = [f"{start - step[0][0]:10.1f} {end - start:7.1f} {name.split('<')[0][:90]}" for start, end, name in step]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", choices=["none", "dflash"], default="dflash")
    parser.add_argument("--dims", choices=sorted(DIMENSIONS), default="27b")
    parser.add_argument("-k", type=int, default=15)
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--prompt-len", type=int, default=512)
    parser.add_argument("--tokens", default="16,80", help="n1,n2")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="also record every kernel of a step (CUDA)")
    parser.add_argument(
        "--wait-for", type=Path, help="measure when this file exists: other work on the card may end first"
    )
    parser.add_argument("--engine-args", default="{}", help="JSON, over this script's")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/decode_step"), help="for the two configs")
    parser.add_argument("--save", type=Path, required=True)
    options = parser.parse_args()

    from vllm import LLM

    from vllm_dflash.bench.conditions import describe_run

    size = DIMENSIONS[options.dims]
    batches = [int(b) for b in options.batch.split(",")]
    n1, n2 = (int(n) for n in options.tokens.split(","))
    arguments: dict[str, Any] = {
        "model": str(write_target(options.folder / "target", size)),
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "dtype": "bfloat16",
        "max_model_len": 40960,
        "max_num_seqs": max(batches),
        "enable_prefix_caching": False,
        "gdn_prefill_backend": "triton",
        "seed": 0,
    }
    if options.method == "dflash":
        arguments["speculative_config"] = {
            "method": "dflash",
            "model": str(write_drafter(options.folder / "draft", size)),
            "num_speculative_tokens": options.k,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": 1.0,
        }
    arguments |= json.loads(options.engine_args)
    start = time.perf_counter()
    llm = LLM(**arguments)
    result: dict[str, Any] = {"conditions": describe_run(), "method": options.method, "engine": arguments}
    result["start_s"] = time.perf_counter() - start
    print(f"{options.method}: engine ready after {result['start_s']:.0f} s", flush=True)
    while options.wait_for and not options.wait_for.exists():
        time.sleep(0.1)
    result["rows"] = []
    for batch in batches:
        prompts = prompts_of(batch, options.prompt_len, size["vocab_size"])
        row = measure(llm, prompts, (n1, n2), options.repeats) | {"prompt": options.prompt_len}
        result["rows"].append(row)
        print(f"batch {batch}: {row['ms_a_step']:.2f} ms a step", flush=True)
        options.save.write_text(json.dumps(result, indent=1, default=str))
    if options.profile:
        for batch in batches:
            events = device_activities(llm, prompts_of(batch, options.prompt_len, size["vocab_size"]))
            result.setdefault("profiles", []).append({"batch": batch} | summary(events))
            print(f"batch {batch}: {result['profiles'][-1]}", flush=True)
            write_step(steps_of(events)[6], options.save.with_suffix(f".step-{batch}.txt"))
            options.save.write_text(json.dumps(result, indent=1, default=str))


if __name__ == "__main__":
    main()
