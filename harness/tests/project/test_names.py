"""Names: tests are short sentences, each class has a name of its own, and no variable is called after nothing."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.project.import_graph import PACKAGE, ROOT, machinery, python_files

LONGEST = 60
"""Characters of the name of a test."""

MEANINGLESS = ("one", "found", "made", "told", "asked", "given", "held", "it")
"""Names that fit any value; the fields of records are not meant, since they may be keys of a document."""

MEANT = ("testing/asserts.py: found",)
"""Published parameters: what was `found`, beside what was `expected`."""

# What a regular expression takes for such a name may be in a string; only files that have one are parsed.
_PERHAPS = re.compile(rf"def\s+test_\w{{{LONGEST - len('test_') + 1},}}")


def long_names(root: Path) -> list[str]:
    """The tests of this repository whose names are longer than `LONGEST`."""
    return [
        f"{path.relative_to(root)}:{node.lineno}: {node.name} has {len(node.name)} characters, {LONGEST} at most"
        for path in python_files(root, "harness/tests", "suites")
        if _PERHAPS.search(text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and len(node.name) > LONGEST
    ]


def class_names_twice(root: Path) -> list[str]:
    """The classes of the package that share a name, private ones included."""
    places: dict[str, list[str]] = {}
    for path, node in _nodes(root):
        if isinstance(node, ast.ClassDef):
            places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    return [
        f"{' and '.join(lines)} define classes of the same name {name}: name each after what it holds"
        for name, lines in places.items()
        if len(lines) > 1
    ]


def constants_twice(root: Path) -> list[str]:
    """The constants that a module gives two values, as where two modules became one."""
    wrong = []
    for path, node in _nodes(root):
        names = [] if not isinstance(node, ast.Module) else list(map(_constant, node.body))
        twice = {name for name in names if name is not None and names.count(name) > 1}
        wrong += [f"{path} gives {name} two values: the later one holds for both uses" for name in sorted(twice)]
    return wrong


def _constant(node: ast.stmt) -> str | None:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    target = node.target if isinstance(node, ast.AnnAssign) and node.value is not None else target
    return target.id if isinstance(target, ast.Name) and target.id != "_" else None


def meaningless_names(root: Path) -> list[str]:
    """The variables and parameters of the package whose names say nothing of what they hold."""
    fields: set[int] = set()  # a class comes before what is in it
    wrong = []
    for path, node in _nodes(root):
        if isinstance(node, ast.ClassDef):
            fields.update(id(field.target) for field in node.body if isinstance(field, ast.AnnAssign))
        elif (
            isinstance(node, ast.Name | ast.arg)
            and (name := _bound(node)) in MEANINGLESS
            and id(node) not in fields
            and f"{path}: {name}" not in MEANT
        ):
            wrong.append(f"{path}:{node.lineno} calls a variable {name}: name it after what it holds")
    return wrong


def _nodes(root: Path) -> Iterator[tuple[str, ast.AST]]:
    """Every node of the package with the path of its module."""
    for path in machinery(root):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(root / PACKAGE).as_posix()
        yield from ((name, node) for node in ast.walk(tree))


def _bound(node: ast.Name | ast.arg) -> str | None:
    """The name that a node binds, if it binds one."""
    if isinstance(node, ast.arg):
        return node.arg
    return node.id if isinstance(node.ctx, ast.Store) else None


RULES = (long_names, class_names_twice, constants_twice, meaningless_names)

FAULTS: tuple[tuple[Callable[[Path], list[str]], str, str], ...] = (
    (
        class_names_twice,
        "class Point: ...\nclass Point: ...",
        "check/planted.py:1 and check/planted.py:2 define classes",
    ),
    (class_names_twice, "class _Point: ...\ndef f():\n    class _Point: ...", "of the same name _Point"),
    (constants_twice, 'MOST = 6\n"""Of these."""\n\nMOST: int = 16', "planted.py gives MOST two values"),
    (meaningless_names, "def f(results):\n    return [g(one) for one in results]", ":2 calls a variable one"),
    (meaningless_names, "def f(given): return given", ":1 calls a variable given"),
    (meaningless_names, "class A:\n    found: int\ndef f():\n    found = g()", ":4 calls a variable found"),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    if wrong := rule(ROOT):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize(("rule", "text", "message"), FAULTS)
def test_a_planted_name_is_found(rule: Callable[[Path], list[str]], text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / PACKAGE / "check" / "planted.py"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    (wrong,) = rule(tmp_path)
    assert message in wrong


@pytest.mark.parametrize("place", ["def {}():", "async def {}():", "class TestIt:\n    def {}(self):"])
def test_a_long_name_is_found(place: str, tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    for length in (LONGEST, LONGEST + 1):
        name = "test_".ljust(length, "a")
        (tmp_path / "suites" / f"test_{length}.py").write_text(f"{place.format(name)} pass\n")
    (wrong,) = long_names(tmp_path)
    assert wrong.startswith("suites/test_61.py:") and wrong.endswith("has 61 characters, 60 at most")
