"""Imports point one way; each rule of `layering` holds, and is shown to be able to fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.tests.layering import (
    HERE,
    LONGEST,
    LONGEST_OF_A_PAIR,
    ROOT,
    RULES,
    Rule,
    acyclic,
    downward,
    implementations_alone,
    imports,
    in_the_table,
    jax_where_it_runs,
    loaded_in_one_place,
    no_private_jax,
    packages_in_place,
    python_files,
    short_files,
    suites_use_the_public_list,
)

FAULTS: tuple[tuple[Rule, str, str, str], ...] = (
    (in_the_table, "harness/rogue.py", "", "harness/rogue has no layer: add it to LAYERS"),
    (downward, "harness/pair.py", "from harness.runner import Runner", "'runner' is in a higher layer than 'pair'"),
    (downward, "harness/bits.py", "def f():\n    from harness import sweep", "'sweep' is in a higher layer"),
    (downward, "harness/sweep.py", "from harness import Pair", "import the module that defines 'Pair'"),
    (acyclic, "harness/errors.py", "import harness.meshes", "in a circle: "),
    (jax_where_it_runs, "harness/selection.py", "from jax import numpy", "do it in the function that needs it"),
    (jax_where_it_runs, "harness/values.py", "def f():\n    import jax", "the data layer does without jax"),
    (packages_in_place, "harness/bits.py", "import click", "cli of harness may use click"),
    (packages_in_place, "harness/bits.py", "import chex", "nothing of harness may use chex"),
    (packages_in_place, "harness/cli/check.py", "from .common import say", "write the full name"),
    (no_private_jax, "optimized_impls/planted.py", "from jax._src import core", "private to jax"),
    (
        implementations_alone,
        "optimized_impls/planted.py",
        "from reference_impls import rms_norm",
        "no other file of ours",
    ),
    (implementations_alone, "optimized_impls/planted.py", "from . import shared", "no other file of ours"),
    (implementations_alone, "reference_impls/planted.py", "import harness", "no other file of ours"),
    (implementations_alone, "reference_impls/planted.py", "import chex", "no other file of ours"),
    (suites_use_the_public_list, "suites/test_planted.py", "from harness.runner import Runner", "from the public list"),
    (suites_use_the_public_list, "suites/test_planted.py", "from harness import runner", "from the public list"),
    (suites_use_the_public_list, "suites/test_planted.py", "import reference_impls.rms_norm", "from the public list"),
    (suites_use_the_public_list, "suites/test_planted.py", "import jax.numpy as jnp", "at collection"),
    (suites_use_the_public_list, "suites/test_planted.py", "from .model import data", "from the public list"),
    (suites_use_the_public_list, "suites/model/planted.py", "from .. import test_rms_norm", "from the public list"),
    (
        suites_use_the_public_list,
        "suites/model/planted.py",
        "from harness.runner import Runner",
        "from the public list",
    ),
    (suites_use_the_public_list, "suites/model/settings.py", "from flax import nnx", "at collection"),
    (loaded_in_one_place, "harness/sweep.py", "from harness.modules import load_file", "load files"),
    (loaded_in_one_place, "harness/runner.py", "import suites.test_rms_norm", "knows no component by name"),
    (
        loaded_in_one_place,
        "harness/verdict.py",
        "importlib.import_module(name)",
        "only harness/modules.py loads by name",
    ),
    (loaded_in_one_place, "harness/verdict.py", "from importlib import import_module", "only harness/modules.py loads"),
    (short_files, "harness/planted.py", "\n" * (LONGEST + 1), f"has {LONGEST + 1} lines, {LONGEST} at most"),
    (
        short_files,
        "suites/test_planted.py",
        "\n" * (LONGEST_OF_A_PAIR + 1),
        f"has {LONGEST_OF_A_PAIR + 1} lines, {LONGEST_OF_A_PAIR} at most",
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    if wrong := rule(ROOT):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("folder", ["harness", "reference_impls", "optimized_impls", "suites"])
def test_there_is_something_to_check(folder: str) -> None:
    assert len(python_files(ROOT, folder)) > 1


@pytest.mark.parametrize(("rule", "file", "text", "message"), FAULTS)
def test_a_planted_fault_is_found(rule: Rule, file: str, text: str, message: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("tests", "__pycache__"))
    honest = rule(tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") + "\n" if path.exists() else ""
    path.write_text(before + text, encoding="utf-8")
    found = [line for line in rule(tmp_path) if line not in honest]
    assert len(found) == 1
    assert message in found[0]


def test_a_stale_row_of_the_table_is_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("point.py"))
    assert f"harness/point does not exist: remove it from LAYERS in {HERE}" in in_the_table(tmp_path)


def test_every_rule_has_a_planted_fault() -> None:
    assert {rule for rule, *_ in FAULTS} == set(RULES)


def test_what_only_the_type_checker_reads_is_not_imported(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text("if TYPE_CHECKING:\n    import jax\nelse:\n    import numpy\ndef f():\n    import click\n")
    assert [(found.target, found.when) for found in imports(path, tmp_path)] == [
        ("jax", "typing"),
        ("numpy", "import"),
        ("click", "call"),
    ]
