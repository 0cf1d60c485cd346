"""Rules about the form of the package's code, read from its source; a message says what to edit."""

from __future__ import annotations

import ast
import functools
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.project.import_graph import machinery, python_files

MEDIAN, NINE_OF_TEN, LONGEST = 8, 25, 60
"""Lines of a function's body, without its docstring."""

PARAMETERS = 7
"""Of one function, `self` not counted; a record takes more."""

MEANINGLESS = ("one", "found", "made", "told", "asked", "given", "held", "it")
"""Names that fit any value; the fields of records are not meant, since they may be keys of a document."""

MEANT = ("testing/asserts.py: found",)
"""Published parameters: what was `found`, beside what was `expected`."""

CALLED_BY_OTHERS = ("__", "pytest_", "on_broken_pipe", "visit_")
"""How the names of functions begin that Python, pytest, rich or a visitor of `ast` call."""

_CONTAINERS = ("dict", "list", "set", "defaultdict", "deque", "OrderedDict", "Counter", "WeakKeyDictionary")


def functions(root: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of the package, as `room/file.py: name`."""
    for path, tree in trees(root):
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}: {node.name}", node


def trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its path in it."""
    for path in machinery(root):
        name = path.relative_to(root / "harness" / "samebits").as_posix()
        yield name, _parsed(path.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.Module:
    """Of each text once: every rule reads all modules."""
    return ast.parse(text)


@functools.lru_cache(maxsize=4096)
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module, in the order of `ast.walk`: once, for all rules."""
    return tuple(ast.walk(tree))


def forget() -> None:
    """Let go of what was parsed: hundreds of thousands of nodes."""
    _parsed.cache_clear()
    nodes.cache_clear()


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines the body has, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a call may give; `self` and `cls` are not counted."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    method = bool(plain) and plain[0].arg in ("self", "cls")
    return len(plain) - method + len(arguments.kwonlyargs) + bool(arguments.vararg) + bool(arguments.kwarg)


def short_functions(root: Path) -> list[str]:
    """None above `LONGEST` lines; half at most `MEDIAN`, nine of ten at most `NINE_OF_TEN`."""
    # Pairs: methods of one file may have the same name.
    lines = [(name, body_lines(function)) for name, function in functions(root)]
    counts = [count for _, count in lines]
    wrong = [
        f"{name} has {count} lines, {LONGEST} at most: cut it along its duties"
        for name, count in lines
        if count > LONGEST
    ]
    for share, most in ((50, MEDIAN), (90, NINE_OF_TEN)):
        seen = statistics.quantiles(counts, n=100, method="inclusive")[share - 1] if len(counts) > 1 else 0
        if seen > most:
            wrong.append(f"{share} % of all functions have at most {seen:g} lines; expected {most}")
    return wrong


def few_parameters(root: Path) -> list[str]:
    return [
        f"{name} has {count} parameters, {PARAMETERS} at most: make a record of them"
        for name, function in functions(root)
        if (count := parameters(function)) > PARAMETERS
    ]


def no_mutable_globals(root: Path) -> list[str]:
    """No `global` statement, and no module-level container that a function changes."""
    wrong = []
    for path, tree in trees(root):
        wrong += [
            f"{path}:{node.lineno} rebinds the global {', '.join(node.names)}: keep it in an object"
            for node in nodes(tree)
            if isinstance(node, ast.Global)
        ]
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _starts_empty(node.value):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                wrong.append(
                    f"{path}:{node.lineno} {ast.unparse(target)} starts empty, so something fills it: "
                    "keep it in an object"
                )
    return wrong


def _starts_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    return (
        isinstance(value, ast.Call)
        and ast.unparse(value.func).rpartition(".")[2] in _CONTAINERS
        and not [argument for argument in value.args if not isinstance(argument, ast.Name)]
        and not value.keywords
    )


def path_is_restored(root: Path) -> list[str]:
    """What is put on `sys.path` is taken away in the same function."""
    wrong = []
    for path, tree in trees(root):
        if not any(isinstance(node, ast.Attribute) and node.attr == "path" for node in nodes(tree)):
            continue  # writing a function as text takes ten times as long
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _names_path(node):
                text = ast.unparse(node)
                if ("sys.path.insert(" in text or "sys.path.append(" in text) and "sys.path.remove(" not in text:
                    wrong.append(f"{path}: {node.name} leaves a folder on sys.path: take it away again")
    return wrong


def _names_path(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it has `.path` of something that is called `sys`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "path" and ast.unparse(node.value).endswith("sys")
        for node in ast.walk(function)
    )


def no_private_names(root: Path) -> list[str]:
    """No private attribute of another package by `getattr` or as a module's name in a string."""
    wrong = []
    for path, tree in trees(root):
        for node in nodes(tree):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            if node.value.startswith("jax._src.") and " " not in node.value:
                wrong.append(f"{path}:{node.lineno} names the private module {node.value}")
        for node in nodes(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
                name = node.args[1]
                if (
                    node.func.id == "getattr"
                    and isinstance(name, ast.Constant)
                    and isinstance(name.value, str)
                    and _is_private(name.value)
                ):
                    wrong.append(f"{path}:{node.lineno} reads the private attribute {name.value}")
    return wrong


def reasons_for_silence(root: Path) -> list[str]:
    """An exception that is only passed over, or becomes a constant, says why in a comment."""
    wrong = []
    for path, tree in trees(root):
        lines = (root / "harness" / "samebits" / path).read_text(encoding="utf-8").splitlines()
        for node in nodes(tree):
            if isinstance(node, ast.ExceptHandler) and all(map(_does_nothing, node.body)):
                text = lines[node.lineno - 1 : node.body[-1].end_lineno]
                if not any("#" in line for line in text):
                    wrong.append(f"{path}:{node.lineno} passes over an exception: say why in a comment")
    return wrong


def _does_nothing(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Return) and (
        statement.value is None or isinstance(statement.value, ast.Constant)
    )
    return constant or isinstance(statement, ast.Pass | ast.Continue)


def no_dead_code(root: Path) -> list[str]:
    """What the package defines is named somewhere else, too: in the package, its tests, the suites or the docs."""
    files = [*python_files(root, "harness", "suites", "benchmarks", "docs"), *root.glob("*.py"), *root.glob("*.toml")]
    names = Counter(name for path in files for name in re.findall(r"\w+", path.read_text(encoding="utf-8")))
    wrong = []
    for path, tree in trees(root):
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and names[node.name] == 1:
                called_by_others = node.name.startswith(CALLED_BY_OTHERS) or node.decorator_list
                if not called_by_others:
                    wrong.append(f"{path}:{node.lineno} {node.name} is used nowhere: remove it")
    return wrong


def no_class_name_twice(root: Path) -> list[str]:
    """Each class of the package has a name of its own, private ones included."""
    places: dict[str, list[str]] = {}
    for path, tree in trees(root):
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    return [
        f"{' and '.join(lines)} define classes of the same name {name}: name each after what it holds"
        for name, lines in places.items()
        if len(lines) > 1
    ]


def meaningful_names(root: Path) -> list[str]:
    """No variable or parameter has one of the names that say nothing of what it holds."""
    wrong = []
    for path, tree in trees(root):
        fields = {
            id(field.target)
            for node in nodes(tree)
            if isinstance(node, ast.ClassDef)
            for field in node.body
            if isinstance(field, ast.AnnAssign)
        }
        wrong += [
            f"{path}:{node.lineno} calls a variable {name}: name it after what it holds"
            for node in nodes(tree)
            if isinstance(node, ast.Name | ast.arg)
            and (name := _bound(node)) in MEANINGLESS
            and id(node) not in fields
            and f"{path}: {name}" not in MEANT
        ]
    return wrong


def _bound(node: ast.Name | ast.arg) -> str | None:
    """The name that a node binds, if it binds one."""
    if isinstance(node, ast.arg):
        return node.arg
    return node.id if isinstance(node.ctx, ast.Store) else None


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith(("__", "_samebits"))


RULES = (
    short_functions,
    few_parameters,
    no_mutable_globals,
    path_is_restored,
    no_private_names,
    reasons_for_silence,
    no_dead_code,
    no_class_name_twice,
    meaningful_names,
)
