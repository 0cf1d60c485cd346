"""The commit that introduced a failure: real histories, judged by pretended checks, and a few by real ones."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.bisect.commits import Request, bisect_commits, changing
from harness.bisect.finding import Finding, Session
from harness.errors import RequestError
from harness.report.bisected import bisected_markdown, exit_code, shortened
from harness.search.judgement import Outcome
from harness.search.trials import NothingFails
from harness.tests.histories import BAD, BROKEN, GOOD, PLACE, History, Pretended, forty
from harness.tests.invoke import clean_environment, command, samebits
from harness.worktree import Commit

CHECK = ("check", "rev", "--variant", "fast")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))


def search(history: History, good: str, bad: str, run: Pretended | None = None, **more: Any) -> Finding:
    run = run or Pretended()
    request = Request(good=good, bad=bad, check=CHECK, root=history.root, run=run, **more)
    return bisect_commits(request, Session())


def graph_of(*rows: tuple[str, str, str]) -> tuple[dict[str, tuple[str, ...]], str]:
    """Of rows of name, parents and content; the first is the good end, the last the bad one."""
    commits = [
        Commit(id=name, parents=tuple(parents.split()), author="", date="", subject="") for name, parents, _ in rows
    ]
    contents = {name: content for name, _, content in rows}
    return changing(commits[1:], contents, rows[0][0], rows[-1][0])


# --- invented histories ----------------------------------------------------------------------------------------------


def test_commits_that_change_nothing_are_stood_for_by_their_parents() -> None:
    rows = [("a", "", "1"), ("b", "a", "1"), ("c", "b", "2"), ("d", "c", "2"), ("e", "d", "3"), ("f", "e", "3")]
    assert graph_of(*rows) == ({"c": ("a",), "e": ("c",)}, "e")


def test_content_that_comes_back_is_a_change_each_time() -> None:
    rows = [("a", "", "1"), ("b", "a", "2"), ("c", "b", "3"), ("d", "c", "2")]
    assert graph_of(*rows) == ({"b": ("a",), "c": ("b",), "d": ("c",)}, "d")


def test_what_was_taken_back_before_is_left_out() -> None:
    rows = [("a", "", "1"), ("b", "a", "2"), ("c", "b", "1"), ("d", "c", "2")]
    assert graph_of(*rows) == ({"d": ("c",)}, "d")


def test_a_merge_that_takes_one_side_leaves_the_other_out() -> None:
    rows = [("a", "", "1"), ("b", "a", "2"), ("c", "a", "3"), ("m", "c b", "2"), ("d", "m", "4")]
    assert graph_of(*rows) == ({"b": ("a",), "d": ("b",)}, "d")


def test_a_merge_of_two_changes_is_a_candidate_of_its_own() -> None:
    rows = [("a", "", "1"), ("b", "a", "2"), ("c", "a", "3"), ("m", "b c", "23")]
    assert graph_of(*rows) == ({"b": ("a",), "c": ("a",), "m": ("b", "c")}, "m")


def test_nothing_between_changes_anything() -> None:
    assert graph_of(("a", "", "1"), ("b", "a", "1"))[0] == {}


# --- forty commits ---------------------------------------------------------------------------------------------------


def test_the_culprit_of_forty_commits_with_a_merge_and_two_broken_builds(tmp_path: Path) -> None:
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
        f"PASS before, FAIL ({PLACE}: different) from it on"
    )
    assert found.witness == "before: proved, 0 of 20 elements differ; from it on: different, 7 of 20 elements differ"
    assert [text[:12] for text in found.skipped] == [hashes[20][:12], hashes[24][:12]]
    assert all("rev.py does not import" in text and "/tmp" not in text for text in found.skipped)
    assert found.runs <= math.ceil(math.log2(40)) + 3
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


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, list[str]]:
    return forty(tmp_path_factory.mktemp("healthy") / "tree", culprit=41, broken=())


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
    assert f"{start[:12]}, a parent of it that is no descendant of --good, fails already" in found.notes


def test_another_failure_is_not_the_culprit(tmp_path: Path) -> None:
    """A crash of the check, or another exit code, on the way: AMBIGUOUS or UNTESTABLE, never the answer."""
    history = History(tmp_path / "tree")
    for number, text in enumerate(["# crash\n", "# other\n", GOOD, BAD, BAD + "# more\n"]):
        history.commit(f"change {number}", text)
    outcomes: dict[str, Outcome] = {}

    def judge(text: str) -> int:
        return -11 if "crash" in text else 3 if "other" in text else int("axis=1" in text)

    found = search(history, "trunk~5", "trunk", Pretended(judge=judge))
    outcomes = {trial.point.split(" ", 1)[1]: trial.outcome for trial in found.trials}
    assert found.culprits == ((history.git("rev-parse", "trunk~1"),),)
    assert outcomes["change 2"] == "pass"


def test_the_report_shows_the_patch(tmp_path: Path) -> None:
    from harness.report.bisected import BisectDocument
    from harness.tests.documents import ENVIRONMENT

    history = History(tmp_path / "tree")
    history.commit("change", BAD + "".join(f"# ```{number}\n" for number in range(100)))
    found = search(history, "trunk~1", "trunk")
    text = bisected_markdown(BisectDocument(environment=ENVIRONMENT, finding=found))
    assert f"\n````diff\n{found.detail['diff']}\n````\n" in text
    lines = shortened(found.detail["diff"], 40)
    assert (len(lines), lines[-1]) == (
        41,
        f"... {len(found.detail['diff'].splitlines()) - 40} more lines; all in --json",
    )


# --- whole trees -----------------------------------------------------------------------------------------------------

SCRIPT = """import os, pathlib, sys
with open(sys.argv[1], "a") as log:
    log.write(os.environ.get("PYTHONPATH", "") + "\\n")
text = pathlib.Path("optimized_impls/rev.py").read_text()
if "(x:" in text:
    sys.exit(125)
sys.exit("axis=1" in text and "it differs")
"""


def whole(history: History, good: str, *more: str | Path, bad: str = "trunk") -> list[str]:
    """A bisection of whole trees; `verdict` is a script of theirs, and each of its runs writes a line to `log`."""
    words = ["bisect", "commits", "--root", str(history.root), "--good", good, "--bad", bad, "--whole"]
    return [*words, *map(str, more), "--", sys.executable, "verdict", str(history.root.parent / "log")]


def runs_of(history: History) -> int:
    return len((history.root.parent / "log").read_text().splitlines())


def test_whole_trees_are_bisected_and_shown_again_by_the_command_line(tmp_path: Path) -> None:
    history, hashes = forty(tmp_path / "tree", verdict=SCRIPT)
    (history.root / "verdict").write_text("raise SystemExit('today')")
    before, file = history.state(), tmp_path / "found.json"
    done = samebits(*whole(history, hashes[0], "--json", file, "--markdown", tmp_path / "found.md"))
    assert done.code == 1, done.out + done.err
    assert history.state() == before
    found = json.loads(file.read_text())["finding"]
    assert found["culprits"] == [[hashes[27]]]
    assert f"commit {hashes[27][:12]} 'change 27' by Ada" in done.out
    assert "introduced it: PASS before, FAIL (exit code 1) from it on" in done.out
    assert f"skipped, could not be judged: {hashes[24][:12]} change 24: exit code 125, skip" in done.out
    assert found["runs"] <= math.ceil(math.log2(40)) + 3
    assert runs_of(history) == found["runs"] + found["repeats"]
    assert (history.root.parent / "log").read_text().strip() == "", "today's harness is not on the old tree's path"
    assert "+    return jnp.flip(x, axis=1)" in done.out and "```diff" in (tmp_path / "found.md").read_text()
    again = samebits(*shlex.split(found["replay"])[1:])
    assert again.code == 1, again.out + again.err
    assert f"commit {hashes[27][:12]} 'change 27' by Ada" in again.out and "2 runs and 2 repeats" in again.out


def test_a_killed_search_goes_on_where_it_was(tmp_path: Path) -> None:
    history, hashes = forty(tmp_path / "tree", verdict=SCRIPT + "import time; time.sleep(0.3)\n")
    words = whole(history, hashes[0], "--json", tmp_path / "found.json")
    journal = tmp_path / "cache" / "bisect"
    process = subprocess.Popen(command(*words), env=clean_environment(), stdout=subprocess.DEVNULL)
    for _ in range(600):
        time.sleep(0.05)
        lines = [len(path.read_text().splitlines()) for path in journal.glob("*.jsonl")]
        if lines and lines[0] > 4:
            break
    process.kill()
    process.wait()
    known = len(next(journal.glob("*.jsonl")).read_text().splitlines()) - 1
    time.sleep(0.5)  # what it was running ends by itself
    before = runs_of(history)
    done = samebits(*words)
    found = json.loads((tmp_path / "found.json").read_text())["finding"]
    assert (done.code, found["culprits"]) == (1, [[hashes[27]]])
    assert 4 <= known < found["runs"] + found["repeats"]
    assert runs_of(history) - before == found["runs"] + found["repeats"] - known
    assert [trial["remembered"] for trial in found["trials"]][:2] == [True, True]


def test_the_setup_of_an_old_tree_may_fail(tmp_path: Path) -> None:
    """A tree that cannot be set up is skipped; what the setup makes is there for the check."""
    setup = "import pathlib; pathlib.Path('made').write_text(''); exit('half' in open('optimized_impls/rev.py').read())"
    history = History(tmp_path / "tree", {"setup": setup, "verdict": f"open('made')\n{SCRIPT}"})
    for number, text in enumerate([GOOD + "# 1\n", "# half\n", BAD, BAD + "# 4\n"]):
        history.commit(f"change {number}", text)
    found = tmp_path / "found.json"
    done = samebits(*whole(history, "trunk~4", "--setup", f"{sys.executable} setup", "--json", found))
    assert done.code == 3, done.out + done.err
    finding = json.loads(found.read_text())["finding"]
    assert len(finding["culprits"]) == 2 and "setup ends with 1" in finding["skipped"][0]


def test_a_check_that_hangs_is_ended(tmp_path: Path) -> None:
    script = SCRIPT + "import time; time.sleep(60 * ('hang' in text))\n"
    history = History(
        tmp_path / "tree", {"verdict": script.replace('sys.exit("axis', "'hang' in text or sys.exit(\"axis")}
    )
    for text in (GOOD + "# 1\n", GOOD + "# hang\n", GOOD + "# 3\n", BAD):
        history.commit("change", text)
    begin = time.perf_counter()
    done = samebits(*whole(history, "trunk~4", "--timeout", "1"))
    assert time.perf_counter() - begin < 20
    assert "took longer than 1 seconds" in done.out and done.code == 1, done.out


# --- real checks -----------------------------------------------------------------------------------------------------


def test_todays_suites_over_old_implementations(tmp_path: Path) -> None:
    """Today's harness is run over both ends and a broken build between them, which hides which of the two it was."""
    history = History(tmp_path / "tree")
    history.commit("broken", BROKEN)
    culprit = history.commit("columns, not rows", BAD)
    before = history.state()
    words = ("--good", "trunk~2", "--bad", "trunk", "--root", history.root, "--json", tmp_path / "found.json")
    done = samebits("bisect", "commits", *words, "--", *CHECK, "--direction", "forward")
    assert history.state() == before
    finding = json.loads((tmp_path / "found.json").read_text())["finding"]
    assert (done.code, finding["culprits"][-1]) == (3, [culprit]), done.out + done.err
    assert "rev.py does not import: SyntaxError" in finding["skipped"][0]
    assert finding["detail"]["after"]["judgement"]["signature"] == f"{PLACE}: different"
    assert "from it on: different, out[0, 0]: reference=" in finding["witness"]


@pytest.mark.slow
def test_forty_real_checks_and_their_replay(tmp_path: Path) -> None:
    history, hashes = forty(tmp_path / "tree")
    words = ("--good", hashes[0], "--bad", "trunk", "--root", history.root, "--json", tmp_path / "found.json")
    done = samebits("bisect", "commits", *words, "--", *CHECK)
    finding = json.loads((tmp_path / "found.json").read_text())["finding"]
    assert (done.code, finding["culprits"]) == (1, [[hashes[27]]]), done.out + done.err
    assert finding["runs"] <= math.ceil(math.log2(40)) + 3 and len(finding["skipped"]) == 2
    again = samebits(*shlex.split(finding["replay"])[1:])
    assert (again.code, f"commit {hashes[27][:12]}" in again.out) == (1, True)


# --- wrong requests --------------------------------------------------------------------------------------------------

ENDS = ("--good", "trunk~2", "--bad", "trunk")
WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    ((*ENDS, "--"), "give a check after `--`: a samebits command such as `-- check PAIR`"),
    ((*ENDS, "--whole"), "give a check after `--`: with --whole any command line"),
    ((*ENDS, "--", "chekc", "rev"), "'chekc' is no check; did you mean check? (any other command runs with --whole)"),
    ((*ENDS, "--", "make", "test"), "'make' is no check; expected one of check, prove, train"),
    ((*ENDS, "--", "check", "rev", "--root=x"), "the check gives --root=x; leave it out"),
    ((*ENDS, "--", "check", "rev", "--json", "x"), "the check gives --json; leave it out"),
    (("--good", "trunk~2", "--", "check"), "give both ends: --good REV, which passes, and --bad REV, which fails"),
    ((*ENDS, "--setup", "make", "--", "check"), "--setup makes the environment of an old tree; it goes with --whole"),
    ((*ENDS, "--whole", "--setup", "'", "--", "x"), "--setup ': No closing quotation"),
    ((*ENDS, "--whole", "--setup", " ", "--", "x"), "--setup is empty; give a command line"),
    (("--good", "trunc", "--bad", "trunk", "--", "check"), "'trunc' is no revision of "),
    (("--good", "trunk", "--bad", "trunk~0", "--", "check"), "--good trunk and --bad trunk~0 are the same commit, "),
    (("--good", "trunk", "--bad", "trunk~2", "--", "check"), "--bad trunk~2 comes before --good trunk; "),
    (("--good", "side", "--bad", "trunk", "--", "check"), "--good side is not in the history of --bad trunk; "),
    (("--good", "trunk~3", "--bad", "trunk~2", "--", "check"), "have the same reference_impls/ and optimized_impls/, "),
    ((*ENDS, "--whole", "--", "no-such-command"), "the bad end, "),
    ((*ENDS, "--whole", "--", "false"), "fails already: exit code 1; give one that passes"),
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(tmp_path_factory.mktemp("small") / "tree")
    history.commit("docs", notes="1")
    history.git("branch", "side")
    for number in range(2):
        history.commit(f"change {number}", GOOD + f"# {number}\n")
    history.git("checkout", "-q", "side")
    history.commit("side", BAD)
    history.git("checkout", "-q", "trunk")
    return history


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_wrong_requests_get_one_line_and_exit_2(small: History, words: tuple[str, ...], message: str) -> None:
    done = samebits("bisect", "commits", "--root", small.root, *words)
    assert (done.code, len(done.lines)) == (2, 1), done.out + done.err
    assert message in done.err


def test_a_bad_end_that_passes_ends_with_zero(small: History) -> None:
    done = samebits("bisect", "commits", "--root", small.root, *ENDS, "--whole", "--", "true")
    assert (done.code, done.err) == (0, "")
    assert "passes: nothing fails; there is nothing to search for" in done.out


def test_a_tree_without_a_repository(tmp_path: Path) -> None:
    done = samebits("bisect", "commits", "--root", tmp_path, *ENDS, "--", "check")
    assert (done.code, len(done.lines)) == (2, 1)
    assert "is in no git repository" in done.err


@pytest.mark.parametrize("error", [RequestError, NothingFails])
def test_pretended_ends(small: History, error: type[RequestError]) -> None:
    """Over old implementations too: a good end that fails, and a bad one that passes."""
    run = Pretended(judge=lambda text: int(error is RequestError))
    with pytest.raises(error):
        search(small, "trunk~2", "trunk", run)
