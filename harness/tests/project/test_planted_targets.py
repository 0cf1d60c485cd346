"""What tests replace in samebits by its dotted name exists: a slow test of a planted fault would rot unseen."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.invoke import REPOSITORY

_DOTTED = re.compile(r"samebits(\.\w+){2,}")


def targets(text: str) -> Iterator[str]:
    """The dotted names of samebits that are whole strings in a source."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            yield node.value


def exists(target: str) -> bool:
    """Whether a dotted name is a module of samebits, or something in one."""
    parts = target.split(".")
    for count in range(len(parts), 1, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            if not hasattr(thing, name):
                return False
            thing = getattr(thing, name)
        return True
    return False


def test_every_target_exists() -> None:
    files = [path for path in (REPOSITORY / "harness/tests").rglob("*.py") if path != Path(__file__)]
    named = {target: path.name for path in files for target in targets(path.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert {target: file for target, file in named.items() if not exists(target)} == {}


def test_a_target_that_has_moved_is_seen() -> None:
    assert exists("samebits.programs.isolated_trace.undone")
    assert not exists("samebits.programs.program_cache.undone")
    assert not exists("samebits.programs.nothing_of_this_name.undone")
    assert list(targets('PLANTED = ("samebits.programs.program_cache.undone", None)')) == [
        "samebits.programs.program_cache.undone"
    ]
