"""`samebits bisect commits` as it is called: whole trees, real checks, a killed search, and every wrong request."""

import json
import math
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bisect.histories import BAD, BROKEN, CHECK, GOOD, PLACE, History, forty
from tests.support.invoke import clean_environment, command, samebits

pytestmark = pytest.mark.usefixtures("own_cache")


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


@pytest.mark.slow
def test_whole_trees_are_bisected_by_the_command_line(tmp_path: Path) -> None:
    history, hashes = forty(tmp_path / "tree", verdict=SCRIPT)
    (history.root / "verdict").write_text("raise SystemExit('today')")
    hook = history.root / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    before, file = history.state(), tmp_path / "found.json"
    done = samebits(*whole(history, hashes[0], "--json", file, "--markdown", tmp_path / "found.md"))
    assert done.code == 1, done.out + done.err
    assert history.state() == before and not (tmp_path / "hooked").exists()
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


@pytest.mark.slow
def test_a_killed_search_goes_on_where_it_was(tmp_path: Path) -> None:
    history, hashes = forty(tmp_path / "tree", verdict=SCRIPT + "import time; time.sleep(0.3)\n")
    words = whole(history, hashes[0], "--json", tmp_path / "found.json")
    journal = tmp_path / "cache" / "bisect"
    process = subprocess.Popen(command(*words), env=clean_environment(TMPDIR=str(tmp_path)), stdout=subprocess.DEVNULL)
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


@pytest.mark.slow
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
    assert "at it: different, out[0, 3]: reference=" in finding["witness"]


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
    (
        (*ENDS, "--", "chekc", "rev"),
        "'chekc' is not a check; did you mean check? (any other command runs with --whole)",
    ),
    ((*ENDS, "--", "make", "test"), "'make' is not a check; expected one of check, prove, train, compile, golden"),
    ((*ENDS, "--", "check", "rev", "--root=x"), "the check contains --root=x; leave it out"),
    ((*ENDS, "--", "check", "rev", "--json", "x"), "the check contains --json; leave it out"),
    (("--good", "trunk~2", "--", "check"), "give both ends: --good REV, which passes, and --bad REV, which fails"),
    ((*ENDS, "--setup", "make", "--", "check"), "--setup makes the environment of an old tree; it goes with --whole"),
    ((*ENDS, "--whole", "--setup", "'", "--", "x"), "--setup ': No closing quotation"),
    ((*ENDS, "--whole", "--setup", " ", "--", "x"), "--setup is empty; give a command line"),
    (("--good", "trunc", "--bad", "trunk", "--", "check"), "'trunc' is not a revision of "),
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
