"""Imports point one way; each rule of `layering` holds, and is shown to be able to fail."""

import functools
import shutil
from pathlib import Path

import pytest

from tests.project.import_graph import PACKAGE, ROOT, imports, python_files
from tests.project.layering import (
    FLOORS,
    HERE,
    LONGEST,
    LONGEST_OF_A_PAIR,
    RULES,
    Rule,
    acyclic,
    core_without_rooms,
    downward,
    implementations_alone,
    in_a_room,
    jax_where_it_runs,
    loaded_in_one_place,
    no_private_jax,
    one_name,
    packages_in_place,
    short_files,
    suites_use_the_public_list,
)

FAULTS: dict[Rule, list[tuple[str, str, str]]] = {
    in_a_room: [
        ("PACKAGE/rogue.py", "", "rogue is not a room: see FLOORS"),
    ],
    downward: [
        ("PACKAGE/schema/pair.py", "from samebits.check.runner import Runner", "'check' is not below 'schema'"),
        ("PACKAGE/numerics/bits.py", "def f():\n    from samebits.engine import drive", "'engine' is not below"),
        ("PACKAGE/schema/pair.py", "if TYPE_CHECKING:\n    from samebits.cli import check", "'cli' is not below"),
        ("PACKAGE/schema/pair.py", "from samebits.numerics.bits import compare", "'numerics' is not below"),
        ("PACKAGE/engine/drive.py", "from samebits import Pair", "import the module that defines it"),
    ],
    core_without_rooms: [
        ("PACKAGE/check/judge.py", "def f():\n    import samebits.sizes.points", "may be absent; import"),
    ],
    acyclic: [
        ("PACKAGE/schema/meshes.py", "import samebits.schema.pair", "in a circle: "),
        ("PACKAGE/schema/meshes.py", "def f():\n    from samebits.schema import pair", "in a circle: "),
        ("PACKAGE/schema/meshes.py", "if TYPE_CHECKING:\n    from samebits.schema.pair import Pair", "in a circle: "),
    ],
    jax_where_it_runs: [
        ("PACKAGE/programs/plan.py", "from jax import numpy", "do it in the function that needs it"),
        ("PACKAGE/schema/values.py", "def f():\n    import jax", "the data layer does without jax"),
    ],
    packages_in_place: [
        ("PACKAGE/numerics/bits.py", "import click", "cli of samebits may use click"),
        ("PACKAGE/numerics/bits.py", "import chex", "nothing of samebits may use chex"),
        ("PACKAGE/cli/check.py", "from .common import say", "write the full name"),
    ],
    no_private_jax: [
        ("optimized_impls/planted.py", "from jax._src import core", "private to jax"),
    ],
    implementations_alone: [
        ("optimized_impls/planted.py", "from reference_impls import rms_norm", "no other file of ours"),
        ("optimized_impls/planted.py", "from . import shared", "no other file of ours"),
        ("reference_impls/planted.py", "import samebits", "no other file of ours"),
        ("reference_impls/planted.py", "import chex", "no other file of ours"),
    ],
    suites_use_the_public_list: [
        ("suites/test_planted.py", "from samebits.check.runner import Runner", "from the public list"),
        ("suites/test_planted.py", "from samebits.check import runner", "from the public list"),
        ("suites/test_planted.py", "import reference_impls.rms_norm", "from the public list"),
        ("suites/test_planted.py", "import jax.numpy as jnp", "at collection"),
        ("suites/test_planted.py", "from .model import data", "from the public list"),
        ("suites/model/planted.py", "from .. import test_rms_norm", "from the public list"),
        ("suites/faults/planted.py", "from samebits.programs import plan", "from the public list"),
        ("suites/model/planted.py", "from samebits.check.runner import Runner", "from the public list"),
        ("suites/model/settings.py", "from flax import nnx", "at collection"),
    ],
    loaded_in_one_place: [
        ("PACKAGE/engine/drive.py", "from samebits.host.loading import load_file", "load files"),
        ("PACKAGE/check/runner.py", "import suites.test_rms_norm", "knows no component by name"),
        ("PACKAGE/check/verdict.py", "importlib.import_module(name)", "only host/loading and rooms load by name"),
        ("PACKAGE/check/verdict.py", "from importlib import import_module", "only host/loading and rooms load"),
    ],
    one_name: [
        ("PACKAGE/check/verdict.py", "from harness.samebits import errors", "write samebits"),
        ("PACKAGE/check/verdict.py", "from tests import toys", "does without its tests"),
    ],
    short_files: [
        ("PACKAGE/planted.py", "\n" * (LONGEST + 1), f"has {LONGEST + 1} lines, {LONGEST} at most"),
        (
            "suites/test_planted.py",
            "\n" * (LONGEST_OF_A_PAIR + 1),
            f"has {LONGEST_OF_A_PAIR + 1} lines, {LONGEST_OF_A_PAIR} at most",
        ),
    ],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    if wrong := rule(ROOT):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("folder", [PACKAGE.as_posix(), "reference_impls", "optimized_impls", "suites"])
def test_there_is_something_to_check(folder: str) -> None:
    assert len(python_files(ROOT, folder)) > 1


LED_TO = ("check/runner", "cli/check", "schema/meshes", "schema/pair", "sizes/points")
"""Modules that the planted lines import, or that make a circle with them: the rules look for their files."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the modules that the faults concern; a test that writes into it puts back what was there.

    Of these alone: each fault has a rule read the whole copy, and what is wrong with a part of a tree is subtracted.
    """
    root = tmp_path_factory.mktemp("copied")
    edited = {
        file.replace("PACKAGE", PACKAGE.as_posix())
        for faults in FAULTS.values()
        for file, _, _ in faults
        if file.startswith("PACKAGE")
    }
    for file in sorted(edited | {f"{PACKAGE.as_posix()}/{name}.py" for name in LED_TO}):
        if (ROOT / file).exists():  # some faults are files of their own
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, root / file)
    return root


@functools.cache
def _of_the_copy(rule: Rule, root: Path) -> list[str]:
    return rule(root)


@pytest.mark.parametrize(
    ("rule", "file", "text", "message"), [(rule, *fault) for rule, faults in FAULTS.items() for fault in faults]
)
def test_a_planted_fault_is_found(rule: Rule, file: str, text: str, message: str, copied: Path) -> None:
    honest = _of_the_copy(rule, copied)
    path = copied / file.replace("PACKAGE", PACKAGE.as_posix())
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(text if before is None else f"{before}\n{text}", encoding="utf-8")
    try:
        found = [line for line in rule(copied) if line not in honest]
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")
    assert len(found) == 1
    assert message in found[0]


def test_a_room_that_is_gone_is_found(tmp_path: Path) -> None:
    for name in {name for floor in FLOORS for name in floor} - {"engine"}:
        (tmp_path / PACKAGE / name).mkdir(parents=True)
        (tmp_path / PACKAGE / name / "__init__.py").touch()
    assert f"{PACKAGE}/engine does not exist: remove it from FLOORS in {HERE}" in in_a_room(tmp_path)


def test_every_rule_has_a_planted_fault() -> None:
    assert set(FAULTS) == set(RULES)


def test_what_only_the_type_checker_reads_is_not_imported(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text("if TYPE_CHECKING:\n    import jax\nelse:\n    import numpy\ndef f():\n    import click\n")
    assert [(found.target, found.when) for found in imports(path, tmp_path)] == [
        ("jax", "typing"),
        ("numpy", "import"),
        ("click", "call"),
    ]
