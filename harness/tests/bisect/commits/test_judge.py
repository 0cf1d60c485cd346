"""What the end of a check says of a commit: every exit code, every document, and processes that do not end."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from samebits.bisect.commits.command import judge_command, judge_process, read_observations, require_check
from samebits.bisect.commits.run import runs_samebits
from samebits.errors import CouldNotRun, RequestError
from samebits.host.subprocesses import ProcessResult, run_process
from tests.bisect.histories import PLACE, document


@pytest.mark.parametrize(
    ("code", "outcome", "detail"),
    [
        (0, "pass", ""),
        (1, "fail", "exit code 1: it differs"),
        (124, "fail", "exit code 124: it differs"),
        (125, "untestable", "exit code 125, skip: it differs"),
        (126, "untestable", "exit code 126, cannot be executed: it differs"),
        (127, "untestable", "exit code 127, not found: it differs"),
        (137, "untestable", "ended by SIGKILL"),
        (255, "untestable", "ended by exit code 255"),
        (-11, "untestable", "ended by SIGSEGV"),
        (-9, "untestable", "ended by SIGKILL"),
    ],
)
def test_exit_codes_of_any_command(code: int, outcome: str, detail: str) -> None:
    found = judge_process(ProcessResult(code=code, out="building\n", err="\nit differs\n\n"))
    assert (found.outcome, found.detail) == (outcome, detail)
    assert found.signature == (f"exit code {code}" if outcome == "fail" else "")


def judged(code: int, *documents: str, wanted: str | None = None, err: str = "") -> Any:
    text = documents[0] if documents else ""
    return judge_command(ProcessResult(code=code, err=err), read_observations(text) if text else None, wanted)


def test_a_passing_check_reports_the_searched_place() -> None:
    found = judged(0, document(), wanted=f"{PLACE}: different")
    assert (found.outcome, found.numbers) == ("pass", {"verdict": "proved", "elements": 20, "mismatches": 0})
    assert judged(0, document(), wanted="elsewhere: different").numbers == {}


@pytest.mark.parametrize("command", ["check", "prove"])
def test_what_an_older_samebits_wrote_says_the_same(command: str) -> None:
    older = read_observations(document(ok=False, command=command, schema="samebits/1"))
    assert older == read_observations(document(ok=False, command=command)) and older


def test_the_signature_of_a_failed_check_is_its_first_place() -> None:
    found = judged(1, document(ok=False))
    assert (found.outcome, found.signature, found.numbers["mismatches"]) == ("fail", f"{PLACE}: different", 7)


def test_the_failure_that_is_searched_counts_among_several() -> None:
    both = json.loads(document(ok=False, leaf="aux"))
    both["results"] += json.loads(document(ok=False))["results"]
    text = json.dumps(both)
    assert judged(1, text).signature == f"{PLACE.replace(', out', ', aux')}: different"
    found = judged(1, text, wanted=f"{PLACE}: different")
    assert (found.signature, found.detail) == (f"{PLACE}: different", f"{PLACE}: different (and 1 more)")


def test_a_gradient_is_another_place_than_an_output() -> None:
    found = judged(1, document(ok=False, direction="gradient", leaf="x"))
    assert found.signature == f"{PLACE.removesuffix('out')}gradient of x: different"


def test_what_does_not_repeat_is_ambiguous() -> None:
    found = judged(1, document(ok=False, verdict="unstable", reason="two runs part"))
    assert (found.outcome, found.detail) == ("ambiguous", f"{PLACE}: unstable: two runs part")


def test_a_difference_beside_an_error_is_the_failure() -> None:
    both = json.loads(document(ok=False, verdict="error", variant="slow", reason="raised ValueError: x"))
    both["results"] += json.loads(document(ok=False))["results"]
    assert judged(1, json.dumps(both)).signature == f"{PLACE}: different"


def test_a_proof_that_is_missing_is_no_failure() -> None:
    """Only one that is refuted is; where nothing is refuted, the proof does not tell."""
    both = json.loads(document(command="prove", ok=False, verdict="rounding", variant="plain"))
    both["results"] += json.loads(document(ok=False))["results"]
    assert judged(1, json.dumps(both)).signature == f"{PLACE}: different"
    found = judged(3, document(command="prove", ok=False, verdict="rounding"))
    assert (found.outcome, found.detail) == ("ambiguous", "proof alone does not decide")


@pytest.mark.parametrize("reason", ["rev: 'fast': raised ValueError: no", "rev.py does not import: SyntaxError"])
def test_what_could_not_run_is_untestable(reason: str) -> None:
    for name in ("check", "prove"):
        found = judged(3, document(command=name, ok=False, verdict="error", reason=reason))
        assert (found.outcome, found.detail) == ("untestable", reason)


@pytest.mark.parametrize(
    ("err", "detail"),
    [
        ("samebits: pair 'rev' is unknown\n", "pair 'rev' is unknown"),
        ("Usage: samebits\n\nError: No such option: --x\n", "Error: No such option: --x"),
        ("", "the request or a declaration is wrong"),
    ],
)
def test_a_wrong_request_is_untestable_and_says_why(err: str, detail: str) -> None:
    found = judged(2, err=err)
    assert (found.outcome, found.detail) == ("untestable", detail)


def test_a_check_that_crashes_is_untestable() -> None:
    assert judged(-11).outcome == "untestable"
    assert judged(3, err="Traceback\nsamebits: this is a bug\n").detail == "this is a bug"


def trained(**changes: Any) -> str:
    one = {
        "a": "reference", "b": "moe", "expected": "bitwise", "reason": "same", "verdict": "different", "first_step": 2,
        "first_leaf": "layers.0.w", "max_ulp": 9, "envelope": 3, "worst_leaf": "w", "distance": 0.5, "bound": 0.1,
        "ok": False,
    }  # fmt: skip
    return json.dumps({"command": "train", "comparisons": [{**one, **changes}], "problems": []})


def test_the_signature_of_a_training_run_is_its_step_and_leaf() -> None:
    found = judged(1, trained())
    assert found.signature == "moe against reference: different, first at step 2, layers.0.w"
    assert found.numbers["distance"] == 0.5
    assert judged(1, trained(first_step=3)).signature != found.signature
    there = judged(0, trained(ok=True, verdict="bitwise", first_step=None), wanted=found.signature)
    assert (there.outcome, there.numbers["verdict"]) == ("pass", "bitwise")


def test_steps_goldens_and_claims_have_their_own_places() -> None:
    step = {"config": "moe", "mesh": "expert8", "shard_mode": "auto", "leaf": "loss", "verdict": "different"}
    found = judged(1, json.dumps({"command": "prove model", "results": [step], "problems": []}))
    assert found.signature == "moe, mesh expert8 (auto), loss: different"
    open_ = json.dumps({"command": "prove model", "results": [{**step, "verdict": "error", "reason": "a kernel"}]})
    assert (judged(3, open_).outcome, judged(3, open_).detail) == ("ambiguous", "a kernel")
    fine = json.dumps({"command": "prove model", "results": [{**step, "verdict": "rounding"}]})
    assert judged(0, fine, wanted=found.signature).numbers == {"verdict": "rounding"}
    golden = {"name": "m/r", "status": "changed", "message": "x", "first_step": 3, "first_leaf": "loss", "ulps": 4}
    found = judged(1, json.dumps({"command": "golden check", "results": [golden]}))
    assert (found.signature, found.numbers["ulps"]) == ("golden m/r: changed, first at step 3, loss", 4)
    lost = json.dumps({"command": "golden check", "results": [{**golden, "status": "not run"}]})
    assert (judged(3, lost).outcome, judged(3, lost).detail) == ("untestable", "x")
    beside = {"pair": "rev", "variant": "fast", "case": "real", "direction": "forward", "target": "cpu:8"}
    claim = {"shows": "no gather", "ok": False, "holds": False, "got": "1 gather"}
    text = json.dumps({"command": "compile", "comparisons": [{**beside, "expectations": [claim]}], "problems": []})
    found = judged(1, text)
    assert found.signature == "rev/fast, case real, forward, cpu:8, claim 'no gather': does not hold"
    assert found.numbers["witness"] == "1 gather"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"command": "list"}', '{"command": "check"}', '{"command": "check", "results": [1]}']
)
def test_a_document_that_is_none_leaves_the_exit_code(text: str) -> None:
    assert read_observations(text) is None
    assert judged(1, text or "{").signature == "exit code 1"


def test_a_check_is_a_command_of_ours_that_takes_a_tree() -> None:
    assert require_check(("samebits", "check", "rev")) == ("check", "rev")
    assert require_check(("train", "--config", "x")) == ("train", "--config", "x")
    for words in ((), ("samebits",), ("list",), ("check", "--markdown=x"), ("train", "--list"), ("golden", "accept")):
        with pytest.raises(RequestError) as said:
            require_check(words)
        assert "\n" not in str(said.value)


def test_a_command_of_an_old_tree_is_judged_by_its_document() -> None:
    assert runs_samebits((".venv/bin/samebits", "check", "rev"))
    assert runs_samebits(("python", "-m", "samebits", "check"))
    assert not runs_samebits(("make", "check"))
    assert not runs_samebits(("samebits", "check", "--json", "x")), "the file is the user's"


def run(text: str, tmp_path: Path, timeout: float | None = None) -> ProcessResult:
    return run_process([sys.executable, "-c", text], tmp_path, os.environ, timeout)


def test_a_process_runs_in_its_folder_and_its_output_is_kept(tmp_path: Path) -> None:
    ended = run("import os, sys; print(os.getcwd()); print('bad \\udcff', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (ended.code, ended.out.strip()) == (3, str(tmp_path))
    assert ended.last.startswith("bad")


def test_a_process_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    text = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', "
        "\"import time; time.sleep(2); open('left', 'w')\"]); time.sleep(60)"
    )
    begin = time.perf_counter()
    with pytest.raises(CouldNotRun, match="took longer than 1 seconds"):
        run(text, tmp_path, 1)
    assert time.perf_counter() - begin < 2
    time.sleep(2.2)
    assert not (tmp_path / "left").exists()


def test_a_command_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match=r"^'no-such-command' cannot be started: No such file or directory$"):
        run_process(["no-such-command"], tmp_path, os.environ, None)
