"""The name of a test is a short sentence: at most 60 characters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.import_graph import ROOT, python_files

LONGEST = 60


# What a regular expression takes for such a name may be in a string; only files that have one are parsed.
_PERHAPS = re.compile(rf"def\s+test_\w{{{LONGEST - len('test_') + 1},}}")


def long_names(root: Path) -> list[str]:
    """The tests of this repository whose names are longer than `LONGEST`."""
    return [
        f"{path.relative_to(root)}:{node.lineno}: {node.name} has {len(node.name)} characters, {LONGEST} at most"
        for path in python_files(root, "harness/tests", "suites")
        for node in _functions(path.read_text(encoding="utf-8"))
        if node.name.startswith("test_") and len(node.name) > LONGEST
    ]


def _functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(ast.parse(text)) if _PERHAPS.search(text) else ()
    return (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_names_of_tests_are_short() -> None:
    if wrong := long_names(ROOT):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("place", ["def {}():", "async def {}():", "class TestIt:\n    def {}(self):"])
def test_a_long_name_is_found(place: str, tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    for length in (LONGEST, LONGEST + 1):
        name = "test_".ljust(length, "a")
        (tmp_path / "suites" / f"test_{length}.py").write_text(f"{place.format(name)} pass\n")
    (wrong,) = long_names(tmp_path)
    assert wrong.startswith("suites/test_61.py:") and wrong.endswith("has 61 characters, 60 at most")
