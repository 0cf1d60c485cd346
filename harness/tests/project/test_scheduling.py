"""Which tests run in one process, in which order, and in which part of `--shard K/N`."""

import re
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from samebits.engine.work import Shard
from tests.support.child import ROOT, run_python
from tests.support.scheduling import SECONDS, SLOW_SECONDS, file_group, part, sample

GROUPS = {"a": 0.0, "corpus": 40.0, "b": 0.0, "faults": 30.0, "c": 0.0, "steps": 10.0, "d": 0.0, "e": 0.0}
TESTS = {"test_one.py": 2, "test_two.py": 3, "test_three.py": 1}


def parts(count: int) -> list[set[str]]:
    return [part(GROUPS, Shard(number, count)) for number in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_group_is_in_one_part(count: int) -> None:
    assert sorted(group for chosen in parts(count) for group in chosen) == sorted(GROUPS)


def test_parts_take_about_equally_long() -> None:
    seconds = [sum(GROUPS[group] for group in chosen) for chosen in parts(2)]
    assert seconds == [40, 40]
    assert [len(chosen) for chosen in parts(8)] == [1] * 8


def test_what_takes_long_is_a_file_of_tests() -> None:
    """Else it would start with the others, when it was renamed."""
    files = [*ROOT.glob("harness/tests/**/test_*.py"), *ROOT.glob("suites/**/test_*.py")]
    assert {*SECONDS, *SLOW_SECONDS} <= {file_group(path) for path in files}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.scheduling"]\n')
    for name, count in TESTS.items():
        (tmp_path / name).write_text("".join(f"def test_{number}(): pass\n" for number in range(count)))
    return tmp_path


def run_pytest(tree: Path, *words: str) -> CompletedProcess[str]:
    """Pytest without the plugins that are installed beside it: they are half of what it takes to start."""
    return run_python("-m", "pytest", "-p", "no:cacheprovider", *words, cwd=tree, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def test_the_tests_of_a_file_are_run_by_one_worker(tree: Path) -> None:
    """With pytest 9.2.0 and pytest-xdist 3.8.0 they are not, and every worker makes each fixture and program again."""
    ended = run_pytest(tree, "-p", "xdist", "-v", "-n", "2", "--dist", "loadgroup")
    passed = re.findall(r"^\[(gw\d)\].* PASSED (\S+?\.py)::", ended.stdout, re.MULTILINE)
    assert Counter(file for _, file in passed) == TESTS
    assert Counter(file for _, file in set(passed)) == dict.fromkeys(TESTS, 1)


def test_the_parts_together_are_all_tests(tree: Path) -> None:
    """Each file is in one part, as a whole."""
    seen: dict[str, int] = {}
    for number in (1, 2):
        ended = run_pytest(tree, "--collect-only", "-q", "--shard", f"{number}/2")
        files = [line.partition("::")[0] for line in ended.stdout.splitlines() if "::" in line]
        assert files and not seen.keys() & set(files)
        seen |= {file: files.count(file) for file in files}
    assert seen == TESTS


def test_a_malformed_part_is_rejected(tree: Path) -> None:
    ended = run_pytest(tree, "--shard", "5/4")
    assert ended.returncode == 4
    assert "--shard 5/4: expected K/N with K from 1 to N, such as 3/8" in ended.stderr


SAMPLED = """
import pytest

@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ["first", "second", pytest.param("third", marks=pytest.mark.slow), "fourth", "fifth"])
def test_it(case): pass

def test_other(): pass
"""


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("-m", "not slow"), {"test_it[first]", "test_it[fourth]", "test_other"}),
        (("-m", "slow"), {"test_it[second]", "test_it[third]", "test_it[fifth]"}),
        (("-m", "slow", "-k", "second or fifth"), {"test_it[second]", "test_it[fifth]"}),
    ],
)
def test_cases_that_are_not_sampled_are_slow(words: tuple[str, ...], names: set[str], tree: Path) -> None:
    """Each case is in one of the two sets, and in the same one whatever else is selected."""
    (tree / "test_sampled.py").write_text(SAMPLED)
    ended = run_pytest(tree, "--collect-only", "-q", *words, "test_sampled.py")
    assert {line.partition("::")[2] for line in ended.stdout.splitlines() if "::" in line} == names


@pytest.mark.parametrize(("cases", "quick", "chosen"), [(5, 2, {0, 2}), (7, 3, {0, 2, 4}), (2, 3, {0, 1}), (9, 1, {0})])
def test_the_sample_is_spread_and_has_the_first(cases: int, quick: int, chosen: set[int]) -> None:
    assert sample(cases, quick) == chosen
