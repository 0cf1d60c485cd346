"""File descriptor 2 while a C++ library writes to it: hidden from the terminal, returned, and always restored."""

import os
import threading

import pytest

from samebits.host.stderr_capture import LINES, quiet
from tests.support.child import run_python


def said_on_stderr(code: str) -> str:
    """What a process of its own writes to its stderr."""
    lines = f"import os, sys\nfrom samebits.host.stderr_capture import quiet\n{code}"
    done = run_python("-W", "always::ResourceWarning", "-c", lines)
    assert done.returncode == 0, done.stderr
    return done.stderr


def place() -> tuple[int, int]:
    """Where file descriptor 2 leads."""
    found = os.fstat(2)
    return found.st_dev, found.st_ino


def test_only_the_output_of_libraries_is_captured() -> None:
    code = """
os.write(2, b"before\\n")
with quiet() as written:
    os.write(2, b"from the library\\n")
    print("from Python", file=sys.stderr)
    print(repr(written()), file=sys.stdout)
    assert written() == "from the library", written()
print("Python after", file=sys.stderr)
os.write(2, b"after\\n")
"""
    assert said_on_stderr(code) == "before\nfrom Python\nPython after\nafter\n"


def test_a_child_process_is_quiet_too() -> None:
    code = """
with quiet() as written:
    os.system("echo from a child >&2")
    assert written() == "from a child"
"""
    assert said_on_stderr(code) == ""


def test_a_replaced_stderr_is_left_alone() -> None:
    code = """
import io
sys.stderr = kept = io.StringIO()
with quiet() as written:
    assert sys.stderr is kept
    print("to the replacement", file=sys.stderr)
    os.write(2, b"lost\\n")
assert sys.stderr is kept and kept.getvalue() == "to the replacement\\n"
"""
    assert said_on_stderr(code) == ""


REPLACED = """
import contextlib, io, threading

begun, over = threading.Event(), threading.Event()
descriptors = os.listdir("/dev/fd")

def compile():
    with quiet():
        begun.set()
        over.wait()

thread = threading.Thread(target=compile)
thread.start()
begun.wait()
with contextlib.redirect_stderr(io.StringIO()) as kept, open("/dev/null", "w") as elsewhere:
    os.dup2(elsewhere.fileno(), 2)
    over.set()
    thread.join()
    assert sys.stderr is kept
    print("to the replacement", file=sys.stderr)
    os.write(2, b"elsewhere\\n")
assert kept.getvalue() == "to the replacement\\n", kept.getvalue()
print("after", file=sys.stderr)
sys.stderr = sys.__stderr__
assert os.listdir("/dev/fd") == descriptors
"""


def test_what_another_thread_replaces_meanwhile_stays() -> None:
    """A thread may still compile when a command ends with an error; the next one's lines are not lost to it."""
    assert said_on_stderr(REPLACED) == "after\n"


def test_a_descriptor_that_is_closed_inside_leads_back() -> None:
    assert said_on_stderr('with quiet():\n    os.close(2)\nos.write(2, b"after\\n")') == "after\n"


def test_an_exception_is_seen_and_leaves_all_as_it_was() -> None:
    code = """
before = sys.stderr
for _ in range(3):
    try:
        with quiet():
            os.write(2, b"lost\\n")
            raise ValueError("mine")
    except ValueError as error:
        print(error, file=sys.stderr)
assert sys.stderr is before
os.write(2, b"after\\n")
"""
    assert said_on_stderr(code) == "mine\nmine\nmine\nafter\n"


def test_no_file_descriptor_is_leaked() -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    before, where = opened(), place()
    for _ in range(5):
        with quiet():
            assert place() != where
    assert (opened(), place()) == (before, where)


def test_the_last_lines_are_handed_out() -> None:
    with quiet() as written:
        assert written() == ""
        for number in range(3 * LINES):
            os.write(2, b"line %d\n" % number)
        assert written().splitlines() == [f"line {number}" for number in range(2 * LINES, 3 * LINES)]
        os.write(2, b"and the next, \xff\n")
        assert written().splitlines()[-2:] == [f"line {3 * LINES - 1}", "and the next, \ufffd"]
        os.write(2, b"x" * (1 << 17) + b"\nlast\n")
        assert written().endswith("x\nlast")


def test_nothing_is_handed_out_afterwards() -> None:
    with quiet() as written:
        os.write(2, b"line\n")
    assert written() == ""


def test_one_inside_another() -> None:
    where = place()
    with quiet() as outer:
        os.write(2, b"one\n")
        with quiet() as inner:
            os.write(2, b"two\n")
            assert inner() == outer() == "one\ntwo"
        assert place() != where
        os.write(2, b"three\n")
        assert outer() == "one\ntwo\nthree"
    assert place() == where


def test_two_threads_overlap() -> None:
    """The first leaves while the second is inside: the second still writes to the file."""
    where = place()
    second_is_in, first_is_out = threading.Event(), threading.Event()
    seen: list[str] = []

    def second() -> None:
        with quiet() as written:
            second_is_in.set()
            assert first_is_out.wait(30)
            os.write(2, b"from the second\n")
            seen.append(written())

    thread = threading.Thread(target=second)
    with quiet():
        thread.start()
        assert second_is_in.wait(30)
        os.write(2, b"from the first\n")
    assert place() != where
    first_is_out.set()
    thread.join()
    assert seen == ["from the first\nfrom the second"]
    assert place() == where


def test_many_threads_leave_it_as_it_was() -> None:
    where, start = place(), threading.Barrier(8)

    def often() -> None:
        start.wait()
        for _ in range(50):
            with quiet() as written:
                os.write(2, b"line\n")
                assert "line" in written()

    threads = [threading.Thread(target=often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place() == where
    with quiet() as written:  # nothing of before is left
        assert written() == ""


def test_a_failure_in_the_body_is_not_swallowed() -> None:
    where = place()
    with pytest.raises(KeyError, match="mine"), quiet():
        raise KeyError("mine")
    assert place() == where


WHILE_TRACED = """
import sys, threading
from samebits.host.isolation import take_notes, undone
from samebits.host.stderr_capture import quiet, standard_error

outside, begun, over = sys.stderr, threading.Event(), threading.Event()

def compile():
    with quiet():
        begun.set()
        over.wait()

thread = threading.Thread(target=compile)
with undone("tracing"):
    thread.start()
    begun.wait()
    assert sys.stderr is not outside and standard_error() is outside
assert sys.stderr is not outside, "the thread that compiles still has it"
over.set()
thread.join()
assert sys.stderr is outside
assert take_notes() == []
with undone("tracing"):
    sys.stderr = open("/dev/null", "w")
assert sys.stderr is outside
print(take_notes())
"""


def test_a_capture_in_another_thread_is_no_change_of_the_users() -> None:
    """Programs compile in threads while the user's code is traced; what that code changes itself is still seen."""
    done = run_python("-c", WHILE_TRACED)
    assert done.returncode == 0, done.stderr
    assert "tracing changed sys.stdin, sys.stdout or sys.stderr" in done.stdout
