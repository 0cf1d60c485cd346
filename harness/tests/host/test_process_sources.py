"""What every result of a process depends on: variables that code reads, what is installed, the machine."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import samebits
from samebits.host import process_sources
from samebits.host.environment import PACKAGES
from samebits.host.fingerprint import MachineFingerprint, fingerprint
from samebits.host.installed import PACKAGE, distributions_digest, is_installed, own_digest
from samebits.host.process_sources import sources_of_process, variables_in


def _parts(tree: Path) -> dict[str, Any]:
    return sources_of_process(tree).parts


def test_variables_that_loaded_code_reads_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reads_a_variable.py"
    path.write_text("import os\nF = int(os.environ.get('SCALE_OF_A_TEST', '2'))\n")
    monkeypatch.setattr(process_sources, "loaded_files", lambda: {str(path)})  # other tests pass the environment on
    before = _parts(tmp_path / "tree")
    monkeypatch.setenv("SOMETHING_ELSE", "3")
    assert _parts(tmp_path / "tree") == before
    monkeypatch.setenv("SCALE_OF_A_TEST", "3")
    assert _parts(tmp_path / "tree") != before


def test_variables_that_the_tree_reads_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process loads the implementations, after this one has signed; what passes all on counts once loaded."""
    monkeypatch.setattr(process_sources, "loaded_files", set)
    (tmp_path / "reads.py").write_text("import os\nF = int(os.environ.get('SCALE_OF_A_TEST', '2'))\n")
    (tmp_path / "passes_on.py").write_text("import os, subprocess\nsubprocess.run(['true'], env=dict(os.environ))\n")
    before = _parts(tmp_path)
    monkeypatch.setenv("SOMETHING_ELSE", "3")
    assert _parts(tmp_path) == before
    monkeypatch.setenv("SCALE_OF_A_TEST", "3")
    assert _parts(tmp_path) != before


def test_python_files_of_the_tree_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_sources, "loaded_files", set)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "helper.py").write_text("")
    (tmp_path / "table").write_text("")
    assert sources_of_process(tmp_path).files == {str((tmp_path / "src" / "helper.py").resolve())}


@pytest.mark.parametrize(
    ("text", "names", "whole"),
    [
        ("x = 1\n", (), False),
        ("import os\na = os.environ['A']\nb = os.environ.get('B', '2')\nc = os.getenv('C')\n", ("A", "B", "C"), False),
        ("from os import environ, getenv\na = environ['A'] + getenv(\"B\", '')\n", ("A", "B"), False),
        ("import os\nd = 'D' in os.environ\n", ("D",), False),
        ("import os\na = os.environ[NAME]\n", (), True),
        ("import os\na = os.environ[f'A{1}']\n", (), True),
        ("import os\na = os.getenv('A' + B)\n", (), True),
        ("import os\nget = os.getenv\n", (), True),
        ("import os\nall = {**os.environ}\n", (), True),
        ("import os\nprint(os.path.expandvars('$HOME'))\n", (), True),
    ],
)
def test_which_variables_code_reads(text: str, names: tuple[str, ...], whole: bool, tmp_path: Path) -> None:
    """What cannot be told by the names that are written there is all of them."""
    (tmp_path / "code.py").write_text(text)
    assert variables_in(str(tmp_path / "code.py")) == (names, whole)


def test_what_lies_in_the_package_of_a_loaded_module_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of the tree; code may import it when it is traced."""
    package = tmp_path / "lib" / "package_of_test"
    package.mkdir(parents=True)
    for name in ("__init__.py", "loaded.py"):
        (package / name).write_text("")
    monkeypatch.setattr(process_sources, "loaded_files", lambda: {str(package / "loaded.py")})
    before = _parts(tmp_path / "tree")
    (tmp_path / "lib" / "other.py").write_text("")
    assert _parts(tmp_path / "tree") == before
    (package / "late.py").write_text("")
    assert _parts(tmp_path / "tree") != before


def test_what_python_and_samebits_write_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in a folder that is on Python's path, beside the tree, has its own journal the second time."""
    monkeypatch.setattr(process_sources, "loaded_files", set)
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    before = _parts(tmp_path / "tree")
    for name in ("cache", "__pycache__"):
        (tmp_path / name).mkdir()
        assert _parts(tmp_path / "tree") == before
    (tmp_path / "other").mkdir()
    assert _parts(tmp_path / "tree") != before


def test_python_and_distributions_are_installed() -> None:
    for module in (os, jax, np, samebits, pytest):
        assert is_installed(str(module.__file__)), module


def test_a_users_file_is_not(tmp_path: Path) -> None:
    assert not is_installed(str(tmp_path / "model.py"))
    assert is_installed(str(tmp_path / "venv/lib/python3.12/site-packages/flax/core.py"))


def test_a_distribution_is_seen_by_version_and_by_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    record = folder / "rope-1.0.dist-info" / "RECORD"
    record.parent.mkdir(parents=True)
    record.write_text("rope/__init__.py,sha256=a,10\n")
    bare = distributions_digest()
    monkeypatch.syspath_prepend(folder)
    digests = [bare, distributions_digest()]
    record.write_text("rope/__init__.py,sha256=b,10\n")
    digests.append(distributions_digest())
    record.parent.rename(folder / "rope-1.1.dist-info")
    digests.append(distributions_digest())
    (folder / "rope-1.1.dist-info" / "direct_url.json").write_text("{}")
    digests.append(distributions_digest())
    (folder / "path.pth").write_text("/somewhere\n")
    digests.append(distributions_digest())
    assert len(set(digests)) == 6
    assert distributions_digest() == digests[-1]


def test_an_edit_of_samebits_itself(tmp_path: Path) -> None:
    copy = tmp_path / "samebits"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "builtin"))
    own = own_digest()
    assert own_digest(copy) == own
    path = copy / "numerics" / "bits.py"
    path.write_text(path.read_text() + "\n")
    edited = own_digest(copy)
    assert edited != own
    path.rename(copy / "numerics" / "bits_renamed.py")
    assert own_digest(copy) not in (edited, own)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two sources, and files that are none."""
    for name in ("suites/test_rope.py", "rope.py", ".git/hook.py", "env/lib/module.py", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"name = {name!r}\n")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    return tmp_path


def of(tree: Path) -> MachineFingerprint:
    return fingerprint([str(tree)])


def test_sources_and_versions_are_in_it(tree: Path) -> None:
    seen = of(tree)
    assert {path for path in seen.files if path.startswith(str(tree))} == {
        str(tree / "rope.py"),
        str(tree / "suites" / "test_rope.py"),
    }
    assert "samebits/errors.py" in seen.files
    assert seen.versions["jax"]
    assert seen.difference(of(tree)) is None
    assert seen.digest() == of(tree).digest()


def test_the_first_difference_is_told(tree: Path) -> None:
    before = of(tree)
    (tree / "rope.py").write_text("changed = True\n")
    assert before.difference(of(tree)) == f"{tree}/rope.py has another content there"
    assert before.digest() != of(tree).digest()
    (tree / "rope.py").unlink()
    assert before.difference(of(tree)) == f"{tree}/rope.py does not exist there"
    assert of(tree).difference(before) == f"{tree}/rope.py exists there only"


def test_other_versions_come_first(tree: Path) -> None:
    before = of(tree)
    other = replace(before, versions={**before.versions, "jax": "0.1.0", "libtpu": None}, files={})
    assert before.difference(other) == f"it has jax 0.1.0, and this machine {before.versions['jax']}"


def test_a_folder_that_is_not_there_is_told(tree: Path) -> None:
    there = replace(fingerprint([str(tree / "elsewhere")]), files=of(tree).files)
    assert of(tree).difference(there) == f"the folder {tree}/elsewhere does not exist there"


def test_every_package_that_bits_depend_on_is_in_it() -> None:
    assert {"Python", "samebits", *PACKAGES} == set(fingerprint([]).versions)
    assert {"flax", "optax"} <= set(PACKAGES)
