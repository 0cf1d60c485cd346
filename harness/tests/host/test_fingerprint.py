from dataclasses import replace
from pathlib import Path

import pytest

from samebits.host.environment import PACKAGES
from samebits.host.fingerprint import MachineFingerprint, fingerprint


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
