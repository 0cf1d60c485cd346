"""Our messages go to the stderr of the command, wherever the user's code leads descriptor 2 meanwhile."""

import pytest

from tests.support.child import run_python

KEPT = """
import io, os, sys
from samebits.cli.common import say
from samebits.engine.run_work import _forward
from samebits.host.own_output import kept_apart
with kept_apart():
    {change}
    say("a message")
    _forward(b"a worker's line\\n")
print("the report")
"""


@pytest.mark.parametrize("change", ["os.close(2)", "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)"])
def test_messages_reach_the_stderr_of_the_command(change: str) -> None:
    done = run_python("-c", KEPT.format(change=change))
    assert (done.stdout, done.stderr) == ("the report\n", "samebits: a message\na worker's line\n")


def test_messages_go_where_stderr_was_replaced() -> None:
    """A progress bar does so, to print lines above itself."""
    change = "sys.stderr = io.StringIO(); say('lost'); sys.stderr = sys.__stderr__"
    assert run_python("-c", KEPT.format(change=change)).stderr == "samebits: a message\na worker's line\n"


def test_a_stderr_without_a_reader_ends_nothing() -> None:
    change = "r, w = os.pipe(); os.close(r); os.dup2(w, 2)"
    done = run_python("-c", KEPT.format(change="pass").replace("with kept", f"{change}\nwith kept"))
    assert (done.returncode, done.stdout) == (0, "the report\n")
