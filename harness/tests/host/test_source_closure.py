"""The files that a file depends on: every form of import, from every place where a module could lie."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from samebits.host.source_closure import SourceFinder

FILES = {
    "suites/__init__.py": "",
    "suites/test_a.py": "import jax\nimport os\nfrom tools import scale\nimport tools.deep.leaf\n",
    "tools/__init__.py": "from tools._lazy import loaded\n",
    "tools/_lazy.py": "import importlib\n\ndef loaded():\n    return importlib.import_module('tools.by_name')\n",
    "tools/by_name.py": "def f():\n    from . import sibling\n    from .deep import *\n",
    "tools/sibling.py": "import tools.by_name\n",
    "tools/scale.py": "from .helpers.more import x as y\n",
    "tools/helpers/more.py": "try:\n    import fast_helper\nexcept ImportError:\n    import slow_helper\n",
    "tools/deep/__init__.py": "",
    "tools/deep/leaf.py": "from .. import other\n",
    "tools/other.py": "",
    "slow_helper.py": "def f():\n    import numpy as np, at_the_end\n",
    "at_the_end.py": "",
    "unrelated.py": "",
    "tools/unrelated.py": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def closure(tree: Path, *roots: str) -> set[str]:
    sources = SourceFinder(folders=(tree,)).closure([tree / root for root in roots])
    return {os.path.relpath(path, tree) for path in sources.digests if Path(path).is_relative_to(tree)}


def test_everything_that_is_imported_and_nothing_else(tree: Path) -> None:
    assert closure(tree, "suites/test_a.py") == set(FILES) - {"unrelated.py", "tools/unrelated.py"}


@pytest.mark.parametrize("line", ["from package import *\n", "from .package import *\n"])
def test_a_star_may_stand_for_modules(line: str, tree: Path) -> None:
    """Those that `__all__` names are imported with it."""
    files = {"star": line, "package/__init__": "__all__ = ['sub']", "package/sub": "", "package/inner/__init__": ""}
    for name, text in files.items():
        path = tree / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert {"star.py", "package/__init__.py", "package/sub.py"} <= closure(tree, "star.py")


def test_what_is_installed_is_left_to_its_version(tree: Path) -> None:
    sources = SourceFinder(folders=(tree,)).closure([tree / "suites/test_a.py"])
    assert not [path for path in sources.digests if "site-packages" in path or "/jax/" in path or "/numpy/" in path]


def test_a_new_file_that_would_be_imported_first(tree: Path) -> None:
    assert "fast_helper.py" not in closure(tree, "suites/test_a.py")
    (tree / "fast_helper.py").write_text("import unrelated\n")
    assert {"fast_helper.py", "unrelated.py"} <= closure(tree, "suites/test_a.py")


def test_a_package_and_a_module_of_one_name_both_count(tree: Path) -> None:
    (tree / "slow_helper").mkdir()
    (tree / "slow_helper/__init__.py").write_text("")
    assert {"slow_helper/__init__.py", "slow_helper.py"} <= closure(tree, "suites/test_a.py")


def test_a_module_from_every_folder_of_the_path(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tree / "other place"
    other.mkdir()
    (other / "fast_helper.py").write_text("")
    (other / "slow_helper.py").write_text("")
    monkeypatch.syspath_prepend(other)
    assert {"other place/fast_helper.py", "other place/slow_helper.py", "slow_helper.py"} <= closure(
        tree, "suites/test_a.py"
    )


def test_a_file_outside_of_any_package_imports_relatively(tree: Path) -> None:
    (tree / "loose").mkdir()
    (tree / "loose/a.py").write_text("from .b import x\nfrom . import c\n")
    for name in "bc":
        (tree / f"loose/{name}.py").write_text("")
    assert closure(tree, "loose/a.py") == {"loose/a.py", "loose/b.py", "loose/c.py"}


def test_extension_modules_count_by_their_content(tree: Path) -> None:
    (tree / "fast_helper.so").write_bytes(b"\x7fELF")
    assert "fast_helper.so" in closure(tree, "suites/test_a.py")


def test_a_file_that_does_not_parse_counts_all_the_same(tree: Path) -> None:
    (tree / "at_the_end.py").write_text("def f(:")
    assert "at_the_end.py" in closure(tree, "suites/test_a.py")


def test_a_symbolic_link_counts_as_what_it_points_to(tree: Path) -> None:
    (tree / "at_the_end.py").unlink()
    (tree / "at_the_end.py").symlink_to(tree / "unrelated.py")
    first = SourceFinder(folders=(tree,)).closure([tree / "suites/test_a.py"])
    assert str(tree / "unrelated.py") in first.digests


def test_a_linked_module_imports_what_lies_beside_the_link(tree: Path) -> None:
    (tree / "shared").mkdir()
    (tree / "shared/linked.py").write_text("from .scale import scale\nfrom . import sibling\n")
    (tree / "tools/linked.py").symlink_to(tree / "shared/linked.py")
    files = closure(tree, "tools/linked.py")
    assert {"shared/linked.py", "tools/scale.py", "tools/sibling.py"} <= files


def test_a_compiled_module_without_a_source(tree: Path) -> None:
    """What it imports and reads is not to be seen."""
    (tree / "fast_helper.pyc").write_bytes(b"compiled")
    sources = SourceFinder(folders=(tree,)).closure([tree / "suites/test_a.py"])
    assert str(tree / "fast_helper.pyc") in sources.digests
    assert sources.computed_imports and sources.whole_environment
    (tree / "fast_helper.pyc").unlink()
    (tree / "fast_helper").mkdir()
    (tree / "fast_helper/__init__.pyc").write_bytes(b"compiled")
    assert "fast_helper/__init__.pyc" in closure(tree, "suites/test_a.py")


def test_an_archive_on_the_path(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tree / "modules.zip", "w") as archive:
        archive.writestr("fast_helper.py", "")
    monkeypatch.syspath_prepend(tree / "modules.zip")
    sources = SourceFinder(folders=(tree,)).closure([tree / "suites/test_a.py"])
    assert str(tree / "modules.zip") in sources.digests
    assert sources.computed_imports and sources.whole_environment


def test_a_module_that_python_imports_before_this_package(tmp_path: Path) -> None:
    """As a line of a `.pth` file does."""
    (tmp_path / "patch_of_test.py").write_text("import beside_of_test\n")
    (tmp_path / "beside_of_test.py").write_text("")
    code = (
        "import sys, patch_of_test\nfrom pathlib import Path\n"
        "from samebits.host.source_closure import SourceFinder\n"
        "(tree := Path(sys.argv[1], 'root.py')).write_text('')\n"
        "print(*sorted(Path(path).name for path in SourceFinder().closure([tree]).digests))"
    )
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    environment = {**os.environ, "PYTHONPATH": path}
    (tmp_path / "tree").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "tree"], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["beside_of_test.py", "patch_of_test.py", "root.py"]


def test_more_files_with_what_they_import(tree: Path) -> None:
    sources = SourceFinder(folders=(tree,)).closure([tree / "unrelated.py"])
    more = sources.with_files(frozenset({str(tree / "slow_helper.py")}))
    assert {Path(path).name for path in more.digests} == {"unrelated.py", "slow_helper.py", "at_the_end.py"}
    assert sources.with_files(frozenset({str(tree / "slow_helper.py")})) is more
    assert sources.with_files(frozenset({str(tree / "missing.py")})).digests == sources.digests


def test_the_package_of_an_installed_declaration_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "lib" / "site-packages"
    for name in ("company/__init__.py", "company/pairs.py", "company/kernels/fast.py", "others/__init__.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("")
    (place / "company/pairs.py").write_text("import company.kernels.fast\nimport others\n")
    monkeypatch.syspath_prepend(place)
    finder = SourceFinder(package=place / "company")
    digests = finder.closure([place / "company/pairs.py"]).digests
    expected = {"company/__init__.py", "company/pairs.py", "company/kernels/fast.py"}
    assert {os.path.relpath(path, place) for path in digests if path.startswith(str(place))} == expected


def test_a_finder_of_somebody_elses_is_asked(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As editable installs have one."""
    import importlib.util

    hidden = tree / "hidden" / "elsewhere.py"
    hidden.parent.mkdir()
    hidden.write_text("")

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            return importlib.util.spec_from_file_location(name, hidden) if name == "fast_helper" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert "hidden/elsewhere.py" in closure(tree, "suites/test_a.py")


def test_variables_of_all_files_together(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "at_the_end.py").write_text("import os\nA = os.environ['SCALE_OF_TEST']\n")
    (tree / "tools/other.py").write_text("import os\nB = os.getenv('MODE_OF_TEST')\n")
    sources = SourceFinder(folders=(tree,)).closure([tree / "suites/test_a.py"])
    monkeypatch.setenv("MODE_OF_TEST", "fast")
    assert sources.environment() == [("MODE_OF_TEST", "fast"), ("SCALE_OF_TEST", None)]
    (tree / "tools/other.py").write_text("import os\nB = dict(os.environ)\n")
    sources = SourceFinder(folders=(tree,)).closure([tree / "suites/test_a.py"])
    assert ("PATH", os.environ["PATH"]) in sources.environment()


def test_a_root_that_cannot_be_read_is_an_error(tree: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SourceFinder().closure([tree / "missing.py"])
