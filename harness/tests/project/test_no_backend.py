"""Importing, listing and collecting start no jax backend; the probe is shown to detect one."""

from pathlib import Path

import pytest

from tests.support import forked
from tests.support.child import ROOT, value_of

_PROBE = """
import sys
bridge = sys.modules.get("jax._src.xla_bridge")
print("backend" if bridge and bridge._backends else "jax" if "jax" in sys.modules else "nothing")
"""

COMMAND = """
from samebits.cli import main
main({args}, standalone_mode=False)
"""

COLLECT = """
import pytest
assert pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *{args}]) == 0
"""


def started_by(code: str, cwd: Path = ROOT) -> str:
    """How much of jax a piece of code starts: `nothing`, `jax` (imported) or `backend`."""
    return value_of(_probed(code), cwd)


def started_beside_jax(code: str) -> str:
    """The same where jax is imported already: `jax` or `backend`."""
    return forked.value_of(_probed(code))


def _probed(code: str) -> str:
    indented = "\n".join(f"    {line}" for line in code.strip().splitlines())
    return f"try:\n{indented}\nexcept SystemExit as end:\n    assert not end.code\n{_PROBE}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("import json", "nothing"),
        ("import jax", "jax"),
        ("import jax.numpy as jnp\njnp.zeros(1)", "backend"),
        ("import jax\njax.devices()\nraise SystemExit(0)", "backend"),
    ],
)
def test_the_probe_sees_what_starts(code: str, seen: str) -> None:
    assert started_by(code) == seen


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "code",
    [
        "import samebits",
        "from samebits import Pair, pair_test",
        "import samebits\nassert [getattr(samebits, name) for name in samebits.__all__]",
        "import samebits.testing.plugin, samebits.cli",
        COMMAND.format(args=["--help"]),
        COMMAND.format(args=["check", "--help"]),
    ],
    ids=["samebits", "pair", "every public name", "entry points", "help", "help of check"],
)
def test_starts_nothing(code: str) -> None:
    assert started_by(code) == "nothing"


def test_listing_starts_no_backend() -> None:
    assert started_beside_jax(COMMAND.format(args=["list", "--root", str(ROOT)])) == "jax"


def test_collecting_these_tests_has_started_no_backend(pytestconfig: pytest.Config) -> None:
    """All that this process has collected; the root's `conftest.py` notes it before the first test runs."""
    conftest = pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))
    assert conftest is not None
    assert pytestconfig.stash[vars(conftest)["EAGER"]] is False


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["suites", "harness/tests"])
def test_collecting_starts_no_backend(folder: str) -> None:
    assert started_by(COLLECT.format(args=[folder])) != "backend"


def test_a_suite_that_starts_a_backend_is_seen(tmp_path: Path) -> None:
    """The same collection, of a file that does at its top level what only a test may do."""
    (tmp_path / "test_eager.py").write_text("import jax\nN = len(jax.devices())\ndef test_it(): pass\n")
    assert started_beside_jax(COLLECT.format(args=["--rootdir", str(tmp_path), str(tmp_path)])) == "backend"


COMPARED = "import jax, samebits\nsamebits.assert_same(lambda x: x + x, lambda x: 2 * x, jax.numpy.arange(4.0))"


@pytest.mark.parametrize(
    ("code", "loaded"), [(COMPARED, "[]"), ("import samebits.train.record", "['samebits.train.record']")]
)
def test_two_functions_are_compared_without_trainings(code: str, loaded: str) -> None:
    """A call of `assert_same` loads no module of `train`; one that did would be seen."""
    listed = "print([name for name in sys.modules if name.startswith('samebits.train.')])"
    assert forked.value_of(f"import sys\n{code}\n{listed}") == loaded
