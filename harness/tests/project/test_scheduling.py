"""Which tests run in one process, in which order, and in which part of `--shard K/N`."""

from __future__ import annotations

from pathlib import Path

import pytest

from samebits.engine.shard import Shard
from tests.support.child import ROOT, run_python
from tests.support.scheduling import SECONDS, file_group, part, sample

GROUPS = ("prove/test_mathematical_faults", "a", "b", "a", "testing/test_replays", "c", "d", "e")
TESTS = {"test_one.py": 2, "test_two.py": 3, "test_three.py": 1}


def test_every_group_is_in_one_part() -> None:
    for count in (1, 2, 3, 7):
        parts = [part(GROUPS, Shard(number, count)) for number in range(1, count + 1)]
        assert sorted(group for chosen in parts for group in chosen) == sorted(set(GROUPS))


def test_the_longest_groups_are_in_different_parts() -> None:
    parts = [part(GROUPS, Shard(number, 2)) for number in (1, 2)]
    assert [{"prove/test_mathematical_faults", "testing/test_replays"} <= chosen for chosen in parts] == [False] * 2


def test_what_takes_long_is_a_file_of_tests() -> None:
    """Else it would start with the others, when it was renamed."""
    files = [*ROOT.glob("harness/tests/**/test_*.py"), *ROOT.glob("suites/**/test_*.py")]
    assert set(SECONDS) <= {file_group(path) for path in files}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.scheduling"]\n')
    for name, count in TESTS.items():
        (tmp_path / name).write_text("".join(f"def test_{number}(): pass\n" for number in range(count)))
    return tmp_path


def test_the_parts_together_are_all_tests(tree: Path) -> None:
    """Each file is in one part, as a whole."""
    seen: dict[str, int] = {}
    for number in (1, 2):
        words = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--shard", f"{number}/2")
        files = [line.partition("::")[0] for line in run_python(*words, cwd=tree).stdout.splitlines() if "::" in line]
        assert files and not seen.keys() & set(files)
        seen |= {file: files.count(file) for file in files}
    assert seen == TESTS


def test_a_malformed_part_is_rejected(tree: Path) -> None:
    ended = run_python("-m", "pytest", "--shard", "5/4", cwd=tree)
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
    ended = run_python(
        "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *words, "test_sampled.py", cwd=tree
    )
    assert {line.partition("::")[2] for line in ended.stdout.splitlines() if "::" in line} == names


@pytest.mark.parametrize(("cases", "quick", "chosen"), [(5, 2, {0, 2}), (7, 3, {0, 2, 4}), (2, 3, {0, 1}), (9, 1, {0})])
def test_the_sample_is_spread_and_has_the_first(cases: int, quick: int, chosen: set[int]) -> None:
    assert sample(cases, quick) == chosen
