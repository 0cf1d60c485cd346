"""What the source of a kernel reaches for, besides its arguments: read from its text, without executing it.

Only code that the kernel can come to counts: its module's top level, and the functions and classes named from there on.
A file may have benchmarks and a `__main__` beside it, which may read clocks and write files.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from samebits.host.installed import installed_folders

_PURE = (
    *("__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "enum", "fractions", "functools"),
    *("itertools", "logging", "math", "numbers", "operator", "re", "string", "textwrap", "types", "typing"),
    "warnings",
)
"""Modules of the standard library whose functions know their arguments alone, or only print."""

TESTING = frozenset(("pytest", "_pytest", "unittest", "samebits", "hypothesis", "psutil", "tests"))

_REACHING = {
    **dict.fromkeys(("eval", "exec", "compile"), "executes text"),
    **dict.fromkeys(("globals", "vars"), "reads names of a module by text"),
    **dict.fromkeys(("exit", "quit"), "ends the process"),
    "open": "opens files",
    "__import__": "imports by a computed name",
    "input": "reads what is typed",
    "breakpoint": "stops in a debugger",
    "__builtins__": "reaches for Python's own functions",
    "__file__": "reads the path of its file",
    "__name__": "reads the name under which it was imported",
}
"""Of Python's own names, those through which code learns or changes more than its arguments."""

_INSIDES = {
    **dict.fromkeys(("f_back", "f_locals", "f_globals", "tb_frame"), "reads the functions that call it"),
    **dict.fromkeys(("pure_callback", "io_callback"), "computes on the host"),
    "__globals__": "reads the module of a function",
    "__builtins__": "reaches for Python's own functions",
    "__subclasses__": "lists classes of this process",
    "__code__": "reads the code of a function",
    "Tracer": "asks whether it is traced",
}
"""Of attributes, the same."""

_RANDOM = ("numpy.random", "random", "secrets", "uuid")
_HIDDEN = frozenset(
    ("builtins", "ctypes", "gc", "importlib", "inspect", "os", "subprocess", "sys", "threading", "time", "traceback")
)
"""Modules of Python's that libraries hold under their own names."""


@dataclass(frozen=True, slots=True)
class Reach:
    """A place of a kernel's source that reaches for more than its arguments.

    Args:
        kind: of refutation, such as `aware`.
        words: what it does there.
        where: file and line.
    """

    kind: str
    words: str
    where: str


def reaches(kernel: Path, function: str, reference: Path, of: str) -> list[Reach]:
    """Return what a kernel reaches for, each kind of place once, in the order of the lines.

    Args:
        kernel, function: the file of the kernel and its name there.
        reference, of: those of its reference.
    """
    reached, done, files = dict[tuple[str, str], Reach](), set[Path](), [kernel]
    while files:
        file = files.pop()
        if file in done:
            continue
        done.add(file)
        source = _Source(file, reference, of)
        source.visit_from(function if file == kernel else None)
        for reach in source.reached:
            reached.setdefault((reach.kind, reach.words), reach)
        files += source.beside
    return list(reached.values())


class _Source(ast.NodeVisitor):
    """One file: visits what its function comes to, and keeps what that reaches for."""

    def __init__(self, file: Path, reference: Path, of: str) -> None:
        self.file, self.reference, self.of = file, reference, of
        self.reached: list[Reach] = []
        self.beside: list[Path] = []
        self.modules: dict[str, str] = {}
        tree = ast.parse(file.read_bytes())
        named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        self._bodies = {node.name: node for node in tree.body if isinstance(node, named)}
        self._top = [node for node in tree.body if not isinstance(node, named) and not _is_main(node)]
        self._module_names = {name for node in self._top for name in _assigned(node)}
        for node in ast.walk(tree):
            self._note_imports(node)

    def visit_from(self, function: str | None) -> None:
        """Visit the top level and a function; all of the file where there is none."""
        left = dict(self._bodies)
        waiting = [node for node in self._top if not isinstance(node, ast.Import | ast.ImportFrom)]
        waiting += [left.pop(name) for name in (self._bodies if function is None else [function]) if name in left]
        for node in waiting:  # which grows
            self.visit(node)
            names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
            waiting += [left.pop(name) for name in names if name in left]

    def _note_imports(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self.modules[alias.asname or top] = alias.name if alias.asname else top
                self._note_module(node, alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            for alias in node.names:
                self.modules[alias.asname or alias.name] = f"{module}.{alias.name}"
                self._note_module(node, f"{module}.{alias.name}".lstrip("."), node.level)
            self._note_module(node, module, node.level)

    def _note_module(self, node: ast.AST, module: str, level: int = 0) -> None:
        """Look at an imported module: one of testing, the reference's file, or a file beside this one."""
        top = module.partition(".")[0]
        if top in TESTING:
            self._add("aware", f"imports {module}", node)
        elif module and (level or (top not in sys.stdlib_module_names and not _is_package(top))):
            path = self.file.parent.joinpath(*module.split(".")).with_suffix(".py")
            if path == self.reference:
                self._add("reference", "imports the reference", node)
            elif path.is_file():
                self.beside.append(path)

    def visit_Name(self, node: ast.Name) -> None:
        """Look at a name of Python's own, or of a module."""
        if node.id == self.of and self.file == self.reference:
            self._add("reference", f"calls its reference ({node.id})", node)
        elif node.id in _REACHING and node.id not in {*self._bodies, *self._module_names, *self.modules}:
            self._add("aware", f"{_REACHING[node.id]} ({node.id})", node)
        elif node.id in self.modules and isinstance(node.ctx, ast.Load):
            self._of_module(self.modules[node.id], node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Look at an attribute, as far as it is one of a module."""
        name = self._name_in_module(node)
        if name:
            self._of_module(name, node)
        elif _chain(node) is None:
            self.visit(node.value)
        if node.attr in _INSIDES:
            self._add("aware", f"{_INSIDES[node.attr]} ({node.attr})", node)
        if name and isinstance(node.ctx, ast.Store | ast.Del):
            self._add("tampering", f"changes {name}", node)

    def visit_Call(self, node: ast.Call) -> None:
        """Look at `getattr` and `setattr` of modules, whose names may be texts."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("getattr", "setattr", "delattr") and len(node.args) > 1:
            constant = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            text = constant if isinstance(constant, str) else ""
            if text in _INSIDES or not text:
                self._add("aware", f"reads attributes by a computed or hidden name ({name})", node)
            of = self._name_in_module(node.args[0])
            if of and name != "getattr":
                self._add("tampering", f"changes {of}.{text}", node)
            elif of and text:
                self._of_module(f"{of}.{text}", node)
        if _chain(node.func) != ("logging", "getLogger"):  # whose argument is usually `__name__`
            self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        """Look at names of the module that a function assigns."""
        self._add("kept", f"assigns names of its module ({', '.join(node.names)})", node)

    def _name_in_module(self, node: ast.AST) -> str:
        """Return the whole name of what is an imported module, or an attribute of one; else an empty text."""
        first, *rest = _chain(node) or ("",)
        return ".".join((self.modules[first], *rest)) if first in self.modules else ""

    def _of_module(self, name: str, node: ast.AST) -> None:
        top = name.partition(".")[0]
        parts = name.split(".")
        if name.startswith(_RANDOM) or (top == "numpy" and "random" in parts):
            self._add("aware", f"draws random numbers of its own ({name})", node)
        elif top in sys.stdlib_module_names and top not in _PURE:
            self._add("aware", f"uses {name}", node)
        elif top in ("jax", "numpy") and {*parts[1:]} & _HIDDEN:
            self._add("aware", f"uses a module of Python's through {top} ({name})", node)

    def _add(self, kind: str, words: str, node: ast.AST) -> None:
        self.reached.append(Reach(kind, words, f"{self.file.name}:{getattr(node, 'lineno', 0)}"))


def _chain(node: ast.AST) -> tuple[str, ...] | None:
    """Return the names of `a.b.c`; None of what is no such chain."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        inner = _chain(node.value)
        return None if inner is None else (*inner, node.attr)
    return None


def _assigned(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def _is_main(node: ast.AST) -> bool:
    """Return whether it is `if __name__ == "__main__":`, which does not run where the file is imported."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _is_package(name: str) -> bool:
    """Return whether a module is installed, and so nobody's file beside the kernel."""
    places = [Path(folder) / name for folder in installed_folders()]
    return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)
