"""Of what a process wrote before it ended, the reason and the user's line are found, and the stacks are not shown."""

import pytest

from samebits.engine.work import last_words, without_stacks

STACK = b"""Fatal Python error: Aborted

Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3.11/site-packages/jax/_src/pjit.py", line 3 in call
  File "/opt/me/fast.py", line 12 in fused
  File "/opt/me/train.py", line 40 in step

Extension modules: numpy, jaxlib (total: 2)
"""


def test_the_innermost_line_of_the_user_is_named() -> None:
    assert last_words(STACK) == "it was at /opt/me/fast.py:12 in fused"


def test_a_failed_check_of_xla_is_quoted() -> None:
    text = b"loading\nF0000 00:00:17 all_reduce.cc:12] Check failed: a == b (1 vs. 2)\n" + STACK
    assert last_words(text).startswith("F0000 00:00:17 all_reduce.cc:12] Check failed: a == b (1 vs. 2); it was at ")


@pytest.mark.parametrize("head", [b"Fatal Python error: ", b"Current thread 0x1", b"Thread 0x1"])
def test_stacks_are_not_shown(head: bytes) -> None:
    assert without_stacks(b"step 1\n" + head + b"rest\n") == b"step 1\n"
    assert without_stacks(b"a Thread 0x1 in a line\n") == b"a Thread 0x1 in a line\n"


def test_a_silent_end_has_no_words() -> None:
    assert last_words(b"") == "" and last_words(b"step 1\nstep 2\n") == ""
