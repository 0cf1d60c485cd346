"""A project whose own folders are called harness, suites, reference_impls, optimized_impls and tests uses samebits.

The project is run in processes of their own, with samebits as a user has it: from a wheel, or installed editable.
"""

import functools
import gzip
import importlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.project.import_graph import ROOT
from tests.support.findings import flat_rows
from tests.support.foreign import write_pair

FILES = {
    # Modules with the names of ours, and folders without `__init__.py`, which a package of that name would hide. The
    # pair `attention` is theirs, too.
    "harness/samebits.py": "NAME = 'their harness'\n",
    "harness/layering.py": "from harness.samebits import NAME\n",
    "suites/attention_sizes.py": "NAME = 'their suites'\n",
    "tests/__init__.py": "",
    "tests/support.py": "NAME = 'their tests'\n",
    "tests/test_theirs.py": """
from pathlib import Path

import samebits
from harness import layering
from optimized_impls.attention import fast
from reference_impls.attention import plain
from suites import attention_sizes
from tests import support


def test_every_name_is_ours():
    found = [module.NAME for module in (layering, attention_sizes, support)]
    assert found == ["their harness", "their suites", "their tests"]
    assert fast(2) == plain(2) == 4


def test_samebits_is_the_installed_one():
    root = Path(__file__).resolve().parents[1]
    assert not Path(samebits.__file__).resolve().is_relative_to(root) and samebits.Pair
""",
}
SCRIPT = ("-P",)
"""What makes `python -m pytest` the same as the script `pytest`: the current folder is not on the path."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own_folders")
    write_pair(root, "attention")
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has what a wheel puts into site-packages, entry points included."""
    folder = tmp_path_factory.mktemp("wheel")
    builder = importlib.import_module("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    (built,) = builder.build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(built) as packed:
        packed.extractall(folder / "site-packages")
    return folder / "site-packages"


def run(tree: Path, *words: str, path: Path | str) -> subprocess.CompletedProcess[str]:
    """A command of the project, with nothing of this repository but `path`."""
    of_this_process = ("JAX_", "XLA_", "PYTEST_", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith(of_this_process)}
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env={**env, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("as_script", [True, False], ids=["samebits", "python -m samebits"])
def test_their_pair_is_checked(as_script: bool, tree: Path, wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    ended = run(tree, *(SCRIPT * as_script), "-m", "samebits", "check", "--json", str(file), path=wheel)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {result["pair"] for result in flat_rows(json.loads(file.read_text()))} == {"attention"}


@pytest.mark.slow
@pytest.mark.parametrize("words", [(*SCRIPT, "-m", "pytest"), ("-m", "pytest"), ("-m", "pytest", "-n", "2")])
def test_their_tests_pass(words: tuple[str, ...], tree: Path, wheel: Path) -> None:
    ended = run(tree, *words, "-q", "-p", "no:cacheprovider", path=wheel)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " passed" in ended.stdout and "skipped" not in ended.stdout


@pytest.mark.slow
def test_their_tests_pass_beside_an_editable_install(tree: Path) -> None:
    ended = run(tree, *SCRIPT, "-m", "pytest", "-q", "-p", "no:cacheprovider", path=ROOT / "harness")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_this_repository_on_the_path_would_be_found(tree: Path) -> None:
    """Its folders are packages and hide theirs: so an editable install puts `harness` on the path, and not the root."""
    path = os.pathsep.join((str(ROOT / "harness"), str(ROOT)))
    ended = run(tree, *SCRIPT, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", path=path)
    assert ended.returncode != 0 and "ImportError" in ended.stdout


def test_the_wheel_has_the_templates_of_reports(wheel: Path, tmp_path: Path) -> None:
    file = ROOT / "harness" / "tests" / "report" / "older" / "check_of_the_first_pairs.json"
    ended = run(tmp_path, "-m", "samebits", "report", str(file), "--html", "page.html", path=wheel)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_the_source_distribution_has_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = importlib.import_module("hatchling.builders.sdist").SdistBuilder(str(ROOT))
    with monkeypatch.context() as patch:  # to compress it takes longer than all else
        patch.setattr(gzip, "GzipFile", functools.partial(gzip.GzipFile, compresslevel=0))
        (built,) = builder.build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    html = ROOT / "harness" / "samebits" / "report" / "html"
    files = [path for folder in ("templates", "static") for path in (html / folder).iterdir()]
    assert len(files) > 20
    assert {str(path.relative_to(ROOT)) for path in files} <= names
