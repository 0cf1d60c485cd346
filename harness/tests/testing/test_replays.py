"""The replay lines under pytest show the same result again, typed in the folder in which pytest was started."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from samebits.programs.replay import without_group
from tests.support.foreign import AXES, write_pair
from tests.support.forked import run_module
from tests.testing.test_plugin import run_pytest

PAIR = """
{name} = Pair(
    name="{pair}",
    reference={reference},
    variants={{"fast": {variant}}},
    args={{"x": Arg(shape=("rows", 5), spec=("data",))}},
    {axes}
    gradients=False,
)
"""
FUNCTIONS = """
def plain(x):
    return x + x


def wrong(x):
    return (2 * x).at[1, {column}].multiply(1.5)
"""
IMPORTS = "from samebits import Arg, Case, Pair, pair_test\n"


def _pair(name: str, pair: str, reference: str = "plain", variant: str = "wrong") -> str:
    return PAIR.format(name=name, pair=pair, reference=reference, variant=variant, axes=AXES)


def _write(root: Path) -> None:
    """Declarations wherever people put them; each is wrong in a column of its own."""
    write_pair(
        root, "rope", optimized="def fast(x):\n    return (2 * x).at[1, 0].multiply(1.5)\n", extra="gradients=False,"
    )
    two = _pair("FIRST", "first") + _pair("SECOND", "second", variant="other")
    other = FUNCTIONS.format(column=2).replace("wrong", "other").partition("\n\n\n")[2]
    tests = "test_first = pair_test(FIRST)\ntest_second = pair_test(SECOND)\n"
    files = {
        "checks.py": IMPORTS + FUNCTIONS.format(column=3) + _pair("SAME", "imported"),
        "test_top.py": IMPORTS + FUNCTIONS.format(column=1) + other + two + tests,
        "unit/deep/test_imported.py": IMPORTS + "from checks import SAME\ntest_it = pair_test(SAME)\n",
        "packaged/__init__.py": "",
        "packaged/functions.py": FUNCTIONS.format(column=4),
        "packaged/test_relative.py": IMPORTS
        + "from .functions import plain, wrong\n"
        + _pair("RELATIVE", "relative")
        + "test_it = pair_test(RELATIVE)\n",
        "test_unnamed.py": IMPORTS
        + FUNCTIONS.format(column=0)
        + _pair("NAMED", "unnamed")
        + "test_it = pair_test(NAMED)\ndel NAMED\n",
        "configured/conftest.py": "import sys\nsys.modules['only_under_pytest'] = sys\n",
        "configured/test_conftest.py": "import only_under_pytest\n"
        + IMPORTS
        + FUNCTIONS.format(column=2)
        + _pair("PAIR", "configured")
        + "test_it = pair_test(PAIR)\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def _replay(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)
    if words[0] == "samebits":
        return run_module("samebits", *words[1:], cwd=cwd, variables={})
    assert words[:3] == ["python", "-m", "pytest"]
    return run_pytest(cwd, *words[3:])


def _failures(text: str) -> dict[str, str]:
    """The replay of each witness."""
    return dict(re.findall(r"^  witness   (.+)$[\s\S]*?^  replay    (.+)$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("anybodys")
    _write(root)
    return root


@pytest.mark.slow
def test_every_replay_line_shows_its_result_again(root: Path) -> None:
    done = run_pytest(root, "-k", "fast")
    failures = re.findall(r"^_+ (test_\w+)\[.*?^  witness   (.+?)$.*?^  replay    (.+?)$", done.stdout, re.M | re.S)
    assert len(failures) == 7, done.stdout
    started = {" ".join(shlex.split(line)[:4]).partition(" --")[0] for _, _, line in failures}
    assert started == {
        "samebits check rope",
        "samebits check test_top.py:FIRST",
        "samebits check test_top.py:SECOND",
        "samebits check unit/deep/test_imported.py:SAME",
        "samebits check packaged/test_relative.py:RELATIVE",
        "python -m pytest test_unnamed.py::test_it[fast-small-float32-data2-auto-forward]",
        "python -m pytest configured/test_conftest.py::test_it[fast-small-float32-data2-auto-forward]",
    }
    for name, witness, line in failures:
        again = _replay(line, root)
        assert again.returncode == 1, (name, line, again.stdout, again.stderr)
        assert list(_failures(again.stdout)) == [witness], (name, line, again.stdout)
        assert list(_failures(again.stdout).values()) == [line], again.stdout


@pytest.mark.slow
def test_a_replay_from_the_folder_in_which_pytest_was_started(root: Path) -> None:
    """Not from that of pytest's configuration file, which may lie above."""
    (root / "pytest.ini").write_text("[pytest]\n")
    try:
        suites = run_pytest(root / "suites", "-k", "fast")
        packaged = run_pytest(root / "packaged", "-k", "fast")
    finally:
        (root / "pytest.ini").unlink()
    for done, folder, start in (
        (
            suites,
            root / "suites",
            f"samebits check rope --variant fast --case small --dtype float32 --mesh data2 --mode "
            f"auto --direction forward --root {root}",
        ),
        (packaged, root / "packaged", "samebits check test_relative.py:RELATIVE --variant fast "),
    ):
        ((witness, line),) = _failures(done.stdout).items()
        assert line.startswith(start), line
        assert list(_failures(_replay(line, folder).stdout)) == [witness]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("test_a.py::test_f", "test_a.py::test_f"),
        ("test_a.py::test_f@some/group", "test_a.py::test_f"),
        ("test_a.py::TestA::test_f[x-1]@group", "test_a.py::TestA::test_f[x-1]"),
        ("test_a.py::test_f[x@y]", "test_a.py::test_f[x@y]"),
        ("test_a.py::test_f[x@y]@group", "test_a.py::test_f[x@y]"),
        ("me@home/test_a.py::test_f@group", "me@home/test_a.py::test_f"),
    ],
)
def test_no_replay_has_the_group_of_a_test(test: str, expected: str) -> None:
    """By `NAME@GROUP` pytest finds no test."""
    assert without_group(test) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test_nowhere.py:PAIR", "there is no file 'test_nowhere.py' in '{root}'"),
        ("test_top.py", "is a file; add the name of the declaration: test_top.py:PAIR"),
        (
            "test_top.py:THIRD",
            "test_top.py has nothing under the name 'THIRD'; expected THIRD = Pair(...); its pairs are FIRST, SECOND",
        ),
    ],
)
def test_a_file_without_that_declaration(root: Path, name: str, message: str) -> None:
    done = run_module("samebits", "check", name, cwd=root, variables={})
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"samebits: pair '{name}'") and line.endswith(message.format(root=root))
