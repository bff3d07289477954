# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash demo`: make the demo's models and print where they are."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vllm_dflash.demo.pair import cached_target, prepare_pair
from vllm_dflash.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Prints one `name path` line a folder. Returns 0, or 2 after a one-line error."""
    parser = argparse.ArgumentParser(prog="vllm-dflash demo", description=__doc__)
    parser.add_argument("--cache", type=Path, help="where targets go (default: ~/.cache/vllm-dflash)")
    parser.add_argument("--repo", type=Path, help="checkout that holds demo/drafter and demo/mtp")
    parser.add_argument("--target-only", action="store_true", help="only the plain target, for training")
    parser.add_argument("--full-check", action="store_true", help="hash every byte of what is already there")
    options = parser.parse_args(argv)
    try:
        if options.target_only:
            print("target", cached_target("llama", cache=options.cache, full_check=options.full_check))
            return 0
        pair = prepare_pair(options.cache, options.repo, full_check=options.full_check)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, path in (("target", pair.target), ("mtp_target", pair.mtp_target), ("drafter", pair.drafter)):
        print(name, path)
    return 0
