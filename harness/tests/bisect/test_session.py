"""The journal of a search answers for what it judged, and for nothing that has changed since.

The tree's sides read a data file, a module outside of the tree and an environment variable.
"""

from pathlib import Path

import pytest

from samebits.bisect.search.trials import Judgement, SearchJournal, failed, passed, untestable
from samebits.bisect.session import Session, again
from samebits.errors import RequestError
from samebits.host.file_reads import FILE, OUTSIDE
from tests.bisect import layered_model, planted_tree
from tests.support.forked import run_module
from tests.support.invoke import REPOSITORY

FACTOR = 'float(open("{data}").read()) * FACTOR * float(os.environ.get("FACTOR_OF_A_TEST", "1"))'
IMPORTS = "import os\n\nimport jax\n\nfrom outside_factor import FACTOR\n"

SEARCHES = {
    "mesh": ("mesh", "doubling", "--variant", "honest", "--case", "small", "--mesh", "expert2"),
    "flags": ("flags", "doubling", "--variant", "honest", "--case", "small", "--mesh", "expert2"),
    "pairs": ("pairs", "--config", "one_wrong", "--steps", "2"),
    "steps": ("steps", "--config", "one_wrong", "--steps", "2"),
}


def _tree(root: Path, what: str, data: Path) -> Path:
    """A tree whose variant is right if the product of what it reads is 1."""
    factor = FACTOR.format(data=data)
    if what in ("mesh", "flags"):
        planted_tree.write_tree(root)
        path, before, after = "doubling", "return _split(x, wrong=False)", f"return _split(x, wrong=False) * {factor}"
    else:
        layered_model.write_tree(root)
        path, before, after = "scale", "* (1 + 2**-9)", f"* {factor}"
    file = root / "optimized_impls" / f"{path}.py"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after).replace("import jax\n", IMPORTS, 1))
    return root


@pytest.mark.cpu_only
@pytest.mark.slow
@pytest.mark.parametrize("what", SEARCHES)
def test_a_search_sees_what_has_changed_since(what: str, tmp_path: Path) -> None:
    data, outside = tmp_path / "data.txt", tmp_path / "elsewhere"
    outside.mkdir()
    tree = _tree(tmp_path / "tree", what, data)

    def passes(factor: str = "1", constant: str = "1", **variables: str) -> tuple[bool, bool]:
        """Whether nothing fails, and whether all is from the journal."""
        data.write_text(factor)
        (outside / "outside_factor.py").write_text(f"FACTOR = {constant}\n")
        ended = run_module(
            "samebits", "bisect", *SEARCHES[what], "--root", str(tree), cwd=tmp_path, seconds=120,
            variables={
                "PYTHONPATH": f"{REPOSITORY / 'harness'}:{REPOSITORY}:{outside}",
                "SAMEBITS_CACHE_DIR": str(tmp_path / "cache"), **variables,
            },
        )  # fmt: skip
        assert ("there is nothing to search for" in ended.stdout) == (ended.returncode == 0), (
            ended.stdout + ended.stderr
        )
        return ended.returncode == 0, "(journal)" in ended.stdout

    assert passes() == (True, False)
    assert passes() == (True, True)
    assert passes(factor="1.01") == (False, False)
    assert passes(constant="1.01") == (False, False)
    assert passes(FACTOR_OF_A_TEST="1.01") == (False, False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["XLA_FLAGS", "JAX_DEFAULT_MATMUL_PRECISION"])
def test_settings_are_those_of_another_search(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def judge(point: int) -> Judgement:
        judged.append(point)
        return passed()

    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(name, "")
    for _ in range(2):
        assert Session().trials("mesh", judge, searched={}, root=tree)(1) == "pass"
    assert judged == [1]
    monkeypatch.setenv(name, "--of-another-search")
    Session().trials("mesh", judge, searched={}, root=tree)(1)
    assert judged == [1, 1]


def test_a_judgement_rests_on_what_was_read_until_then(tmp_path: Path) -> None:
    table, path = tmp_path / "table", tmp_path / "journal"
    table.write_text("1")
    reads: list[str] = []
    journal = SearchJournal(path, "search", lambda: reads)
    journal.add("before", passed())
    reads.append(f"{FILE}{table}")
    journal.add("after", failed("step 1"))
    assert [*SearchJournal(path, "search").looks] == ["before", "after"]
    table.write_text("2")
    again = SearchJournal(path, "search", lambda: reads)
    assert [*again.looks] == ["before"]
    again.add("after", passed())
    assert SearchJournal(path, "search").looks["after"] == [passed()]


def test_a_judgement_resting_on_another_program_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = SearchJournal(path, "search", lambda: [f"{OUTSIDE}starts another program"])
    journal.add("point", passed())
    assert journal.looks["point"] == [passed()] and not path.exists()


def test_what_was_read_before_the_search_does_not_count(tmp_path: Path) -> None:
    session = Session(journal=tmp_path / "journal", before=frozenset({f"{OUTSIDE}starts another program"}))
    assert session.before.isdisjoint(session._reads())


def test_a_fresh_search_without_a_place_for_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in place of the cache folder is no journal; one that cannot be removed would count, and is one line."""
    (tmp_path / "cache").touch()
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    trials = Session(fresh=True).trials("mesh", _passes, searched={})
    assert trials("point") == "pass"
    with pytest.raises(RequestError, match=r"^--fresh: journal \S+ cannot be removed: .*; give --journal FILE$"):
        Session(fresh=True, journal=tmp_path).trials("mesh", _passes, searched={})


def _passes(_point: str) -> Judgement:
    return passed("")


def test_a_replay_has_only_what_was_said(tmp_path: Path) -> None:
    """None, False and the current folder are left out; several values repeat their option; the check comes last."""
    words = again(
        "mesh", "norm", check=("check", "a b"), mesh="data2", leaf=None, size=["rows=4", "columns=2"], timeout=2.5,
        shard_mode="auto", whole=False, root=Path.cwd(), only=True,
    )  # fmt: skip
    expected = "--mesh data2 --size rows=4 --size columns=2 --timeout 2.5 --shard-mode auto --only -- check 'a b'"
    assert words == f"samebits bisect mesh norm {expected}"
    assert again("flags", root=tmp_path) == f"samebits bisect flags --root {tmp_path}"


def test_a_finding_has_the_points_of_its_search(tmp_path: Path) -> None:
    def judge(point: str) -> Judgement:
        return failed("loss") if point == "bad" else untestable("does not build") if point == "broken" else passed()

    trials = Session(journal=tmp_path / "journal").trials("steps", judge, searched={})
    trials.ends("good", "bad")
    trials("broken")
    finding = trials.finding(found=True, sentence="", skipped=trials.unjudged(), runs=7)
    assert (finding.what, finding.runs, finding.repeats, len(finding.trials)) == ("steps", 7, 2, 3)
    assert finding.skipped == ("broken: does not build",)
