# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash doctor`: what a drafter means, whether it fits its target, what stock vLLM would make of it.

Takes seconds, no GPU, loads no weights, needs no vLLM. Exit status 0 fine, 1 warnings, 2 errors or bad input.
"""

import argparse
import json

from vllm_dflash.checkpoint import is_foreign_draft
from vllm_dflash.doctor.examine import examine
from vllm_dflash.doctor.report import as_dict, as_text
from vllm_dflash.doctor.stock import KNOWN_VERSIONS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("drafter", metavar="DRAFTER", help="folder or hub id of the drafter")
    parser.add_argument("--target", metavar="TARGET", help="folder or hub id of the target model")
    parser.add_argument("--revision", help="of the drafter, when it is a hub id")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--vllm-version",
        choices=("installed", *KNOWN_VERSIONS),
        default="installed",
        help="whose behaviour to compare with (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    foreign = is_foreign_draft(args.drafter, revision=args.revision)
    if foreign is not None:
        line = f"this is a {foreign} drafter: vLLM serves it itself, the plugin leaves it untouched"
        print(
            json.dumps({"drafter": args.drafter, "foreign": foreign, "exit_status": 0}) if args.json else line
        )
        return 0
    found = examine(args.drafter, args.target, vllm_version=args.vllm_version, revision=args.revision)
    print(json.dumps(as_dict(found), indent=2) if args.json else as_text(found))
    return found.exit_status
