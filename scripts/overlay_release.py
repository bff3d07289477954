# SPDX-License-Identifier: Apache-2.0
"""Python files of one vLLM release over the compiled extensions of a CPU build of another, to run tests on it.

There is no CPU build of every release. Its Python code mostly runs on the extensions of the one before:

    python scripts/overlay_release.py SOURCE/site-packages CPU/site-packages OUT
    VLLM_TARGET_DEVICE=cpu PYTHONPATH=OUT:. python -m pytest tests/engine

Extensions are links; the release calls itself VERSION+cpu, by which vLLM knows a CPU build. Exit status 1 where a
folder holds no vLLM.
"""

import argparse
import shutil
import sys
from pathlib import Path


def overlay(source: Path, build: Path, out: Path) -> str:
    """Writes OUT/vllm and its metadata; returns the version. OSError names what is missing, or there already."""
    infos = sorted(source.glob("vllm-*.dist-info"))
    if len(infos) != 1:
        raise FileNotFoundError(f"{len(infos)} folders vllm-*.dist-info in {source}, needed one")
    info = infos[0]
    lines = (info / "METADATA").read_text().splitlines()
    versions = [line.removeprefix("Version: ") for line in lines if line.startswith("Version: ")]
    if not versions:
        raise FileNotFoundError(f"no line Version: in {info / 'METADATA'}")
    version = versions[0].split("+")[0]
    extensions = sorted((build / "vllm").glob("*.so"))
    if not extensions:
        raise FileNotFoundError(f"no compiled extension in {build / 'vllm'}")
    shutil.copytree(source / "vllm", out / "vllm", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for extension in extensions:
        (out / "vllm" / extension.name).symlink_to(extension.resolve())
    target = out / f"vllm-{version}+cpu.dist-info"
    shutil.copytree(info, target)
    text = "\n".join(f"Version: {version}+cpu" if line.startswith("Version: ") else line for line in lines)
    (target / "METADATA").write_text(text + "\n")
    return version


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder with the release's vllm and its metadata")
    parser.add_argument("build", type=Path, help="folder with an installed CPU build")
    parser.add_argument("out", type=Path, help="folder to make")
    given = parser.parse_args()
    try:
        version = overlay(given.source, given.build, given.out)
    except OSError as error:
        print(f"overlay_release: {error}", file=sys.stderr)
        return 1
    print(f"{given.out}: vLLM {version} on the extensions of {given.build}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
