# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash doctor`: what a drafter means, whether it fits its target, what stock vLLM would make of it.

Takes seconds, no GPU, loads no weights, needs no vLLM. With --probe both models are loaded and a few prompts are run
through the reference: that tells a wrong engine from a misread config and from a drafter that does not fit.
Exit status 0 fine, 1 warnings, 2 errors or bad input.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from vllm_dflash.checkpoint import is_foreign_draft
from vllm_dflash.doctor.examine import Examination, by_level, examine
from vllm_dflash.doctor.report import as_dict, as_text
from vllm_dflash.doctor.stock import KNOWN_VERSIONS
from vllm_dflash.errors import UserError


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
    group = parser.add_argument_group("probe")
    group.add_argument("--probe", action="store_true", help="load both models and draft for a few prompts (minutes)")
    group.add_argument("--probe-prompts", type=int, default=8, metavar="N", help="how many (default: %(default)s)")
    group.add_argument("--prompts", type=Path, metavar="FILE", help="JSONL with prompt or messages a line")
    group.add_argument("--probe-tokens", type=int, default=160, help="most tokens of an answer (default: %(default)s)")
    group.add_argument("--device", default="auto", help="auto, cuda or cpu")


def run(args: argparse.Namespace) -> int:
    foreign = is_foreign_draft(args.drafter, revision=args.revision)
    if foreign is not None:
        line = f"this is a {foreign} drafter: vLLM serves it itself, the plugin leaves it untouched"
        print(json.dumps({"drafter": args.drafter, "foreign": foreign, "exit_status": 0}) if args.json else line)
        return 0
    found = examine(args.drafter, args.target, vllm_version=args.vllm_version, revision=args.revision)
    if args.probe:
        found = _probed(found, args)
    print(json.dumps(as_dict(found), indent=2) if args.json else as_text(found))
    return found.exit_status


def _probed(found: Examination, args: argparse.Namespace) -> Examination:
    from vllm_dflash.doctor.probe import probe
    from vllm_dflash.doctor.probe_findings import probe_findings
    from vllm_dflash.fit.local_model import check_weights, local_model
    from vllm_dflash.train.target_model import pick_device

    if args.target is None:
        raise UserError("--probe needs the target", field="--target", found=None, needed="a folder with weights")
    if args.probe_tokens < 8:
        raise UserError("too few tokens", field="--probe-tokens", found=args.probe_tokens, needed="at least 8")
    check_weights(local_model(args.drafter, args.revision), "the drafter's")
    measured = probe(
        found.config,
        args.target,
        prompts=args.probe_prompts,
        file=args.prompts,
        answer_tokens=args.probe_tokens,
        device=pick_device(args.device),
    )
    return replace(found, probe=measured, findings=by_level([*found.findings, *probe_findings(measured)]))
