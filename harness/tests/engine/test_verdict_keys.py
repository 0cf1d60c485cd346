"""A key has everything that a result depends on: an edit or fault of each ingredient changes it, nothing else does."""

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import pytest

from samebits.audit.faults.fault import all_faults
from samebits.engine import verdict_cache
from samebits.engine.check_work import check_items
from samebits.engine.run_work import digest
from samebits.host import installed, process_sources
from samebits.host.installed import PACKAGE
from samebits.programs.catalogue import Locator
from samebits.schema.point import Effort
from tests.engine.loaded_pairs import cache_of, environment, installed_once, loaded
from tests.support.invoke import REPOSITORY
from tests.support.rope_tree import write_tree

HELPERS = {
    "suites/__init__.py": "",
    "tools/__init__.py": "",
    "tools/in_function.py": "",
    "tools/by_name.py": "",
    "tools/relative.py": "",
    "tools/settings.py": "import os\n\nMODE = os.environ.get('MODE_OF_ROPE')\n",
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


@pytest.fixture(autouse=True, scope="module")
def _samebits_once() -> Iterator[None]:
    """The one change that concerns samebits puts another digest in place of its own."""
    with installed_once("own_digest"):
        yield


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
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.setattr(process_sources, "loaded_files", set)  # those of other tests
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
        apply: given the tree and pytest's patch; what it returns replaces arguments of `cache_of`.
    """

    name: str
    ingredients: frozenset[str]
    apply: Callable[[Path, pytest.MonkeyPatch], Any]


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


def _unnamed(tree: Path, patch: pytest.MonkeyPatch) -> None:
    (tree / "anything.py").write_text("")


def _loaded_module(tree: Path, patch: pytest.MonkeyPatch) -> None:
    path = tree.parent / "loaded_of_test.py"
    path.write_text("")
    patch.setattr(process_sources, "loaded_files", lambda: {str(path)})


def _removed(tree: Path, patch: pytest.MonkeyPatch) -> None:
    (tree / "tools" / "by_name.py").unlink()


def _module_outside(tree: Path, patch: pytest.MonkeyPatch) -> None:
    """Code that tries to import it found none before."""
    (tree.parent / "elsewhere" / "fast_module.py").write_text("")


def _shadowed(tree: Path, patch: pytest.MonkeyPatch) -> None:
    (tree / "tools.py").write_text("")


def _renamed(tree: Path, patch: pytest.MonkeyPatch) -> None:
    (tree / "tools" / "whole.py").rename(tree / "tools" / "whole_renamed.py")


def _settings(tree: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(process_sources, "configuration", lambda: (("jax_default_matmul_precision", "highest"),))


def _own_source(tree: Path, patch: pytest.MonkeyPatch) -> None:
    package = tree.parent / "samebits"
    shutil.copytree(PACKAGE / "check", package / "check", ignore=shutil.ignore_patterns("__pycache__"))
    patch.setattr(process_sources, "own_digest", lambda: installed.own_digest(package))


def _flags_in_a_file(tree: Path, patch: pytest.MonkeyPatch) -> None:
    """XLA reads its flags from a file where the variable is a path."""
    (tree / "flags").write_text("--xla_cpu_enable_fast_math=false")
    patch.setenv("XLA_FLAGS", str(tree / "flags"))


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
    Change("a module on the path, outside of the tree", frozenset({"modules"}), _module_outside),
    Change("a loaded module", frozenset({"loaded"}), _loaded_module),
    Change("a source that is nowhere named", frozenset({"sources"}), _unnamed),
    variable("MODE_OF_ROPE", "variables read"),
    variable("XLA_FLAGS", "variables"),
    variable("JAX_DEFAULT_PRNG_IMPL", "variables"),
    variable("LIBTPU_INIT_ARGS", "variables"),
    variable("NPY_DISABLE_CPU_FEATURES", "variables"),
    variable("OPENBLAS_CORETYPE", "variables"),
    variable("SAMEBITS_PROCESSOR", "variables", "processor"),
    variable("SAMEBITS_CACHE_DIR"),
    variable("JAX_COMPILATION_CACHE_DIR"),
    variable("PYTHONPATH", "variables"),
    variable("HOME", "variables"),
    variable("SOMETHING_ELSE"),
    variable("PATH", "search path"),
    Change("flags in a file", frozenset({"variables", "flags in a file"}), _flags_in_a_file),
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
    replaced(sys, "version", "3.99", "python"),
    replaced(sys, "warnoptions", ["error"], "python"),
    replaced(verdict_cache, "FORMAT", 99, "format"),
    replaced(process_sources, "instruction_sets", lambda: ("another",), "processor"),
)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("changed", CHANGES, ids=lambda changed: changed.name)
def test_a_change_is_in_its_ingredient(tree: Path, monkeypatch: pytest.MonkeyPatch, changed: Change) -> None:
    """A key without this ingredient would be the same before and after, and the result a wrong one."""
    pair = loaded(Locator(name=f"{tree}/suites/test_rope.py:PAIR"))
    (item, *_) = check_items([pair])
    before = cache_of([tree], [pair])
    more = changed.apply(tree, monkeypatch) or {}
    after = cache_of([tree], [pair], **more)
    differing = {name for name in before.ingredients if before.ingredients[name] != after.ingredients[name]}
    assert differing == changed.ingredients
    assert (before.cache_key(item) != after.cache_key(item)) == bool(changed.ingredients)
    of_sources = {"sources", "modules", "loaded", "variables read", "search path"}
    assert (before.by_programs != after.by_programs) == bool(changed.ingredients - of_sources)


def test_every_ingredient_has_such_a_change(tree: Path) -> None:
    known = frozenset().union(*(changed.ingredients for changed in CHANGES))
    assert known == set(cache_of([tree]).ingredients)


def test_every_ingredient_is_in_the_key(tree: Path) -> None:
    """Whichever is left out, the key is another one: none is there for show."""
    complete = cache_of([tree]).ingredients
    digests = {digest({k: v for k, v in complete.items() if k != name}) for name in complete}
    assert len(digests | {digest(complete)}) == len(complete) + 1


def test_points_and_pairs_have_keys_of_their_own(tree: Path) -> None:
    pairs = [loaded(Locator(name=f"{tree}/suites/test_rope.py:{name}")) for name in ("PAIR", "AGAIN", "OTHER")]
    items, known = check_items(pairs), cache_of([tree], pairs)
    assert len({known.cache_key(item) for item in items}) == len(items)
    assert cache_of([tree], pairs).cache_key(items[0]) == known.cache_key(items[0])


def test_a_tree_that_is_too_large_equals_none(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To digest it would take longer than to trace; what is remembered by programs is found all the same."""
    monkeypatch.setattr(verdict_cache, "MOST", 3)
    first, second = cache_of([tree]), cache_of([tree])
    assert first.ingredients["sources"] != second.ingredients["sources"] and first.by_programs == second.by_programs


def test_a_link_that_points_to_another_tree(tree: Path, tmp_path: Path) -> None:
    """The name of the tree is the same, what it stands for is not."""
    other = write_tree(tmp_path / "other", fault=True)
    link = tmp_path / "link"
    link.symlink_to(tree)
    first = cache_of([link]).ingredients["sources"]
    link.unlink()
    link.symlink_to(other)
    assert cache_of([link]).ingredients["sources"] != first


def test_settings_without_addresses() -> None:
    """What an object prints may hold its address, which is another one in each process."""
    assert not [text for text in cache_of().ingredients["settings"] if " at 0x" in text]
    assert any(text.startswith("jax_enable_x64=") for text in cache_of().ingredients["settings"])
    with jax.enable_x64(True):
        assert "jax_enable_x64=True" in cache_of().ingredients["settings"]


def test_every_fault_of_samebits_itself_is_in_the_key(tmp_path: Path) -> None:
    """The modules that these faults patch count with their content, where they lie in samebits."""
    targets = {fault.patch[0].partition(":")[0] for fault in all_faults(REPOSITORY) if fault.patch is not None}
    assert len(targets) > 5
    package, modules = tmp_path / "samebits", {}
    for target in targets:
        file = Path(str(importlib.import_module(target).__file__)).resolve()
        modules[target] = path = package / file.relative_to(PACKAGE)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)
    honest = installed.own_digest(package)
    for target, path in modules.items():
        text = path.read_text()
        path.write_text(text + "\n# patched\n")
        assert installed.own_digest(package) != honest, target
        path.write_text(text)
    assert installed.own_digest(package) == honest
