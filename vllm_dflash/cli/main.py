# SPDX-License-Identifier: Apache-2.0
"""`vllm-dflash COMMAND`. A command's module is imported only when it is the one asked for.

Each such module has `add_arguments(parser)` and `run(args) -> int`.
"""

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec

from vllm_dflash import __version__
from vllm_dflash.errors import UserError

COMMANDS = {
    "doctor": ("vllm_dflash.cli.doctor", "say what a drafter checkpoint means and whether that can be right"),
    "recover": ("vllm_dflash.cli.recover", "write the config.json of a drafter that came without one"),
    "train": ("vllm_dflash.cli.train", "train a drafter, or an MTP head, for a target"),
    "bench": ("vllm_dflash.cli.bench", "measure tokens/s, acceptance and break-even of several methods"),
    "demo": ("vllm_dflash.cli.demo", "prepare the demo pair"),
    "env": ("vllm_dflash.cli.env", "show versions, device and the plugin's state"),
}


def available() -> dict[str, tuple[str, str]]:
    """The commands that this installation has."""
    return {name: entry for name, entry in COMMANDS.items() if find_spec(entry[0])}


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The whole parser; only the chosen command's own options are filled in."""
    parser = argparse.ArgumentParser(
        prog="vllm-dflash", description="DFlash speculative decoding for stock vLLM."
    )
    parser.add_argument("--version", action="version", version=f"vllm-dflash {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module_name, summary) in available().items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == chosen:
            module = import_module(module_name)
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 done, 1 a command found something wrong, 2 bad input (one line on stderr)."""
    words = sys.argv[1:] if argv is None else argv
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        args = build_parser(chosen).parse_args(words)
        return int(args.run(args))
    except UserError as problem:
        print(f"vllm-dflash: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vllm-dflash: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
