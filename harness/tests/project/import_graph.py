"""The import graph, read from the source: imports at import time, inside functions, and for type checking only."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path("harness") / "samebits"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, as `package.module.name`."""

    file: str
    line: int
    target: str
    when: str
    """`import`: with the module; `call`: inside a function; `typing`: only for the type checker."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"

    @property
    def package(self) -> str:
        return self.target.partition(".")[0]


def python_files(root: Path, *folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def machinery(root: Path) -> list[Path]:
    """The package; its tests lie beside it and may import anything."""
    return python_files(root, PACKAGE.as_posix())


def module(path: Path, root: Path) -> str:
    """`harness/samebits/cli/check.py` is `cli/check`; a package is named by its folder, the whole one by nothing."""
    name = path.relative_to(root / PACKAGE).with_suffix("").as_posix()
    return "" if name == "__init__" else name.removesuffix("/__init__")


def room(name: str) -> str:
    """`train/golden/record` is in `train`."""
    return name.partition("/")[0]


def imports(path: Path, root: Path) -> list[Import]:
    return list(_imports(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()))


@functools.cache
def _imports(text: str, file: str) -> tuple[Import, ...]:
    return tuple(_walk(ast.parse(text), file, "import"))


def _walk(node: ast.AST, file: str, when: str) -> Iterator[Import]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and when == "import":
        when = "call"
    if isinstance(node, ast.Import):
        yield from (Import(file, node.lineno, alias.name, when) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = "." * node.level + (f"{node.module}." if node.module else "")
        yield from (Import(file, node.lineno, f"{start}{alias.name}", when) for alias in node.names)
    typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # most of the nodes, and imports are statements
        inside = typing and isinstance(node, ast.If) and child in node.body
        yield from _walk(child, file, "typing" if inside else when)


def module_of(found: Import, modules: frozenset[str]) -> str | None:
    """The module of ours that an import names: the longest path that is one; None where it names none."""
    words = found.target.split(".")
    if words[0] != "samebits":
        return None
    paths = ("/".join(words[1:end]) for end in range(len(words), 0, -1))
    return next(path for path in paths if path in modules or not path)


def graph(root: Path) -> list[tuple[str, Import, str]]:
    """Every import of one module of ours by another: who, the import, whom."""
    files = {module(path, root): path for path in machinery(root)}
    known = frozenset(files)
    pairs = ((name, found, module_of(found, known)) for name, path in files.items() for found in imports(path, root))
    # The public list names everything, and loads on first use.
    return [(name, found, target) for name, found, target in pairs if target is not None and name]
