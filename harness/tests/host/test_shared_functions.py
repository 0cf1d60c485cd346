"""Functions and methods of loaded modules are put back where an import replaced them."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.scipy.stats
import pytest

from samebits.host.isolation import take_notes, undone
from samebits.host.loading import load_file

HELPERS = """
class Norm:
    def __call__(self, x):
        return x

def scale(x):
    return x * 2
"""
PATCHING = """
import jax.scipy.stats
import shared_helpers

def fast(x, *_):
    return x * 3

jax.scipy.stats.norm.logpdf = fast
shared_helpers.scale = fast
shared_helpers.Norm.__call__ = fast
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "shared_helpers.py").write_text(HELPERS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("shared_helpers", None)


def test_an_import_that_replaces_functions_is_undone_and_noted(folder: Path) -> None:
    helpers = importlib.import_module("shared_helpers")
    before = helpers.scale, helpers.Norm.__call__, jax.scipy.stats.norm.logpdf
    (folder / "patching.py").write_text(PATCHING, encoding="utf-8")
    take_notes()
    load_file(folder / "patching.py")
    assert (helpers.scale, helpers.Norm.__call__, jax.scipy.stats.norm.logpdf) == before
    (text,) = take_notes()
    assert "what shared_helpers.scale stands for" in text
    assert "what shared_helpers.Norm.__call__ stands for" in text
    assert "what jax.scipy.stats.norm.logpdf stands for" in text
    assert text.endswith("It was undone: no other code ran with it")


def test_a_submodule_may_take_the_name_of_a_function(folder: Path) -> None:
    package = folder / "shared_package"
    package.mkdir()
    (package / "__init__.py").write_text("def train():\n    pass\n", encoding="utf-8")
    (package / "train.py").write_text("", encoding="utf-8")
    parent = importlib.import_module("shared_package")
    with undone("importing it", importing=True) as changed:
        module = importlib.import_module("shared_package.train")
    assert changed == []
    assert parent.train is module
