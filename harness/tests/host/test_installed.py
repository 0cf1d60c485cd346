"""What is installed, by versions and records; what is the user's, by content."""

import os
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import samebits
from samebits.host.installed import PACKAGE, distributions_digest, is_installed, own_digest


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
