"""Bisection over commits: real git histories with simulated checks, and some with real checks."""

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.bisect.commits.run import CommitsRequest, bisect_commits, changing
from samebits.bisect.search.trials import Judgement, NothingFails, SearchFinding, Trials, failed, passed, untestable
from samebits.bisect.session import Session
from samebits.errors import RequestError
from samebits.host.git import Commit
from samebits.host.subprocesses import ProcessResult
from samebits.report.bisect import BisectDocument
from tests.bisect.histories import BAD, CHECK, GOOD, PLACE, History, Pretended, document, first_of_line, forty
from tests.support.documents import ENVIRONMENT
from tests.support.pages import markdown

pytestmark = pytest.mark.usefixtures("own_cache")


def exit_code(found: SearchFinding) -> int:
    return BisectDocument(environment=ENVIRONMENT, finding=found).exit_code


def search(history: History, good: str, bad: str, run: Pretended | None = None, **more: Any) -> SearchFinding:
    run = run or Pretended()
    request = CommitsRequest(good=good, bad=bad, check=CHECK, root=history.tree, run=run, **more)
    return bisect_commits(request, Session())


def graph_of(*rows: list[str]) -> tuple[dict[str, tuple[str, ...]], str]:
    """Of rows of name, parents and content; the first is the good end, the last the bad one."""
    commits = [
        Commit(id=name, parents=tuple(parents.split(",")), author="", date="", subject="") for name, parents, _ in rows
    ]
    contents = {name: content for name, _, content in rows}
    return changing(commits[1:], contents, rows[0][0], rows[-1][0])


# --- invented histories ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "graph"),
    [
        ("a::1 b:a:1 c:b:2 d:c:2 e:d:3 f:e:3", ({"c": ("a",), "e": ("c",)}, "e")),
        ("a::1 b:a:2 c:b:3 d:c:2", ({"b": ("a",), "c": ("b",), "d": ("c",)}, "d")),
        ("a::1 b:a:2 c:b:1 d:c:2", ({"d": ("c",)}, "d")),
        ("a::1 b:a:2 c:a:3 m:c,b:2 d:m:4", ({"b": ("a",), "d": ("b",)}, "d")),
        ("a::1 b:a:2 c:a:3 m:b,c:23", ({"b": ("a",), "c": ("a",), "m": ("b", "c")}, "m")),
        ("a::1 b:a:1", ({}, "a")),
    ],
    ids=["no change", "content that comes back", "taken back", "a merge of one side", "a merge of two", "nothing"],
)
def test_commits_that_change_the_content_are_candidates(rows: str, graph: object) -> None:
    """Others are judged by their parents; a change that was taken back before is left out."""
    assert graph_of(*(row.split(":") for row in rows.split())) == graph


def test_a_merge_is_stood_for_by_a_side_that_is_looked_at() -> None:
    """Its other side, `z`, is older than the good end and has the same content."""
    made = [("b", ("a",)), ("m", ("z", "b"))]
    commits = [Commit(id=name, parents=parents, author="", date="", subject="") for name, parents in made]
    contents = {"a": "1", "z": "2", "b": "2", "m": "2"}
    assert changing(commits, contents, "a", "m") == ({"b": ("a",)}, "b")


def test_two_points_that_do_not_build_cost_few_runs() -> None:
    """Forty commits, every seventh the culprit, any two that do not build and do not hide it."""
    for culprit in range(1, 41, 7):
        others = [i for i in range(1, 40) if i not in (culprit, culprit - 1)]
        for broken in itertools.combinations(others, 2):

            def judge(number: int, culprit: int = culprit, broken: tuple[int, ...] = broken) -> Judgement:
                if number in broken:
                    return untestable("does not build")
                return failed("x") if number >= culprit else passed()

            trials = Trials(judge)
            trials.ends(0, 40)
            found = first_of_line(40, trials)
            if len(found.culprits) == 1:
                assert found.culprits == (culprit,)
                assert trials.runs <= math.ceil(math.log2(40)) + 3 + 2


# --- forty commits ---------------------------------------------------------------------------------------------------


def test_the_culprit_of_forty_commits_with_two_broken_builds(tmp_path: Path) -> None:
    history, hashes = forty(tmp_path / "tree")
    (history.root / "optimized_impls" / "rev.py").write_text("# not committed\n")
    (history.root / "suites" / "test_rev.py").write_text("# today's suite\n")
    (history.root / "new.txt").write_text("untracked\n")
    before, run = history.state(), Pretended()
    found = search(history, hashes[0], "trunk", run)
    assert history.state() == before, "the user's tree, index, branches and worktrees are as they were"
    culprit = hashes[27]
    assert (found.found, found.culprits) == (True, ((culprit,),))
    date = history.git("log", "-1", "--format=%as", culprit)
    assert found.sentence == (
        f"commit {culprit[:12]} 'change 27' by Ada, {date}, introduced it: "
        f"PASS before, FAIL ({PLACE}: different) from it on where judged: 1 of 12 commits after it was judged"
    )
    assert found.witness == "before: proved, 0 of 20 elements differ; at it: different, 7 of 20 elements differ"
    assert [text[:12] for text in found.skipped] == [hashes[20][:12], hashes[24][:12]]
    assert all("rev.py does not import" in text and "/tmp" not in text for text in found.skipped)
    assert found.runs <= math.ceil(math.log2(40)) + 3
    assert {candidate[:12] for candidate in found.candidates} == {commit[:12] for commit in hashes[1:]}
    narrowed = [trial.left for trial in found.trials if trial.left]
    assert narrowed[-1] == ((26, 26),) and found.candidates[26].endswith("change 27")
    assert len(run.trees) == found.runs + found.repeats
    assert {suite for _, suite in run.trees} == {"# today's suite\n"}, "today's suites, as they are in the tree"
    assert all(text.split("# ")[-1].strip().isdigit() or text == GOOD for text, _ in run.trees), "committed ones alone"
    diff = found.detail["diff"]
    assert "-    return jnp.flip(x, axis=0)" in diff and "+    return jnp.flip(x, axis=1)" in diff
    assert (found.detail["before"]["commit"], found.detail["after"]["commit"]) == (hashes[26], culprit)
    assert found.detail["before"]["judgement"].outcome == "pass"
    assert found.replay == (
        f"samebits bisect commits --good {hashes[26][:12]} --bad {culprit[:12]} --root {history.root} -- "
        "check rev --variant fast"
    )


def test_commits_that_were_not_judged_are_not_vouched_for(tmp_path: Path) -> None:
    """It fails, is mended, and fails in another way: the search does not need the commits in between."""
    history = History(tmp_path / "tree")
    for text in (BAD, BAD + "# 2\n", GOOD + "# mended\n", BAD + "# odd\n"):
        history.commit("change", text)

    def judge(text: str) -> int:
        return int("axis=1" in text)

    found = search(
        history, "trunk~4", "trunk", Pretended(judge=judge, mismatches=lambda text: 9 if "odd" in text else 7)
    )
    assert found.sentence.endswith(
        f"FAIL ({PLACE}: different) from it on where judged: 1 of 2 commits after it was judged; "
        "at --bad it fails otherwise, so a later commit may matter"
    )
    assert found.witness.endswith("7 of 20 elements differ; at --bad: different, 9 of 20 elements differ")


def test_where_all_later_commits_were_judged_nothing_is_added(tmp_path: Path) -> None:
    history = History(tmp_path / "tree")
    for text in (GOOD + "# 1\n", BAD, BAD + "# 3\n"):
        history.commit("change", text)
    assert search(history, "trunk~3", "trunk").sentence.endswith(": different) from it on")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, list[str]]:
    return forty(tmp_path_factory.mktemp("healthy") / "tree", culprit=41, broken=())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("culprit", [1, 2, 13, 29, 35, 36, 40])
def test_every_culprit_is_found(healthy: tuple[History, list[str]], culprit: int) -> None:
    history, hashes = healthy

    def judge(text: str) -> int:
        return int(int(text.rpartition("# ")[2]) >= culprit) if "# " in text else 0

    found = search(history, hashes[0], hashes[40], Pretended(judge=judge))
    assert found.culprits == ((hashes[culprit],),)
    assert found.runs <= math.ceil(math.log2(40)) + 3


def test_builds_that_break_just_before_the_culprit_hide_it(tmp_path: Path) -> None:
    history, hashes = forty(tmp_path / "tree", broken=(25, 26))
    found = search(history, hashes[0], hashes[40])
    assert found.culprits == ((hashes[25],), (hashes[26],), (hashes[27],))
    assert (found.found, exit_code(found)) == (False, 3)
    assert "one of 3 commits introduced it" in found.sentence and f"{hashes[25][:12]} change 25" in found.sentence


def test_a_tree_inside_a_repository_and_edits_during_the_search(tmp_path: Path) -> None:
    """Only its own folders count; the suites are those of the beginning; what git leaves out of archives is there."""
    history = History(tmp_path / "repository", inside="sub/tree", files={".gitattributes": "* export-ignore eol=lf\n"})
    suite = history.tree / "suites" / "test_rev.py"
    text = suite.read_text()
    history.commit("elsewhere", notes="1")
    history.commit("change 1", GOOD + "# 1\n")
    culprit = history.commit("change 2", BAD)
    history.commit("change 3", BAD + "# 3\n")

    def judge(optimized: str) -> int:
        suite.write_text("# edited\n")
        return int("axis=1" in optimized)

    run = Pretended(judge=judge)
    found = search(history, "trunk~4", "trunk", run)
    assert (found.culprits, found.runs, found.least) == (((culprit,),), 4, 4)
    assert {seen for _, seen in run.trees} == {text}
    assert "sub/tree/optimized_impls/rev.py" in found.detail["diff"]


def test_commits_that_leave_the_implementations_cost_nothing(tmp_path: Path) -> None:
    history = History(tmp_path / "tree")
    for number in range(8):
        history.commit(f"docs {number}", notes=str(number))
    culprit = history.commit("change", BAD)
    for number in range(8, 16):
        history.commit(f"docs {number}", notes=str(number))
    found = search(history, "trunk~17", "trunk")
    assert (found.culprits, found.runs, found.least) == (((culprit,),), 2, 2)
    assert found.notes[0] == "17 commits between, of which 1 change the implementations"


def test_content_that_was_judged_is_not_run_again(tmp_path: Path) -> None:
    """Changed, reverted, changed again: the last change is the culprit, for the first one was taken back."""
    history = History(tmp_path / "tree")
    for number in range(4):
        history.commit(f"change {number}", BAD if number % 2 == 0 else GOOD)
    culprit = history.commit("again", BAD)
    run = Pretended()
    found = search(history, "trunk~5", "trunk", run)
    assert (found.culprits, found.runs, len(run.trees)) == (((culprit,),), 2, 4)


def test_a_culprit_on_a_branch_that_left_before_the_good_end(tmp_path: Path) -> None:
    """Merges are followed to all sides; the merge itself only passes it on."""
    history = History(tmp_path / "tree")
    history.git("checkout", "-q", "-b", "side")
    side = history.commit("on the side", BAD)
    history.git("checkout", "-q", "trunk")
    good = history.commit("good", GOOD + "# more\n")
    merge = history.merge("side", "merge", BAD + "# more\n")
    found = search(history, good, merge)
    assert (found.found, found.culprits) == (True, ((side,),))
    assert found.detail["before"]["commit"] == history.git("rev-parse", f"{side}~1")


def test_a_merge_whose_sides_both_pass_is_the_culprit(tmp_path: Path) -> None:
    history = History(tmp_path / "tree")
    good = history.git("rev-parse", "HEAD")
    history.git("checkout", "-q", "-b", "side")
    history.commit("on the side", GOOD + "# side\n")
    history.git("checkout", "-q", "trunk")
    history.commit("on the trunk", GOOD + "# trunk\n")
    merge = history.merge("side", "evil merge", BAD)
    history.commit("later", BAD + "# later\n")
    found = search(history, good, "trunk")
    assert (found.found, found.culprits) == (True, ((merge,),))
    assert "it is a merge: what it merges is judged apart" in found.notes
    assert {t.outcome for t in found.trials if "on the" in t.point} == {"pass"}, "both sides were seen to pass"


def test_a_failure_that_is_older_than_the_good_end_is_said(tmp_path: Path) -> None:
    """It fails at the start, is healed by the good end, and comes back by a branch from the start."""
    history = History(tmp_path / "tree")
    start = history.commit("wrong from the start", BAD)
    history.git("checkout", "-q", "-b", "side")
    side = history.commit("on the side", BAD + "# side\n")
    history.git("checkout", "-q", "trunk")
    good = history.commit("healed", GOOD)
    history.merge("side", "merge", BAD + "# merged\n")
    found = search(history, good, "trunk")
    assert (found.found, exit_code(found), found.culprits) == (False, 3, ((side,),))
    assert "is the first that fails" in found.sentence
    assert f"{start[:12]}, a parent of it that is not a descendant of --good, fails already" in found.notes


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("code", "outcome"), [(-11, "untestable"), (3, "untestable"), (1, "ambiguous")])
def test_another_failure_is_not_the_culprit(tmp_path: Path, code: int, outcome: str) -> None:
    """A check that crashes, one that could not tell, and one that fails in another way: never the answer."""
    history = History(tmp_path / "tree")
    for text in (GOOD + "# 1\n", GOOD + "# odd\n", GOOD + "# 3\n", BAD):
        history.commit("change", text)
    run = Pretended(judge=lambda text: code if "odd" in text else int("axis=1" in text), other=code == 1)
    found = search(history, "trunk~4", "trunk", run)
    assert found.culprits == ((history.git("rev-parse", "trunk"),),)
    odd = history.git("rev-parse", "--short=12", "trunk~2")
    assert [trial.outcome for trial in found.trials if trial.point.startswith(odd)] == [outcome]


@pytest.mark.parametrize("error", [RequestError, NothingFails])
def test_ends_that_are_not_as_they_were_said_to_be(tmp_path: Path, error: type[RequestError]) -> None:
    """A good end that fails, and a bad one that passes."""
    history = History(tmp_path / "tree")
    history.commit("change", BAD)
    run = Pretended(judge=lambda text: int(error is RequestError))
    with pytest.raises(error):
        search(history, "trunk~1", "trunk", run)


def test_the_report_shows_the_patch(tmp_path: Path) -> None:
    history = History(tmp_path / "tree")
    history.commit("change", BAD + "".join(f"# ```{number}\n" for number in range(100)))
    found = search(history, "trunk~1", "trunk")
    text = markdown(BisectDocument(environment=ENVIRONMENT, finding=found))
    patch = text[text.index("\n````diff\n") : text.index("\n````\n")].splitlines()[2:]
    assert patch[:-1] == found.detail["diff"].splitlines()[: len(patch) - 1] and len(text.splitlines()) <= 60
    assert patch[-1] == f"… {len(found.detail['diff'].splitlines()) - len(patch) + 1} more lines"


def imports(words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None) -> ProcessResult:
    """A check that fails where the first `kernels.py` on PYTHONPATH is wrong."""
    folders = [Path(entry) for entry in environment["PYTHONPATH"].split(os.pathsep)]
    text = next(path.read_text() for folder in folders if (path := folder / "kernels.py").is_file())
    file = Path(words[words.index("--json") + 1])
    file.write_text(document(ok="wrong" not in text))
    return ProcessResult(code=int("wrong" in text))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("src", ["src", "."])
def test_sources_beside_the_tree_are_those_of_the_commit(tmp_path: Path, src: str, whole: bool) -> None:
    """The tree is a folder of its repository; its implementations import what PYTHONPATH has beside it."""
    (tmp_path / "top/src").mkdir(parents=True)
    kernels = f"{src}/kernels.py"
    history = History(tmp_path / "top", {kernels: "right\n"}, inside="checks")
    history.commit("refactor", GOOD + "# innocent\n")
    history.commit("docs", **{"notes.md": "1\n"})
    culprit = history.commit("perf", **{kernels: "wrong\n"})
    history.commit("more", GOOD + "# more\n")
    (history.root / kernels).write_text("wrong, and not committed\n")
    environment = {"PYTHONPATH": str(history.root / src)}
    check = ("samebits", *CHECK) if whole else CHECK
    request = CommitsRequest(
        good="trunk~4", bad="trunk", check=check, root=history.tree, whole=whole, environment=environment, run=imports
    )
    result = bisect_commits(request, Session())
    assert (result.found, result.culprits) == (True, ((culprit,),))
    assert "+wrong" in result.detail["diff"]
    if (src, whole) == ("src", False):
        assert "4 commits between, of which 3 change reference_impls/, optimized_impls/ or src/" in result.notes
    history.commit("healed", **{kernels: "right\n"})
    with pytest.raises(NothingFails):
        bisect_commits(replace(request, bad="trunk"), Session())
