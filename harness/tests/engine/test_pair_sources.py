"""The files of a pair, wherever its sides are written, and pairs of which they are not to be found."""

from __future__ import annotations

import dataclasses
import importlib
import os
from pathlib import Path

import pytest

from samebits.engine.pair_sources import NotRememberable, PairSources, reads_beside, watch_reads
from samebits.host.file_reads import FILE, LISTED
from samebits.programs.catalogue import Locator, load
from tests.support.rope_tree import write_tree


def sources(locator: Locator, tree: Path) -> set[str]:
    digests = PairSources().of(load(locator), locator).digests
    return {os.path.relpath(path, tree) for path in digests if Path(path).is_relative_to(tree)}


def test_the_three_files_of_a_tree(tmp_path: Path) -> None:
    tree = write_tree(tmp_path)
    files = {"reference_impls/rope.py", "optimized_impls/rope.py", "suites/test_rope.py"}
    assert sources(Locator(name="rope", root=str(tree)), tree) == files


def test_functions_of_other_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels_of_test.py").write_text(
        "import functools\n\ndef plain(x):\n    return x + x\n\n"
        "def scaled(x, by):\n    return x * by\n\nfast = functools.partial(scaled, by=2)\nfast.__name__ = 'fast'\n"
    )
    (tmp_path / "drawn_of_test.py").write_text("import numpy as np\n\ndef draw(rng, shape, dtype):\n    return 1\n")
    (tmp_path / "test_it.py").write_text(
        "from samebits import Arg, Case, Pair\n"
        "import drawn_of_test\n"
        "PAIR = Pair(name='scaled', reference='kernels_of_test:plain',\n"
        "    variants={'fast': 'kernels_of_test:fast'}, args={'x': Arg(shape=('rows',))},\n"
        "    cases=(Case(id='small', sizes={'rows': 4}),), dtypes=('float32',))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    files = {"kernels_of_test.py", "drawn_of_test.py", "test_it.py"}
    assert sources(Locator(name=f"{tmp_path}/test_it.py:PAIR"), tmp_path) == files


def test_a_module_that_names_a_pair_of_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = write_tree(tmp_path)
    (tree / "names_of_test.py").write_text("from rope_of_test import PAIR\n")
    (tree / "rope_of_test.py").write_text((tree / "suites/test_rope.py").read_text())
    monkeypatch.syspath_prepend(tree)
    monkeypatch.chdir(tree)
    files = {"names_of_test.py", "rope_of_test.py", "reference_impls/rope.py", "optimized_impls/rope.py"}
    assert sources(Locator(name="names_of_test:PAIR"), tree) == files


def test_a_pair_that_was_altered_after_it_was_loaded(tmp_path: Path) -> None:
    """As a planted fault is: its function is in no file."""
    locator = Locator(name="rope", root=str(write_tree(tmp_path)))
    altered = dataclasses.replace(load(locator), variants={"paired": lambda x, angle, base=1.0: x})
    with pytest.raises(NotRememberable, match="it is not the declaration that its file has"):
        PairSources().of(altered, locator)


def test_a_function_that_is_in_no_file(tmp_path: Path) -> None:
    tree = write_tree(tmp_path)
    path = tree / "suites" / "test_rope.py"
    text = path.read_text().replace('variants=("paired",)', 'variants={"paired": NAMES["paired"]}')
    path.write_text("NAMES = {}\nexec('def paired(x, angle, base=1.0): return x', NAMES)\n" + text)
    locator = Locator(name="rope", root=str(tree))
    with pytest.raises(NotRememberable, match="'paired' is not written in a file, but in <string>"):
        PairSources().of(load(locator), locator)


def test_a_table_that_is_read_on_import(tmp_path: Path) -> None:
    watch_reads()
    tree = write_tree(tmp_path)
    (tree / "table.txt").write_text("2.0")
    path = tree / "reference_impls" / "rope.py"
    path.write_text(f"from pathlib import Path\nBASE = float(Path({str(tree / 'table.txt')!r}).read_text())\n")
    path.write_text(path.read_text() + "def complex_form(x, angle, *, base=BASE):\n    return x\n")
    locator = Locator(name="rope", root=str(tree))
    sources = PairSources().of(load(locator), locator)
    assert set(reads_beside(sources)) == {f"{FILE}{tree / 'table.txt'}", *(f"{FILE}{path}" for path in sources.digests)}


def test_a_file_that_is_loaded_by_its_path_is_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it imports, although another pair has imported that before, and with what that has read."""
    watch_reads()
    tree = write_tree(tmp_path)
    (tree / "table.txt").write_text("2.0")
    helper = f"from pathlib import Path\nBASE = float(Path({str(tree / 'table.txt')!r}).read_text())\n"
    (tree / "helper_of_dynamic.py").write_text(helper)
    (tree / "dynamic.py").write_text("from helper_of_dynamic import BASE\n")
    monkeypatch.syspath_prepend(tree)
    importlib.import_module("helper_of_dynamic")
    (tree / "reference_impls" / "rope.py").write_text(
        f"import importlib.util\nspec = importlib.util.spec_from_file_location('d', {str(tree / 'dynamic.py')!r})\n"
        "module = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)\n"
        "def complex_form(x, angle, *, base=module.BASE):\n    return x\n"
    )
    locator = Locator(name="rope", root=str(tree))
    sources = PairSources().of(load(locator), locator)
    reads = reads_beside(sources)
    assert {f"{FILE}{tree / name}" for name in ("dynamic.py", "helper_of_dynamic.py", "table.txt")} <= set(reads)
    assert f"{LISTED}{tree}" in reads, "a module that is made there may be imported by it"


@pytest.mark.parametrize("in_data", [False, True])
def test_a_module_that_a_library_takes_by_its_name(
    in_data: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No import of it is seen where another pair has loaded it before."""
    watch_reads()
    tree, name = write_tree(tmp_path), f"taken_by_name_{in_data}".lower()
    (tree / f"{name}.py").write_text("BASE = 2.0\n")
    (tree / "config.yaml").write_text(f"base: !!python/name:{name}.BASE\n")
    monkeypatch.syspath_prepend(tree)
    importlib.import_module(name)
    config = f"Path({str(tree / 'config.yaml')!r}).read_text().split(':')[-1].strip()"
    (tree / "reference_impls" / "rope.py").write_text(
        "import pkgutil\nfrom pathlib import Path\nresolve = vars(pkgutil)['resolve' + '_name']\n"
        + f"BASE = resolve({config if in_data else repr(name + '.BASE')})\n"
        "def complex_form(x, angle, *, base=BASE):\n    return x\n"
    )
    locator = Locator(name="rope", root=str(tree))
    sources = PairSources().of(load(locator), locator)
    assert str(tree / f"{name}.py") not in sources.digests
    assert f"{FILE}{tree / name}.py" in reads_beside(sources)
