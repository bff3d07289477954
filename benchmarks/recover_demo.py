# SPDX-License-Identifier: Apache-2.0
"""Strip the demo drafter of its config, recover it on the CPU, compare, and keep everything that was printed.

    taskset -c 0,1 python benchmarks/recover_demo.py OUT

writes config.json, report.txt (the ranking), recover.log (progress), doctor.txt and result.json into OUT.
Exit status 1 when a field that `recover` calls decided is wrong, or doctor finds an error.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vllm_dflash.bench.machine import OtherLoad
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.demo.pair import prepare_pair
from vllm_dflash.fit.reading import Reading
from vllm_dflash.recover.write import NOTE_KEY

COMMAND = [sys.executable, "-c", "from vllm_dflash.cli.main import main; raise SystemExit(main())"]
KEPT = ("config.json",)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", help="as of `recover` (default: its own)")
    parser.add_argument("--work", type=Path, help="where weights and state go, and stay (default: a temporary folder)")
    args = parser.parse_args()
    pair = prepare_pair()
    args.out.mkdir(parents=True, exist_ok=True)
    with nullcontext(args.work) if args.work else tempfile.TemporaryDirectory() as work:
        weights, recovered = Path(work, "weights"), Path(work, "recovered")
        weights.mkdir(parents=True, exist_ok=True)
        shutil.copy(pair.drafter / "model.safetensors", weights)
        words = ["recover", str(weights), "--target", str(pair.target), "--out", str(recovered), "--device", "cpu"]
        words += ["--minutes", args.minutes] if args.minutes else []
        spent = run(words, args.out / "report.txt", args.out / "recover.log", args.threads)
        if spent["exit_status"] > 1:
            return int(spent["exit_status"])
        doctor = ["doctor", str(recovered), "--target", str(pair.target)]
        checked = run(doctor, args.out / "doctor.txt", args.out / "doctor.log", args.threads)
        for name in KEPT:
            shutil.copy(recovered / name, args.out)
        fields = compare(pair.drafter, recovered)
    wrong = [name for name, one in fields.items() if one["decided"] and not one["right"]]
    result = {
        "recover": spent,
        "minutes": args.minutes or "default",
        "doctor": checked,
        "conditions": conditions(args.threads),
        "wrong": wrong,
        "undecided": [name for name, one in fields.items() if not one["decided"]],
        "fields": fields,
    }
    (args.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    for name, one in fields.items():
        print(f"{name:<20} {'right' if one['right'] else 'WRONG'}  {'' if one['decided'] else 'undecided'}")
    print(f"wall {spent['wall_s']} s, CPU {spent['cpu_s']} s, other processes {spent['other_load']}")
    return int(bool(wrong) or checked["exit_status"] == 2)


def run(words: list[str], out: Path, log: Path, threads: int) -> dict[str, Any]:
    """A command's exit status, wall and CPU seconds, peak memory, and the share of the machine that others took."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    before, load, start = resource.getrusage(resource.RUSAGE_CHILDREN), OtherLoad(), time.monotonic()
    with out.open("w") as stdout, log.open("w") as stderr:
        status = subprocess.run(
            [*COMMAND, *words], stdout=stdout, stderr=stderr, env=environment, check=False
        ).returncode
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    busy = load.share()
    other = None if busy is None else round(max(0.0, busy - cpu / wall / (os.cpu_count() or 1)), 3)
    text = log.read_text().replace("\r", "\n")
    log.write_text(text)
    return {
        "exit_status": status, "wall_s": round(wall, 1), "cpu_s": round(cpu, 1),
        "peak_memory_gb": round(after.ru_maxrss / 2**20, 2), "other_load": other,
    }  # fmt: skip


def compare(drafter: Path, recovered: Path) -> dict[str, dict[str, Any]]:
    """Each searched field: what was trained, what came back, whether `recover` called it decided."""
    notes = json.loads((recovered / "config.json").read_text())[NOTE_KEY]["fields"]
    truth, found = (values(Reading.of(load_draft_config(folder))) for folder in (drafter, recovered))
    return {
        name: {"trained": truth[name], "found": found[name], "right": truth[name] == found[name],
               "decided": notes[name]["decided"], "from": notes[name]["from"]}
        for name in truth
    }  # fmt: skip


def values(reading: Reading) -> dict[str, Any]:
    """Under the names that `recover` uses."""
    layers = {
        f"layers.{i}.{part}": getattr(layer, part)
        for i, layer in enumerate(reading.layers)
        for part in ("window", "causal")
    }
    taps = {f"tap_layer_ids.{slot}": tap for slot, tap in enumerate(reading.tap_layer_ids)}
    return {
        **taps, "mask_token_id": reading.mask_token_id, **layers, "rope_theta": reading.layers[0].rope.theta,
        "sample_from_anchor": reading.sample_from_anchor, "block_size": reading.block_size,
    }  # fmt: skip


def conditions(threads: int) -> dict[str, Any]:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "threads": threads,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "vllm-dflash")},
    }


if __name__ == "__main__":
    raise SystemExit(main())
