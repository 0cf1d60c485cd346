"""Descriptors 0 to 2 lead where they led before the user's code closed them, or led them elsewhere."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from samebits.host.isolation import take_notes, undone
from samebits.host.process_state import StandardDescriptors
from samebits.host.stderr_capture import quiet


def _places() -> list[tuple[int, int]]:
    return [(status.st_dev, status.st_ino) for status in map(os.fstat, range(3))]


def _close(log: Path) -> None:
    for descriptor in (0, 1, 2):
        os.close(descriptor)


def _lead_to(log: Path) -> None:
    file = os.open(log, os.O_CREAT | os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


@pytest.mark.parametrize("inside", [False, True], ids=["", "quiet"])
@pytest.mark.parametrize("change", [_close, _lead_to])
def test_they_are_put_back_and_told(
    change: Callable[[Path], None], inside: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = len(os.listdir("/proc/self/fd"))
    before = _places()
    if inside:
        with quiet() as written:
            with undone("somebody's file", importing=True):
                change(tmp_path / "log")
            os.write(2, b"from a library\n")
            assert written() == "from a library"
    else:
        with undone("somebody's file", importing=True):
            change(tmp_path / "log")
    assert _places() == before
    os.write(1, b"still there\n")
    os.write(2, b"and here\n")
    assert capfd.readouterr() == ("still there\n", "and here\n")
    (told,) = take_notes()
    assert told.startswith("somebody's file changed where file descriptors 0 to 2 lead. It was undone")
    assert len(os.listdir("/proc/self/fd")) == opened


def test_a_library_whose_output_is_captured_is_no_change() -> None:
    before = StandardDescriptors()
    with quiet():
        assert StandardDescriptors().leads_as(before)
    assert StandardDescriptors().leads_as(before)


def test_duplicates_that_were_closed_are_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`os.closerange(3, ...)`, as daemons do, closes ours; the numbers then belong to other files."""
    before = StandardDescriptors()
    for duplicate in before._duplicates:
        assert duplicate is not None
        os.close(duplicate)
    theirs = [os.open(tmp_path / "theirs", os.O_CREAT | os.O_WRONLY) for _ in before._duplicates]
    before.put_back()
    del before
    for descriptor in theirs:
        os.fstat(descriptor)
        os.close(descriptor)
