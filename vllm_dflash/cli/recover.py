# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash recover`: the config.json of a drafter that came without one, or with a part of one.

Exit status 0 when every field was decided, 1 when some were not (the usual value was written), 2 for bad input.
"""

import argparse
import json
from pathlib import Path

MINUTES = 8.0
DEFAULTS = {"samples": 48, "answer_tokens": 256, "anchors": 16}
HELP = {
    "samples": "prompts that the target answers",
    "answer_tokens": "most tokens of an answer; windows beyond prompt and answer cannot be told",
    "anchors": "blocks drafted in each answer",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write the config.json of a drafter that came without one, or with a part of one. Sizes come from the tensors. "
        "Taps, mask token, windows, causality, rope and block size are found by how well the drafter then predicts "
        "what the target writes; for what is then still undecided, more answers are made. Start it again to go on "
        "after an interruption."
    )
    parser.add_argument("drafter", metavar="DRAFTER", help="folder or hub id with the drafter's *.safetensors")
    parser.add_argument("--target", metavar="TARGET", required=True, help="folder or hub id of the target model")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder for config.json and the weights")
    parser.add_argument("--revision", help="of the drafter, when it is a hub id")
    parser.add_argument(
        "--prompts", type=Path, help="FILE.jsonl with prompt or messages a line (default: built-in ones)"
    )
    parser.add_argument("--ignore-config", action="store_true", help="search even what the drafter's config.json says")
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        help="when this much time has passed since the start, no more answers are made for fields that the search left "
        "undecided, and the result is written (default: %(default)s; 0: none at all). The search itself is not cut "
        "short. A later start with more minutes goes on from there",
    )
    parser.add_argument("--device", default="auto", help="auto, cuda or cpu")
    parser.add_argument("--json", action="store_true", help="print JSON")
    for name, text in HELP.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, default=DEFAULTS[name], help=f"{text} (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    from vllm_dflash.recover.report import lines
    from vllm_dflash.recover.run import Options, recover
    from vllm_dflash.recover.write import NOTE_KEY

    numbers = {name: getattr(args, name) for name in DEFAULTS}
    options = Options(
        args.drafter,
        args.target,
        args.out,
        args.prompts,
        ignore_config=args.ignore_config,
        revision=args.revision,
        device=args.device,
        minutes=args.minutes,
        **numbers,
    )
    found = recover(options)
    if args.json:
        print(json.dumps(json.loads((args.out / "config.json").read_text())[NOTE_KEY], indent=2))
    else:
        print("\n".join(lines(found.verdicts)))
        print(f"wrote {args.out / 'config.json'}: {found.config.describe_layers()}")
    return 0 if all(one.decided for one in found.verdicts) else 1
