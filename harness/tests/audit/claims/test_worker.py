"""Worker processes that run several commands: what they return, and what happens when a command ends the process."""

import subprocess
import sys
import threading
import time

import pytest

from samebits.audit.claims.jobs import CommandWorker
from samebits.errors import CouldNotRun

ECHO = """
import json, os, signal, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    open(asked["out"], "w").write(f"{os.getpid()}\\n")
    if "die" in asked["words"]:
        os.kill(os.getpid(), signal.SIGABRT)
    if "wait" in asked["words"]:
        time.sleep(600)
    print(json.dumps({"code": 5}), flush=True)
"""


@pytest.fixture
def never() -> threading.Event:
    return threading.Event()


@pytest.mark.slow
def test_commands_share_a_process_with_their_own_words_and_code(never: threading.Event) -> None:
    worker = CommandWorker()
    try:
        version = worker.run(("--version",), never)
        wrong = worker.run(("check", "no_such_pair_anywhere"), never)
        missing = worker.run(("chekc",), never)
        again = worker.run(("--version",), never)
    finally:
        worker.close()
    assert (version.code, version.err) == (0, "") and version.out.startswith("samebits, version ")
    assert wrong.code == 2 and "pair 'no_such_pair_anywhere' is unknown" in wrong.err and wrong.out == ""
    assert missing.code == 2 and "No such command 'chekc'" in missing.err
    assert again == version


def test_a_command_that_ends_the_process_is_reported(never: threading.Event) -> None:
    worker = CommandWorker((sys.executable, "-c", ECHO))
    try:
        first, second = worker.run(("a",), never), worker.run(("b",), never)
        dead, after = worker.run(("die",), never), worker.run(("c",), never)
    finally:
        worker.close()
    assert first.code == second.code == after.code == 5 and first.out == second.out
    assert dead.code == -6 and dead.out == first.out and after.out != first.out


def test_a_process_that_left_between_two_commands_is_told(never: threading.Event) -> None:
    worker = CommandWorker((sys.executable, "-c", "pass"))
    try:
        assert worker.run(("a",), never).code == 0
    finally:
        worker.close()


def test_a_command_is_stopped_with_its_process(never: threading.Event) -> None:
    worker, begin = CommandWorker((sys.executable, "-c", ECHO)), time.monotonic()
    threading.Timer(0.3, never.set).start()
    with pytest.raises(CouldNotRun, match="stopped"):
        worker.run(("wait",), never)
    assert time.monotonic() - begin < 60


def test_a_process_that_cannot_be_started(never: threading.Event) -> None:
    with pytest.raises(CouldNotRun, match="'/no/such/python' cannot be started: No such file"):
        CommandWorker(("/no/such/python",)).run(("a",), never)


@pytest.mark.parametrize("line", ["check rms_norm", "[]", '{"words": 3, "out": "o", "err": "e"}'])
def test_a_person_who_types_into_a_worker_is_told(line: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "samebits", "audit", "worker"], input=line, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr.count("\n") == 1
    assert f"got '{line}' on its input, expected a command from `samebits audit claims`" in ended.stderr
