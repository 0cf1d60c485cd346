"""Whatever planted faults replace in samebits by its name exists: in a slow test, a stale name would go unnoticed."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support.invoke import REPOSITORY

_NAME = re.compile(r"samebits(\.\w+)+[.:]\w+(\.\w+)*")


def targets(text: str) -> Iterator[str]:
    """The names of samebits that are whole strings in a source: `samebits.module.name` and `samebits.module:name`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            yield node.value.replace(":", ".")


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
    folders = ("harness/tests", "harness/samebits/audit/faults", "suites/faults")
    sources = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    files = [path for path in sources if path != Path(__file__)]
    named = {target: path.name for path in files for target in targets(path.read_text(encoding="utf-8"))}
    assert len(named) > 30
    missing = {target: file for target, file in named.items() if not exists(target)}
    assert missing == {"samebits.interpret.field_proof.proof.gone": "test_faults.py"}  # a stale patch, on purpose


def test_a_target_that_has_moved_is_seen() -> None:
    assert exists("samebits.host.isolation.undone")
    assert not exists("samebits.host.memory.undone")
    assert not exists("samebits.programs.nothing_of_this_name.undone")
    source = 'PLANTED = ("samebits.programs.old.undone", "samebits.programs.old:undone", "samebits.old")'
    assert list(targets(source)) == ["samebits.programs.old.undone"] * 2


def test_commands_name_what_exists_and_vulture_skips_no_more() -> None:
    files = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "harness/samebits/cli").glob("*.py")]
    named = [work for text in files for work in re.findall(r'options\.run\("(\w+:\w+)"', text)]
    assert len(named) > 15
    assert [work for work in named if not exists(f"samebits.cli.{work.replace(':', '.')}")] == []
    skipped = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["vulture"]["ignore_names"]
    defined = {node.name for text in files for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert defined & set(skipped) <= {work.partition(":")[2] for work in named}
