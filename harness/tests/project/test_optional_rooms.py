"""Where an optional room is absent, the core works, and what needs the room says so in one line."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import samebits
from samebits.rooms import ROOMS, Room, door, missing_room
from tests.project.import_graph import PACKAGE, ROOT, machinery
from tests.support.child import run_python

ABSENT = """
import sys

FOLDERS = sys.argv.pop(1).split()

class Refused:
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"samebits.{folder}.") for folder in FOLDERS):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Refused())
"""

COMPARED = """
import jax.numpy as jnp
import samebits

samebits.assert_same(lambda x: x + x, lambda x: 2 * x, jnp.ones((2, 3)))
"""

COMMAND = """
sys.argv = ["samebits", *sys.argv[1:]]
from samebits.__main__ import main

main()
"""

EVERY = " ".join(folder for room in ROOMS for folder in room.folders)

NEEDS = {
    "symbolic sizes": ("prove", "rms_norm", "--all-sizes", "--in-process"),
    "documents": ("audit", "claims"),
    "several hosts": ("run", "launch", "-n", "2", "--", "true"),
    "training": ("train", "--config", "moe"),
}
"""By room, a command that needs it."""


def test_without_any_room_the_core_works(tmp_path: Path) -> None:
    words = ("check", "rms_norm", "--case", "default", "--mesh", "data1", "--in-process")
    done = run_python("-c", ABSENT + COMPARED + COMMAND, EVERY, *words)
    assert done.returncode == 0, done.stderr
    assert run_python("-c", ABSENT + COMMAND, EVERY, "--help", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_what_needs_a_room_says_that_it_is_absent(room: Room) -> None:
    done = run_python("-c", ABSENT + COMMAND, EVERY, *NEEDS[room.name])
    assert done.returncode == 2, done.stderr
    assert (
        f"{room.name}: samebits/{room.folders[0].replace('.', '/')}/ is not installed, and {room.users} need it"
        in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_other_modules_that_are_absent_are_not_of_a_room() -> None:
    assert missing_room(ModuleNotFoundError("", name="samebits.sizes_of_ours")) is None
    assert missing_room(ModuleNotFoundError("", name="z3")) is None
    assert "symbolic sizes" in str(missing_room(ModuleNotFoundError("", name="samebits.sizes.points")))
    with pytest.raises(ModuleNotFoundError):
        door("none_of_ours")


def test_each_room_is_there() -> None:
    package = Path(str(samebits.__file__)).parent
    assert all(
        (package / folder.replace(".", "/") / "__init__.py").is_file() for room in ROOMS for folder in room.folders
    )


def asked(code: str) -> Iterator[tuple[str, str]]:
    """The modules that functions ask `door` for, each with a name that they take from it."""
    for function in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)):
        text = ast.unparse(function)
        for assigned, module, name in re.findall(r"(?:(\w+) = )?\bdoor\('([\w.]+)'\)(?:\.(\w+))?", text):
            yield from ((module, each) for each in ([name] if name else re.findall(rf"\b{assigned}\.(\w+)", text)))


def test_what_is_asked_of_a_room_is_there() -> None:
    """No import says it: a module that was renamed would be called one that is not installed."""
    assert [*asked("def f():\n    x = door('a.b')\n    x.c(door('a').d)")] == [("a.b", "c"), ("a", "d")]
    every = {pair for path in machinery(ROOT) for pair in asked(path.read_text(encoding="utf-8"))}
    assert ("cluster.start", "compare_inputs") in every and ("sizes.points", "prove_sizes") in every
    for module, name in every:
        path = ROOT / PACKAGE / f"{module.replace('.', '/')}.py"
        assert re.search(rf"^(def |class )?{name}\b", path.read_text(encoding="utf-8"), re.MULTILINE), (module, name)
