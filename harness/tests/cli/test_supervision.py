"""A pair whose code ends or blocks the process that imports it is a problem of its own; the others are checked."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from samebits.cli import supervision
from samebits.host import backend_start
from tests.support.child import value_of
from tests.support.findings import flat_rows
from tests.support.hangup import heard as heard
from tests.support.invoke import clean_environment, command

HONEST = """
from samebits import Arg, Case, Pair

def plain(x):
    return x + x

def fast(x):
    return 2 * x

PAIR = Pair(
    name="{name}",
    reference=plain,
    variants={{"fast": fast}},
    args={{"x": Arg(shape=("n",))}},
    cases=(Case(id="few", sizes={{"n": 8}}),),
    dtypes=("float32",),
    gradients=False,
)
"""

BAD = {
    "a_aborts": "import os\nos.abort()\n",
    "b_exits": "import os\nos._exit(0)\n",
    "c_blocks": "import time\ntime.sleep(100_000)\n",
    "d_exits_in_args": HONEST.format(name="d_exits_in_args").replace(
        "args={", "args=lambda case, mesh: __import__('os')._exit(0) or {"
    ),
    "e_exits_in_variant": HONEST.format(name="e_exits_in_variant").replace('"fast": fast', '"fast": "fast"'),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two honest pairs, before and after three whose import does not end well."""
    (tmp_path / "suites").mkdir()
    for name in ("a", "z"):
        (tmp_path / "suites" / f"test_{name}.py").write_text(HONEST.format(name=name))
    return tmp_path


def _start(tree: Path, *words: str | Path, **variables: str) -> subprocess.Popen[str]:
    environment = clean_environment(**variables)
    return subprocess.Popen(
        command(*words), cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("bad", [["a_aborts"], pytest.param(list(BAD), marks=pytest.mark.slow)], ids=["one", "all"])
def test_a_bad_import_costs_its_own_pair(tree: Path, bad: list[str]) -> None:
    for name in bad:
        (tree / "suites" / f"test_{name}.py").write_text(BAD[name])
    for folder, text in (("reference_impls", ""), ("optimized_impls", "import os\nos._exit(0)\n")):
        (tree / folder).mkdir()
        if "e_exits_in_variant" in bad:
            (tree / folder / "e_exits_in_variant.py").write_text(text)
    document = tree / "check.json"
    # The list imports no jax; that a check goes on likewise is seen with a thread, below.
    words = ("list",) if len(bad) == 1 else ("check", "--timeout", "20")
    process = _start(tree, *words, "--json", document)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    found = json.loads(document.read_text())
    problems = {problem["pair"]: problem["message"] for problem in found["problems"]}
    assert set(problems) == set(bad)
    assert "its code ended the process that imported it (SIGABRT; it was at " in problems["a_aborts"]
    for name in {"b_exits", "d_exits_in_args", "e_exits_in_variant"} & set(bad):
        assert "(exit code 0)" in problems[name]
    if "c_blocks" in bad:
        assert "(it took more than 20 s; it was at " in problems["c_blocks"]
        assert "test_c_blocks.py:2 in <module>" in problems["c_blocks"]
    assert {row["pair"] for row in flat_rows(found)} == {"a", "z"}
    assert all(row["ok"] for row in flat_rows(found) if "check" in words)
    assert "Fatal Python error" not in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("import atexit, os\natexit.register(os._exit, 0)\n", ""),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,)).start()\n", "left a thread running"),
    ],
)
def test_the_exit_code_is_that_of_the_report(tree: Path, code: str, note: str) -> None:
    text = code + HONEST.format(name="wrong").replace("2 * x", "3 * x")
    (tree / "suites" / "test_wrong.py").write_text(text)
    process = _start(tree, "check", "wrong")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    assert note in err


def test_a_command_that_ends_without_a_report_is_undecided(tree: Path) -> None:
    alarm = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.3)\n"
    (tree / "suites" / "test_late.py").write_text(alarm + HONEST.format(name="late"))
    process = _start(tree, "check")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "the process ended without a report (SIGALRM" in err and "and not while it imported a pair" in err


ENDS_AT = """
import os, sys

class Ends:
    def find_spec(self, name, path=None, target=None):
        if name == "MODULE":
            os._exit(5)

sys.meta_path.insert(0, Ends())
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("samebits.cli.check_run", "a pair; remove the code"),
        # Which starts the first worker process.
        (
            "multiprocessing.popen_spawn_posix",
            "its results are in the journal: continue with --resume, or remove the code",
        ),
    ],
)
def test_a_journal_is_named_once_there_is_one(tree: Path, module: str, said: str) -> None:
    (tree / "sitecustomize.py").write_text(ENDS_AT.replace("MODULE", module))
    process = _start(tree, "check", PYTHONPATH=os.pathsep.join((str(tree), clean_environment()["PYTHONPATH"])))
    _, err = process.communicate(timeout=120)
    assert (process.returncode, said in err, "(exit code 5)" in err) == (3, True, True), err


def test_a_thread_that_ends_the_process_costs_its_own_pair(tree: Path) -> None:
    timer = "import os, threading\nthreading.Timer(0.3, os._exit, (0,)).start()\n"
    (tree / "suites" / "test_late.py").write_text(HONEST.format(name="late") + timer)  # so that its import soon ends
    process = _start(tree, "check", "--json", tree / "r.json")
    _, err = process.communicate(timeout=120)
    document = json.loads((tree / "r.json").read_text())
    (problem,) = document["problems"]
    assert process.returncode == 3 and "pair 'late': its import left a thread running" in problem["message"], err
    assert "the process ended later (exit code 0)" in problem["message"]
    assert {(row["pair"], row["ok"]) for row in flat_rows(document)} == {("a", True), ("z", True)}


def test_a_pair_blamed_for_a_thread_of_another_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ends a child while `innocent` is imported, and another one while nothing is."""
    supervised = supervision._Supervision()
    monkeypatch.setattr(supervision, "_SUPERVISION", supervised)
    assert supervision._exclude("ends_itself", [], "exit code 0", 0)
    assert supervision._exclude("innocent", ["threaded"], "exit code 1", 1 << 8)
    assert set(supervised.excluded) == {"ends_itself", "innocent"}
    assert not supervision._exclude("", ["threaded"], "SIGKILL", signal.SIGKILL), "another process may have ended it"
    assert supervision._exclude("", ["threaded"], "exit code 1", 1 << 8)
    assert set(supervised.excluded) == {"ends_itself", "threaded"}
    assert not supervision._exclude("", ["threaded"], "exit code 1", 1 << 8)


def test_pairs_that_leave_a_thread_running_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    state = supervision._Supervision()
    state.begin()
    monkeypatch.setattr(supervision, "_SUPERVISION", state)
    done = threading.Event()
    with supervision.importing("none"):
        pass
    for name in ("first", "x" * 40_000, "second", "first"):
        with supervision.importing(name):
            threading.Thread(target=done.wait, daemon=True).start()
            state.hear()
            assert state.importing == name
    done.set()
    state.hear()
    assert [*state.left] == ["first", "x" * 40_000, "second"] and state.importing == ""


def test_a_problem_is_printed_once_whatever_ends_later(tree: Path) -> None:
    ends = "import os; os._exit(0)"
    for name, code in {"b_raises": "raise ValueError", "c_ends": ends, "d_ends": ends}.items():
        (tree / "suites" / f"test_{name}.py").write_text(code)
    process = _start(tree, "list")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2, "the code of a declaration that is wrong, beside pairs that could not be read"
    assert [line.split("'")[1] for line in err.splitlines()] == ["b_raises", "c_ends", "d_ends"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list",), "pair 'ends': its code ended the process that imported it (exit code 0)"),
        (("audit", "claims"), "pair 'ends': its code ended the process that imported it (exit code 0)"),
        (
            ("compare", "suites/test_ends.py:plain", "suites/test_ends.py:fast", "--arg", "x=f32[8]"),
            "the process ended without a report (exit code 0), and not while it imported a pair; remove the code",
        ),
        (
            ("bisect", "mesh", "ends", "--variant", "fast", "--case", "few", "--mesh", "single"),
            "the process ended without a report (exit code 0), and not while it imported a pair; "
            "its results are in the journal: the same command continues, or remove the code that ended it",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_no_command_ends_as_the_code_asks(tree: Path, words: tuple[str, ...], said: str) -> None:
    """`os._exit(0)` must not look like a command that has found nothing to complain about."""
    (tree / "suites" / "test_ends.py").write_text("import os\nos._exit(0)\n" + HONEST.format(name="ends"))
    process = _start(tree, *words)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, said in err) == (3, True), out + err


@pytest.mark.parametrize(
    ("status", "looks"),
    [(1 << 8, True), (signal.SIGABRT, True), (signal.SIGABRT | 0x80, True), (0, False), (3 << 8, False), (9, False)],
    ids=["exit code 1", "abort", "abort with a core dump", "exit code 0", "exit code 3", "kill"],
)
def test_what_may_be_an_xla_that_does_not_start(status: int, looks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(backend_start, "capture_apart", asked.append)
    supervision._find_why_not_started(status)
    assert bool(asked) == looks


def test_in_process_there_is_no_other_process(tree: Path) -> None:
    """A debugger stops in the user's code; what ends the process ends the command."""
    (tree / "suites" / "test_ends.py").write_text("import os\nos._exit(7)\n" + HONEST.format(name="ends"))
    process = _start(tree, "check", "ends", "--in-process")
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (7, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("compare", "suites/test_a.py:plain", "suites/test_a.py:fast", "--arg", "x=f32[8]"), ("check",), ("prove",)],
    ids=lambda words: words[0],
)
def test_an_xla_that_does_not_start_is_a_wrong_request(tree: Path, words: tuple[str, ...]) -> None:
    """XLA ends the process with 1, the exit code of sides that differ."""
    process = _start(tree, *words, XLA_FLAGS="--no_such_flag")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    (said,) = (line for line in err.splitlines() if line.startswith("samebits: "))
    assert said.startswith("samebits: jax does not start on the platform asked for: ")
    assert said.endswith("Unknown flag in XLA_FLAGS: --no_such_flag")


@pytest.mark.usefixtures("heard")
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGHUP, 3), (signal.SIGINT, 3), (signal.SIGTERM, 3), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_signal_to_the_parent_ends_both(tree: Path, number: signal.Signals, code: int) -> None:
    marker = tree / "importing"
    text = f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(1000)\n"
    (tree / "suites" / "test_blocks.py").write_text(text)
    process = _start(tree, "list")
    while not marker.exists():
        assert process.poll() is None
        time.sleep(0.02)
    (child,) = psutil.Process(process.pid).children()
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert child.wait(timeout=60) is None or not child.is_running()


@pytest.mark.slow
def test_a_child_that_another_process_ends_is_not_blamed(tree: Path) -> None:
    (tree / "suites" / "test_m.py").write_text(
        HONEST.format(name="m")
        + "\nimport os, signal, threading\nthreading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
    )
    process = _start(tree, "check")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "(SIGKILL" in err and "run it again: another process ended it, or the system did for want of memory" in err


IN_A_TERMINAL = """
import os, pty, signal, sys, time
from pathlib import Path

number, terminal = pty.fork()
if number == 0:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    os.execv(sys.executable, [sys.executable, "-m", "samebits", "check", "--fresh", "--json", "r.json"])
while not Path("running").exists():
    time.sleep(0.02)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
"""


@pytest.mark.slow
def test_a_closed_terminal_ends_with_a_report(tree: Path) -> None:
    """The system tells the first process of the terminal's session alone."""
    waits = "def fast(x):\n    open('running', 'w').close()\n    __import__('time').sleep(1000)"
    text = HONEST.format(name="m").replace("def fast(x):", waits)
    (tree / "suites" / "test_m.py").write_text(text)
    assert value_of(IN_A_TERMINAL, tree) == "3"
    assert json.loads((tree / "r.json").read_text())["summary"]["interrupted"]
