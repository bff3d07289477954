# SPDX-License-Identifier: Apache-2.0
"""What the plugin needs of vLLM is there: in the installed release, and in the sources of others.

VLLM_DFLASH_VLLM_SOURCES: folders (separated as in PATH) that each hold a release's `vllm` package, to be checked too.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts import check_needs
from tests.engine.conftest import environment
from vllm_dflash.engine.need import Need

OTHERS = [Path(folder) for folder in os.environ.get("VLLM_DFLASH_VLLM_SOURCES", "").split(os.pathsep) if folder]
MODULES = {
    "__init__": "from .base import Base as Renamed",
    "base": """
from dataclasses import dataclass

class Base:
    shared = True
    bare: int

    def __init__(self, a, *, b=1, **rest):
        self.kept = a

    @classmethod
    def made(cls, size): ...

@dataclass
class Record:
    first: int
    second: int = 2
""",
    "top": """
try:
    from needs_sample import Renamed
except ImportError:
    raise
from needs_sample import base

class Child(Renamed):
    def act(self, x, y): return self.seen

class More(base.Record):
    third: int = 3

only = Child(1)
if True:
    def chosen(p, q): ...
""",
}
MET = [
    Need("needs_sample.top", "Child.shared"),
    Need("needs_sample.top", "Child.__init__", ("self", "a"), accepts=("b",), mentions=("kept",)),
    Need("needs_sample.top", "Child.made", ("size",)),
    Need("needs_sample.top", "Child.act", ("self", "x", "y"), mentions=("seen",)),
    Need("needs_sample.top", "only.act"),
    Need("needs_sample.top", "chosen", ("p",)),
    Need("needs_sample.top", "More", fields=("first", "second")),
    Need("needs_sample.top", "base.Record"),
]
CHILD = "needs_sample.top:Child"
NOT_MET = [
    (Need("needs_sample.top", "Child.other"), f"{CHILD}.other is missing"),
    (Need("needs_sample.top", "Child.bare"), f"{CHILD}.bare is missing"),
    (Need("needs_sample.none", "x"), "needs_sample.none:x is missing"),
    (
        Need("needs_sample.top", "Child.act", ("self", "y")),
        f"{CHILD}.act takes (self, x, y), needed (self, y)",
    ),
    (Need("needs_sample.top", "chosen", accepts=("r",)), "needs_sample.top:chosen takes (p, q), needed (r)"),
    (
        Need("needs_sample.top", "Child.__init__", mentions=("lost",)),
        f"{CHILD}.__init__ has no use of lost",
    ),
    (Need("needs_sample.base", "Record", fields=("first", "x")), "needs_sample.base:Record has no field x"),
]


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> check_needs.Source:
    for name, text in MODULES.items():
        file = tmp_path / "needs_sample" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return check_needs.Source(tmp_path)


@pytest.mark.parametrize(("need", "problem"), [*((need, None) for need in MET), *NOT_MET])
def test_source_and_import_agree(sample: check_needs.Source, need: Need, problem: str | None) -> None:
    assert need.missing() == problem
    assert need.problem(sample.look(need)) == problem
    for name in [name for name in sys.modules if name.startswith("needs_sample")]:
        del sys.modules[name]


def test_everything_needed_is_in_the_installed_vllm() -> None:
    code = (
        "from vllm_dflash.engine import probe\n"
        "print([n.missing() for needs in probe.ALL_NEEDS.values() for n in needs if n.missing()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment("V1"), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr[-2000:]


def installed() -> Path:
    spec = find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.parent


@pytest.mark.parametrize("folder", [installed(), *OTHERS], ids=str)
def test_everything_needed_is_in_the_sources(folder: Path) -> None:
    assert check_needs.problems(folder) == []
