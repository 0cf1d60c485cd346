"""A function in a fork: what it returns and raises, and how it ends without having returned."""

import time

from tests.support.child import value_of

PROGRAM = """
import os, sys, time
from samebits.kernel_gate.processes import forked
def work():
    {body}
ended = forked(work, {seconds})
print((ended.value, ended.trouble))
"""


def ended(body: str, seconds: float = 20) -> str:
    return value_of(PROGRAM.format(body=body, seconds=seconds))


def test_values_come_back_and_what_is_printed_does_not() -> None:
    assert ended("print('out'); os.write(2, b'err'); return [1, 'a']; ") == "([1, 'a'], '')"


def test_every_end_without_a_value_is_said() -> None:
    assert "raised ZeroDivisionError" in ended("1 / 0")
    assert "SystemExit" in ended("sys.exit(3)")
    assert "'ended the process with exit code 4'" in ended("os._exit(4)")
    assert "'ended the process by signal 9'" in ended("os.kill(os.getpid(), 9)")
    assert "'did not return within 1 seconds'" in ended("time.sleep(60)", 1)


def test_what_was_yielded_before_the_end_is_not_lost() -> None:
    assert ended("yield 1; yield 2") == "(2, '')"
    assert ended("yield 1; time.sleep(60)", 1) == "(1, 'did not return within 1 seconds')"
    assert ended("yield 1; 1 / 0").startswith("(1, 'raised ZeroDivisionError")
    assert ended("yield 1; os._exit(4)") == "(1, 'ended the process with exit code 4')"


def test_what_a_child_starts_ends_with_it() -> None:
    begin = time.monotonic()
    assert "'did not return" in ended("os.system('sleep 30; true')", 1)
    assert time.monotonic() - begin < 25


def test_an_allocation_beyond_all_memory_is_an_error_there() -> None:
    assert "MemoryError" in ended("return len(bytearray(1 << 46))")
