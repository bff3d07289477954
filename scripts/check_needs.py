# SPDX-License-Identifier: Apache-2.0
"""Does a vLLM release have every name that the plugin needs? Answered from its source, without importing it.

    python scripts/check_needs.py FOLDER...

FOLDER holds a release's `vllm` package: site-packages, or an unpacked wheel of a release that cannot be imported here.
Prints each need that is not met; exit status 1 when there is one.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vllm_dflash.engine import probe
from vllm_dflash.engine.need import Found, Need
from vllm_dflash.engine.needs.kv_groups import PLANNING_NEEDS

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """A definition and the module that it stands in."""

    module: str
    node: ast.AST


class Source:
    """The modules under one folder, parsed when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = cache(self._names)

    def _file(self, module: str) -> Path | None:
        path = self.folder.joinpath(*module.split("."))
        return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)

    def _names(self, module: str) -> dict[str, ast.AST]:
        """What a module binds at its top level, the bodies of `if`, `try` and `with` included."""
        file = self._file(module)
        return {} if file is None else dict(bound(ast.parse(file.read_text()).body))

    def find(self, module: str, name: str) -> Place | None:
        """The definition behind a dotted name, through imports and base classes."""
        first, *rest = name.split(".")
        place = self._top(module, first)
        for part in rest:
            if place is not None and isinstance(place.node, ast.Module):
                place = self._top(place.module, part)
            elif place is not None and isinstance(place.node, ast.ClassDef):
                place = self.member(place, part)
            else:
                return None
        return place

    def _top(self, module: str, name: str) -> Place | None:
        node = self.names(module).get(name)
        if node is None:
            return Place(f"{module}.{name}", ast.Module([], [])) if self._file(f"{module}.{name}") else None
        if isinstance(node, ast.ImportFrom):
            original = next(a.name for a in node.names if (a.asname or a.name) == name)
            found = self._top(self._absolute(module, node), original)
            return found or Place(module, node)  # of another package than these sources
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):  # an instance: its class has the names
            made = self.find(module, ast.unparse(node.value.func))
            return made if made is not None and isinstance(made.node, ast.ClassDef) else Place(module, node)
        return Place(module, node)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        file = self._file(module)
        is_package = file is not None and file.name == "__init__.py"
        parts = module.split(".")[: len(module.split(".")) - node.level + is_package]
        return ".".join([*parts, node.module] if node.module else parts)

    def lineage(self, place: Place) -> Iterator[Place]:
        """A class and its bases, depth first."""
        yield place
        assert isinstance(place.node, ast.ClassDef)
        for base in place.node.bases:
            dotted = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            found = self.find(place.module, dotted)
            if found is not None and isinstance(found.node, ast.ClassDef):
                yield from self.lineage(found)

    def member(self, place: Place, name: str) -> Place | None:
        for owner in self.lineage(place):
            assert isinstance(owner.node, ast.ClassDef)
            node = dict(bound(owner.node.body)).get(name)
            if node is not None:
                return Place(owner.module, node)
            if name == "__init__" and is_dataclass(owner.node):
                return owner
        return None

    def look(self, need: Need) -> Found | None:
        """What `Need.problem` judges: None where the name does not exist."""
        place = self.find(need.module, need.name)
        if place is None:
            return None
        node = place.node
        if isinstance(node, ast.ClassDef):
            fields = tuple(f for owner in self.lineage(place) for f in annotated(owner.node))
            made = fields if need.name.endswith(".__init__") else ()
            return Found(("self", *made) if made else (), fields, ())
        if isinstance(node, Function):
            return Found(parameters(node), (), mentioned(node))
        return Found((), (), ())


def bound(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name, node) for alias in node.names)
            case ast.Assign():
                yield from ((t.id, node) for t in node.targets if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name() as target, value=value) if value is not None:
                yield target.id, node
            case ast.If() | ast.Try() | ast.With():
                for part in ("handlers", "orelse", "finalbody", "body"):
                    inner = getattr(node, part, [])
                    yield from bound([s for h in inner for s in h.body] if part == "handlers" else inner)


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def annotated(node: ast.AST) -> Iterator[str]:
    assert isinstance(node, ast.ClassDef)
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def parameters(node: Function) -> tuple[str, ...]:
    """As inspect.signature orders and names them on the class or module."""
    given = node.args
    names = [a.arg for a in (*given.posonlyargs, *given.args)]
    names += [a.arg for a in (given.vararg,) if a] + [a.arg for a in given.kwonlyargs]
    names += [a.arg for a in (given.kwarg,) if a]
    is_class_method = any(ast.unparse(d) == "classmethod" for d in node.decorator_list)
    return tuple(names[is_class_method:])


def mentioned(node: Function) -> tuple[str, ...]:
    return tuple({n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)})


def problems(folder: Path) -> list[str]:
    """Each need of vLLM that the sources in a folder do not meet."""
    source = Source(folder)
    needs = [need for needs in probe.ALL_NEEDS.values() for need in needs if need.module.startswith("vllm.")]
    found = [need.problem(source.look(need)) for need in dict.fromkeys(needs)]
    planning = [need.problem(source.look(need)) for need in PLANNING_NEEDS]
    return [problem for problem in found + (planning if None not in planning else []) if problem is not None]


def main() -> int:
    status = 0
    for folder in map(Path, sys.argv[1:]):
        if not (folder / "vllm" / "__init__.py").is_file():
            sys.exit(f"no vllm package in {folder}")
        wrong = problems(folder)
        print(f"{folder}: {len(wrong)} needs not met")
        print(*wrong, sep="\n", end="\n" if wrong else "")
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
