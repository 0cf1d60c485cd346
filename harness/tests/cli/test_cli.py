"""The command line from the outside: help, list, filters, replay, module:PAIR, a terminal, an interrupt."""

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from samebits.report.check import read_document
from tests.support.child import run_python
from tests.support.findings import flat_rows, value
from tests.support.foreign import AXES, FORWARD, write_pair
from tests.support.invoke import clean_environment, command, samebits, samebits_process

SLOW = """
    import os, pathlib, time

    def fast(x):
        pathlib.Path(os.environ["SAMEBITS_TEST_MARK"]).joinpath("{name}").touch()
        time.sleep(60)
        return 2 * x
    """


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    write_pair(root, "good")
    axes = (
        'cases=(Case(id="small", sizes={"rows": 4}), Case(id="tall", sizes={"rows": 8})), dtypes=("float32", "int32"),'
    )
    axes += 'meshes=("data1", "data2"), wide_meshes=("data16",), modes=("auto", "explicit"),'
    optimized = "def fast(x):\n    return 2 * x\n\n\ndef faster(x):\n    return x + x\n"
    write_pair(root, "other", optimized=optimized, variants=("fast", "faster"), axes=axes)
    return root


def _points(document: Path, *names: str) -> set[tuple[Any, ...]]:
    return {tuple(value(result, name) for name in names) for result in read_document(document).results}


def test_help_imports_neither_jax_nor_numpy_nor_rich() -> None:
    code = "import sys\nfrom samebits.cli import main\ntry:\n    main(['check', '--help'])\nexcept SystemExit: pass\n"
    code += "print([name for name in ('jax', 'numpy', 'rich', 'msgspec') if name in sys.modules])"
    ended = run_python("-c", code)
    assert ended.stdout.splitlines()[-1] == "[]", ended.stderr
    assert "[PAIR]..." in ended.stdout


def test_list_shows_declarations_and_imports_no_jax(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    words = ["list", "--root", str(tree), "--json", str(file)]
    code = f"import sys\nfrom samebits.cli import main\ntry:\n    main({words})\n"
    code += "except SystemExit as e: print('exit', e.code)\nprint('jax' in sys.modules)"
    ended = run_python("-c", code)
    assert ended.stdout.splitlines()[-2:] == ["exit 0", "False"], ended.stderr
    assert "  meshes         data1/2; on more devices data16" in ended.stdout
    assert "next: samebits check good" in ended.stdout
    listed = json.loads(file.read_text())
    assert (listed["schema"], listed["command"]) == ("samebits/2", "list")
    other = listed["results"][1]
    assert (other["pair"], other["variants"], other["product"]) == ("other", ["fast", "faster"], 16)
    assert other["selected"] < other["product"] and other["points"] > 0


def test_list_names_what_does_not_load(tmp_path: Path) -> None:
    write_pair(tmp_path, "good")
    write_pair(tmp_path, "broken", suite="PAIR = 3\n")
    ended = samebits("list", "--root", tmp_path)
    suite = tmp_path / "suites" / "test_broken.py"
    assert ended.code == 2 and "good\n  reference " in ended.out
    assert ended.lines == [
        f"samebits: pair 'broken': {suite} has a int under the name 'PAIR'; expected PAIR = Pair(...)"
    ]


@pytest.mark.slow
def test_filters_take_patterns_and_can_be_repeated(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    words = ("--variant", "fast", "--mesh", "data[12]", "--dtype", "f*", "--mode", "auto", "--direction", "forward")
    ended = samebits("check", "other", "--root", tree, *words, "--case", "tall", "--case", "small", "--json", file)
    assert ended.code == 0, ended.err
    assert _points(file, "variant", "dtype", "mode", "direction") == {("fast", "float32", "auto", "forward")}
    assert _points(file, "case", "mesh") == {(case, mesh) for case in ("small", "tall") for mesh in ("data1", "data2")}


def test_a_filter_for_one_pair_leaves_out_the_others_with_a_note(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    few = ("--case", "tall", "--mode", "auto", "--direction", "forward")
    ended = samebits("check", "--root", tree, "--variant", "faster", *few, "--full", "--json", file)
    assert ended.code == 0, ended.err
    assert _points(file, "pair", "variant", "case") == {("other", "faster", "tall")}
    assert "left out: pair 'good' has nothing that fits --variant faster" in read_document(file).summary.notes


@pytest.mark.slow
def test_an_unlisted_mesh_runs_when_it_is_named(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    assert samebits("check", "good", "--root", tree, "--mesh", "data4", "--json", file).code == 0
    assert _points(file, "mesh", "devices") == {("data4", 4)}


def test_a_pattern_takes_the_meshes_that_fit(tree: Path) -> None:
    ended = samebits("check", "other", "--root", tree, "--mesh", "data*", "--case", "tall", "--dtype", "int32")
    assert ended.code == 0, ended.err
    assert "other: not run, for there are 8: data16 needs 16 devices; --devices 16 runs them" in ended.out


@pytest.mark.slow
def test_module_and_attribute_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "their_kernels.py").write_text("def plain(x):\n    return x + x\n\n\ndef fast(x):\n    return 2 * x\n")
    functions = 'reference="their_kernels:plain", variants={"fast": "their_kernels:fast"},'
    text = textwrap.dedent(
        f"""
        from samebits import Arg, Case, Pair

        ROPE = Pair(
            name="rope",
            {functions}
            args={{"x": Arg(shape=("rows", 5), spec=("data",))}},
            out_spec={{"out": ("data",)}},
            {AXES}
        )
        """
    )
    (tmp_path / "their_checks.py").write_text(text)
    ended = samebits_process("check", "their_checks:ROPE", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, ""), ended
    assert "4 results of 1 pair: proved 2, bitwise 2" in ended.out


@pytest.mark.slow
def test_two_workers_give_the_same_results_in_the_same_order(tree: Path, tmp_path: Path) -> None:
    found = []
    for workers in ("1", "2"):
        file = tmp_path / f"{workers}.json"
        words = ("--devices", "4", "--mesh", "data4", "--mesh", "data2", "--case", "small", "--workers", workers)
        ended = samebits_process("check", "--root", tree, "--dtype", "float32", *words, "--json", file)
        assert (ended.code, ended.err) == (0, "")
        results = flat_rows(json.loads(file.read_text()))
        found.append([{**result, "seconds": 0} for result in results])
    assert {(result["pair"], result["mesh"]) for result in found[0]} == {
        (pair, mesh) for pair in ("good", "other") for mesh in ("data2", "data4")
    }
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_worker_that_dies_is_named(tmp_path: Path) -> None:
    write_pair(tmp_path, "good")
    write_pair(tmp_path, "deadly", optimized="import os\n\n\ndef fast(x):\n    os.kill(os.getpid(), 9)\n")
    ended = samebits_process("check", "--root", tmp_path, "--workers", "2")
    assert (ended.code, ended.err) == (3, "")
    assert "FAILED  deadly/fast: 2 of 2 results: error" in ended.out
    assert "likely    the process ended (SIGKILL" in ended.out and "while tracing: the system ended it" in ended.out
    assert "8 results of 2 pairs: " in ended.out and "error 2" in ended.out


def test_a_closed_pipe_does_not_change_the_exit_code(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    words = shlex.join(command("list", "--root", tree, "--json", file))
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | true"], env=clean_environment(), capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [row["pair"] for row in json.loads(file.read_text())["results"]] == ["good", "other"]


@pytest.mark.slow
def test_a_terminal_gets_a_bar_and_colours(tree: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("check", "good", "--root", tree),
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=clean_environment(TERM="xterm-256color", COLUMNS="100", LINES="40"),
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        seen += piece
    assert process.wait(60) == 0
    os.close(ours)
    assert process.stderr is not None
    process.stderr.close()
    text = seen.decode()
    assert "check" in text and "0 of 4" in text and "\x1b[" in text
    assert "all contracts hold" in text.splitlines()[-1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_run_shows_and_writes_what_it_has(tmp_path: Path, workers: str) -> None:
    write_pair(tmp_path, "a_fast", extra=FORWARD)
    slow = ("b_slow", "c_slow") if workers == "2" else ("c_slow",)
    for name in slow:
        write_pair(tmp_path, name, optimized=SLOW.format(name=name), axes=AXES)
    files = (tmp_path / "r.json", tmp_path / "r.md")
    process = subprocess.Popen(
        command("check", "--root", tmp_path, "--workers", workers, "--json", files[0], "--markdown", files[1]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=clean_environment(SAMEBITS_TEST_MARK=str(tmp_path)),
    )
    # The last pair starts only when all results of the first are in.
    deadline = time.monotonic() + 90
    while not (tmp_path / "c_slow").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3
    assert re.fullmatch(
        r"samebits: every result so far is in \S+; the same command with --resume goes on from there\n", err
    )
    document = read_document(files[0])
    assert document.summary.interrupted
    assert {result.place.pair for result in document.results} == {"a_fast"}
    assert document.summary.ok == len(document.results) == 2
    assert out.splitlines()[-1].startswith("interrupted; 2 results of ")
    assert files[1].read_text().startswith("### samebits check: incomplete\n")
    for _ in range(100):  # no worker is left behind; each has a process group of its own
        if not _of_session(process.pid):
            break
        time.sleep(0.05)
    else:
        pytest.fail("a process of the interrupted run is still there")


def _of_session(number: int) -> list[int]:
    """The processes of a session."""
    numbers = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):  # ended meanwhile
            if os.getsid(pid) == number:
                numbers.append(pid)
    return numbers


@pytest.mark.slow
def test_the_replay_line_shows_the_same_result_again(tmp_path: Path) -> None:
    planted = "def fast(x):\n    return (2 * x).at[1, 2].multiply(1.5)\n"
    write_pair(tmp_path, "planted", optimized=planted)
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    assert samebits("check", "--root", tmp_path, "--json", first).code == 1
    result = next(result for result in read_document(first).results if result.failed)
    words = shlex.split(result.replay)
    assert words[0] == "samebits"
    ended = samebits(*words[1:], "--json", second)
    assert ended.code == 1
    again = read_document(second).results
    assert len(again) == 1
    assert again[0].comparison.witness is not None and again[0].comparison.witness.index == (1, 2)
    assert {**_data(again[0]), "seconds": 0} == {**_data(result), "seconds": 0}
    assert f"next: {result.replay}" in ended.out


def _data(result: object) -> dict[str, object]:
    return {name: getattr(result, name) for name in result.__slots__}  # type: ignore[attr-defined]


def test_the_table_of_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from samebits.audit.faults.fault import Fault, FaultRow

    planted = [Fault(name=name, pair="norm", side="fast", kind="rounding") for name in ("no epsilon", "wrong axis")]
    planted.append(Fault(name="swapped", pair="reorder", side="slice"))
    monkeypatch.setattr("samebits.audit.faults.fault.all_faults", lambda root: planted)

    def check(checks: object, fault: Fault) -> FaultRow:
        caught = fault.name != "wrong axis"
        return FaultRow.of(fault, caught=caught, honest=True, said="data2: different", results=4, failed=2)

    monkeypatch.setattr("samebits.audit.faults.plant.FaultChecks.check", check)
    file = tmp_path / "faults.json"
    ended = samebits("audit", "faults", "--json", file)
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "  1/3  caught  norm/fast: no epsilon",
        "         2 of 4 results fail; data2: different",
        "  2/3  MISSED  norm/fast: wrong axis",
        "         2 of 4 results fail; data2: different",
        "  3/3  caught  reorder/slice: swapped",
        "         2 of 4 results fail; data2: different",
        "FAILED  norm/fast: 1 of 2 planted faults: not caught",
        "  likely    the check does not see this class of difference here: a case, a mesh or a direction is missing; "
        "expected different (rounding)",
        "  where     wrong axis",
        "  example   wrong axis: data2: different",
        "  next      samebits audit faults norm --fault 'wrong axis'",
        "",
        "2 of 3 planted faults are caught, with the honest implementation passing beside each",
        "next: samebits audit faults norm --fault 'wrong axis'",
    ]
    assert [row["caught"] for row in json.loads(file.read_text())["results"]] == [True, False, True]
    assert samebits("audit", "faults", "reo*").code == 0
    parts = [samebits("audit", "faults", "--verbose", "--shard", part) for part in ("1/2", "2/2")]
    assert [(part.code, part.out.count("norm/fast"), part.out.count("reorder/slice")) for part in parts] == [
        (1, 3, 0),
        (0, 0, 1),
    ]
    nothing = samebits("audit", "faults", "--shard", "3/3")
    message = "samebits: --shard 3/3: nothing is left for this part; ask for fewer parts"
    assert (nothing.code, nothing.lines) == (2, [message])
    ended = samebits("audit", "faults", "rope")
    assert (ended.code, ended.lines) == (2, ["samebits: no fault is planted in 'rope'; expected one of norm, reorder"])
