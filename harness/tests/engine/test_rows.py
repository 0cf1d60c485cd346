"""What every work says: rows as JSON, remarks, troubles, and why a process ended."""

import math

import pytest

from samebits.engine.work import ProcessExit, Remark, finished, from_text, lost_words, remarks, to_text, trouble
from samebits.errors import DeclarationError
from samebits.host.isolation import note, take_notes
from samebits.schema.result import Problem


def test_rows_are_encoded_one_by_one() -> None:
    """As the journal has them."""
    event = finished("a", [Problem(pair="p", message="m", exit_code=2)], ["file"])
    assert (event.key, event.reads, len(event.rows)) == ("a", ("file",), 1)
    assert bytes(event.rows[0]) == b'{"pair":"p","message":"m","exit_code":2}'


def test_text_has_infinities_and_integer_keys() -> None:
    """Which JSON as such does not."""
    value = {1: {"a": math.inf, "b": math.nan, "c": 0.1 + 0.2}}
    read = from_text(to_text(value), dict[int, dict[str, float]])
    assert read[1]["a"] == math.inf and math.isnan(read[1]["b"]) and read[1]["c"] == 0.1 + 0.2


def test_notes_are_taken_once() -> None:
    """They are of this process, and go to the one that reports."""
    take_notes()
    list(remarks())  # those of tests that ran before, in the same process
    note("a setting was changed")
    assert list(remarks()) == [Remark(text="a setting was changed")]
    assert list(remarks()) == []


def test_an_error_of_ours_keeps_its_exit_code() -> None:
    event = trouble("p", DeclarationError("the pair is wrong"))
    assert (event.pair, event.message, event.exit_code) == ("p", "the pair is wrong", 2)


def test_a_bug_prints_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """It could not be told, and the line asks for a report."""
    try:
        raise ZeroDivisionError("planted")
    except ZeroDivisionError as error:
        event = trouble("p", error)
    assert event.exit_code == 3 and "samebits itself raised ZeroDivisionError: planted" in event.message
    assert "Traceback" in capsys.readouterr().err


def test_a_loss_is_told_with_its_stage() -> None:
    loss = ProcessExit(kind="exit", text="exit code 3", last_words="Check failed: x")
    assert lost_words(loss, "compiling") == "its process ended while compiling: exit code 3; Check failed: x"
