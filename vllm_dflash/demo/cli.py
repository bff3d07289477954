# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash demo`: make the demo's models and print where they are."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vllm_dflash.demo.pair import cached_target, prepare_pair
from vllm_dflash.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", type=Path, help="where targets go (default: ~/.cache/vllm-draft-demo)")
    parser.add_argument("--repo", type=Path, help="checkout that holds demo/drafter and demo/mtp")
    parser.add_argument("--target-only", action="store_true", help="only the plain target, for training")
    parser.add_argument("--full-check", action="store_true", help="hash every byte of what is already there")


def run(args: argparse.Namespace) -> int:
    """Prints one `name path` line a folder and returns 0."""
    if args.target_only:
        print("target", cached_target("llama", cache=args.cache, full_check=args.full_check))
        return 0
    pair = prepare_pair(args.cache, args.repo, full_check=args.full_check)
    for name, path in (("target", pair.target), ("mtp_target", pair.mtp_target), ("drafter", pair.drafter)):
        print(name, path)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """`run` on its own; returns 2 after a one-line error."""
    parser = argparse.ArgumentParser(prog="vllm-dflash demo", description=__doc__)
    add_arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
