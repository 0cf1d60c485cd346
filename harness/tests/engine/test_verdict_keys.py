"""A key has everything that a result depends on: every planted fault, and an edit of each ingredient, changes it."""

from __future__ import annotations

import functools
import importlib
import inspect
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import pytest

from samebits.audit.faults.fault import Fault
from samebits.audit.faults.find import all_faults
from samebits.audit.snapshots.record import processor_here
from samebits.engine import verdict_keys
from samebits.engine.verdict_keys import PairKeys, VerdictKeys
from samebits.host import installed
from samebits.host.environment import Environment, capture
from samebits.host.package import PACKAGE
from samebits.programs.catalogue import Locator, load
from samebits.programs.implementations import implementation
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.schema.point import USUAL, Effort
from tests.support.invoke import REPOSITORY
from tests.support.rope_tree import write_tree

FOLDERS = ("suites", "reference_impls", "optimized_impls")


@functools.cache
def environment() -> Environment:
    return capture()


def keys(effort: Effort = USUAL, here: Environment | None = None) -> VerdictKeys:
    return VerdictKeys(here or environment(), effort)


def loaded(locator: Locator, request: Request | None = None) -> LoadedPair:
    pair = load(locator)
    return LoadedPair(locator=locator, pair=pair, plan=plan(pair, request or Request(), 8))


# --- the planted faults ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pairs of this repository, in another place."""
    root = tmp_path_factory.mktemp("copy")
    for folder in FOLDERS:
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def source_of(fault: Fault, locator: Locator) -> Path:
    pair = load(locator)
    return Path(inspect.getsourcefile(inspect.unwrap(implementation(pair, fault.side))) or "")


def locator_of(fault: Fault, root: Path) -> Locator:
    module, colon, attribute = fault.pair.partition(":")
    if colon:
        return Locator(name=f"{root / Path(*module.split('.'))}.py:{attribute}")
    return Locator(name=fault.pair, root=str(root))


def edited(fault: Fault, text: str) -> str:
    olds, news = ((part,) if isinstance(part, str) else part for part in (fault.old, fault.new))
    for old, new in zip(olds, news, strict=True):
        assert text.count(old) == 1, (fault.name, old)
        text = text.replace(old, new)
    return text


def test_every_planted_edit_changes_every_key_of_its_request(copy: Path) -> None:
    faults = [fault for fault in all_faults(REPOSITORY) if fault.old]
    assert len(faults) > 300
    verdicts = keys()
    before: dict[Locator, tuple[LoadedPair, PairKeys]] = {}
    for fault in faults:
        locator = locator_of(fault, copy)
        if locator not in before:
            item = loaded(locator)
            before[locator] = item, verdicts.of(item)
        item, honest = before[locator]
        path = source_of(fault, locator)
        assert path.is_relative_to(copy), path
        text = path.read_text()
        path.write_text(edited(fault, text))
        try:
            planted = verdicts.of(item)
        finally:
            path.write_text(text)
        request = fault.request if fault.request.variants else replace(fault.request, variants=(fault.side,))
        points = plan(item.pair, request, 8).points
        assert points
        assert {honest.of(point) for point in points}.isdisjoint(planted.of(point) for point in points), fault.name


def test_an_edit_concerns_the_pairs_that_import_it_alone(copy: Path) -> None:
    locators = [Locator(name=name, root=str(copy)) for name in ("token_sort", "rms_norm")]
    items, verdicts = [loaded(locator) for locator in locators], keys()
    before = [verdicts.of(item).base for item in items]
    path = copy / "optimized_impls" / "rms_norm.py"
    text = path.read_text()
    path.write_text(text + "\n")
    after = [verdicts.of(item).base for item in items]
    path.write_text(text)
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]
    assert [verdicts.of(item).base for item in items] == before


def test_every_fault_of_samebits_itself_is_in_the_key(tmp_path: Path) -> None:
    """The modules that these faults patch count with their content."""
    package = tmp_path / "samebits"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "builtin"))
    honest = installed.own_digest(package)
    targets = {fault.patch[0].partition(":")[0] for fault in all_faults(REPOSITORY) if fault.patch is not None}
    assert len(targets) > 5
    for target in targets:
        module = Path(str(importlib.import_module(target).__file__)).resolve().relative_to(PACKAGE)
        path = package / module
        text = path.read_text()
        path.write_text(text + "\n# patched\n")
        assert installed.own_digest(package) != honest, target
        path.write_text(text)


# --- an edit of each ingredient --------------------------------------------------------------------------------------

HELPERS = {
    "suites/__init__.py": "",
    "tools/__init__.py": "",
    "tools/in_function.py": "",
    "tools/by_name.py": "",
    "tools/relative.py": "",
    "tools/settings.py": "import os\nMODE = os.environ.get('MODE_OF_ROPE')\n",
    "tools/whole.py": "",
}
IMPORTS = """
import tools.settings

def _later():
    import importlib
    import tools.in_function
    from tools import whole
    return importlib.import_module("tools.by_name")
"""
OTHERS = """
import dataclasses

AGAIN = PAIR
SIDES = {side: implementation(PAIR, side) for side in PAIR.sides}
OTHER = dataclasses.replace(
    PAIR, name="rope2", reference=SIDES["complex_form"], variants={"paired": SIDES["paired"]}
)
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A pair whose optimised file imports helpers in every way; they are not loaded."""
    root = write_tree(tmp_path / "tree")
    for name, text in HELPERS.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    path = root / "optimized_impls" / "rope.py"
    path.write_text(path.read_text() + IMPORTS)
    (root / "tools" / "in_function.py").write_text("from .relative import x\n")
    suite = root / "suites" / "test_rope.py"
    suite.write_text(suite.read_text() + OTHERS)
    (tmp_path / "site-packages" / "flash-1.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(root)
    yield root
    for name in [name for name in sys.modules if name == "tools" or name.startswith("tools.")]:
        del sys.modules[name]


@dataclass(frozen=True)
class Change:
    """A change of the world, and the ingredients that must differ by it.

    Args:
        name: for the test's id.
        ingredients: exactly those that differ.
        apply: given the tree and pytest's patch; what it returns replaces arguments of `keys`, or the locator.
    """

    name: str
    ingredients: frozenset[str]
    apply: Callable[[Path, pytest.MonkeyPatch], Any]


def change(name: str, *ingredients: str) -> Callable[[Callable[[Path, pytest.MonkeyPatch], Any]], Change]:
    return lambda apply: Change(name, frozenset(ingredients), apply)


def edit(name: str, text: str = "\nx = 1\n") -> Change:
    def apply(tree: Path, patch: pytest.MonkeyPatch) -> None:
        path = tree / name
        path.write_text((path.read_text() if path.is_file() else "") + text)

    return Change(f"edit of {name}", frozenset({"sources"}), apply)


def variable(name: str, *ingredients: str) -> Change:
    return Change(
        f"variable {name}", frozenset(ingredients), lambda tree, patch: patch.setenv(name, "--something_else=1")
    )


def replaced(module: Any, attribute: str, value: Any, *ingredients: str) -> Change:
    return Change(
        f"other {attribute}", frozenset(ingredients), lambda tree, patch: patch.setattr(module, attribute, value)
    )


def _upgrade(tree: Path, patch: pytest.MonkeyPatch) -> None:
    place = tree.parent / "site-packages"
    (place / "flash-1.0.dist-info").rename(place / "flash-1.1.dist-info")


def _whole_environment(tree: Path, patch: pytest.MonkeyPatch) -> None:
    path = tree / "tools" / "settings.py"
    path.write_text(path.read_text().replace(".get('MODE_OF_ROPE')", ".copy()"))


def _removed(tree: Path, patch: pytest.MonkeyPatch) -> None:
    (tree / "tools" / "by_name.py").unlink()


def _shadowed(tree: Path, patch: pytest.MonkeyPatch) -> None:
    (tree / "tools.py").write_text("")


def _renamed(tree: Path, patch: pytest.MonkeyPatch) -> None:
    (tree / "tools" / "whole.py").rename(tree / "tools" / "whole_renamed.py")


def _settings(tree: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdict_keys, "configuration", lambda: (("jax_default_matmul_precision", "highest"),))


def _own_source(tree: Path, patch: pytest.MonkeyPatch) -> None:
    package = tree.parent / "samebits"
    shutil.copytree(PACKAGE / "check", package / "check", ignore=shutil.ignore_patterns("__pycache__"))
    patch.setattr(verdict_keys, "own_digest", lambda: installed.own_digest(package))


CHANGES = (
    edit("suites/test_rope.py"),
    edit("suites/__init__.py"),
    edit("reference_impls/rope.py"),
    edit("optimized_impls/rope.py"),
    edit("tools/__init__.py"),
    edit("tools/in_function.py"),
    edit("tools/relative.py"),
    edit("tools/by_name.py"),
    edit("tools/whole.py"),
    edit("tools/settings.py"),
    edit("sitecustomize.py"),
    Change("a helper is gone", frozenset({"sources"}), _removed),
    Change("a helper has another name", frozenset({"sources"}), _renamed),
    Change("a module before a package", frozenset({"sources"}), _shadowed),
    Change("the whole environment", frozenset({"sources", "variables read"}), _whole_environment),
    variable("MODE_OF_ROPE", "variables read"),
    variable("XLA_FLAGS", "variables"),
    variable("JAX_DEFAULT_PRNG_IMPL", "variables"),
    variable("LIBTPU_INIT_ARGS", "variables"),
    variable("NPY_DISABLE_CPU_FEATURES", "variables"),
    variable("OPENBLAS_CORETYPE", "variables"),
    variable("SAMEBITS_PROCESSOR", "variables", "processor"),
    variable("SAMEBITS_CACHE_DIR"),
    variable("JAX_COMPILATION_CACHE_DIR"),
    variable("SOMETHING_ELSE"),
    Change("another version of a distribution", frozenset({"distributions"}), _upgrade),
    Change("a setting of jax", frozenset({"settings"}), _settings),
    Change("samebits itself", frozenset({"samebits"}), _own_source),
    Change("the current folder", frozenset({"folder"}), lambda tree, patch: patch.chdir(tree.parent)),
    Change("an effort", frozenset({"effort"}), lambda tree, patch: {"effort": Effort(repeats=3)}),
    Change(
        "a device more",
        frozenset({"environment"}),
        lambda tree, patch: {"here": replace(environment(), devices=9)},
    ),
    Change("how it is found", frozenset({"locator"}), lambda tree, patch: {"attribute": "AGAIN"}),
    Change("another pair of the file", frozenset({"locator", "pair"}), lambda tree, patch: {"attribute": "OTHER"}),
    replaced(sys, "version", "3.99", "python"),
    replaced(verdict_keys, "FORMAT", 99, "format"),
    replaced(verdict_keys, "processor_here", lambda here: replace(processor_here(here), model="another"), "processor"),
)


def of_tree(tree: Path, attribute: str = "PAIR", **more: Any) -> PairKeys:
    return keys(**more).of(loaded(Locator(name=f"{tree}/suites/test_rope.py:{attribute}")))


@pytest.mark.parametrize("changed", CHANGES, ids=lambda changed: changed.name)
def test_a_change_is_in_its_ingredient(tree: Path, monkeypatch: pytest.MonkeyPatch, changed: Change) -> None:
    """A key without this ingredient would be the same before and after, and the result a wrong one."""
    before = of_tree(tree)
    more = changed.apply(tree, monkeypatch) or {}
    after = of_tree(tree, **more)
    differing = {name for name in before.ingredients if before.ingredients[name] != after.ingredients[name]}
    assert differing == changed.ingredients
    point = loaded(Locator(name=f"{tree}/suites/test_rope.py:PAIR")).plan.points[0]
    assert (before.of(point) != after.of(point)) == bool(changed.ingredients)


def test_every_ingredient_has_such_a_change(tree: Path) -> None:
    known = frozenset().union(*(changed.ingredients for changed in CHANGES))
    assert known == set(of_tree(tree).ingredients)


def test_every_ingredient_is_in_the_key(tree: Path) -> None:
    """Whichever is left out, the key is another one: none is there for show."""
    complete = of_tree(tree).ingredients
    digests = {verdict_keys.digest({k: v for k, v in complete.items() if k != name}) for name in complete}
    assert len(digests | {verdict_keys.digest(complete)}) == len(complete) + 1


def test_points_have_keys_of_their_own(tree: Path) -> None:
    item = loaded(Locator(name=f"{tree}/suites/test_rope.py:PAIR"))
    pair_keys = keys().of(item)
    assert len({pair_keys.of(point) for point in item.plan.points}) == len(item.plan.points)
    assert keys().of(item).base == pair_keys.base


def test_a_link_that_points_to_another_tree(tree: Path, tmp_path: Path) -> None:
    """The name of the tree is the same, what it stands for is not."""
    other = write_tree(tmp_path / "other", fault=True)
    link = tmp_path / "link"
    link.symlink_to(tree)
    verdicts = keys()
    first = verdicts.of(loaded(Locator(name="rope", root=str(link)))).base
    link.unlink()
    link.symlink_to(other)
    assert verdicts.of(loaded(Locator(name="rope", root=str(link)))).base != first


def test_settings_without_addresses() -> None:
    """What an object prints may hold its address, which is another one in each process."""
    assert not [text for text in keys().ingredients["settings"] if " at 0x" in text]
    assert any(text.startswith("jax_enable_x64=") for text in keys().ingredients["settings"])
    with jax.enable_x64(True):
        assert "jax_enable_x64=True" in keys().ingredients["settings"]
