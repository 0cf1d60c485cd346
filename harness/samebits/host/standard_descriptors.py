"""Descriptors 0 to 2, which the user's code may close or lead elsewhere: compared by the file, and put back.

`sys.stdout` and `sys.stderr` remain the same objects then, and what samebits writes to them would be lost, or would end
the run with an error.
"""

from __future__ import annotations

import contextlib
import os
import sys

from samebits.host.stderr_capture import led_to, outside_descriptor

_File = tuple[int, int, int]
"""What tells one open file from another: its file system, its number there, and the device that it stands for."""


class StandardDescriptors:
    """Where descriptors 0 to 2 lead, with a duplicate of each, so that they can be put back; closed with the object.

    Another number of the same file is not a change, such as after `os.dup2(1, 2)` where both lead to the terminal.
    """

    def __init__(self) -> None:
        files: list[_File | None] = []
        duplicates: list[int | None] = []
        for number in range(3):
            with outside_descriptor(number) as descriptor:
                files.append(_file(descriptor))
                duplicates.append(_duplicate(descriptor))
        self._files, self._duplicates = tuple(files), tuple(duplicates)

    def leads_as(self, before: StandardDescriptors) -> bool:
        """Whether each descriptor that was open before leads to the same file."""
        return not self.changed_since(before)

    def put_back(self) -> None:
        """Lead what has changed to where it led; not where the user's code closed our duplicate too."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # what was printed meanwhile belongs where it led then
                stream.flush()
        for number in StandardDescriptors().changed_since(self):
            duplicate = self._duplicates[number]
            if duplicate is not None and _file(duplicate) == self._files[number]:
                with contextlib.suppress(OSError):
                    led_to(number, duplicate)

    def changed_since(self, before: StandardDescriptors) -> list[int]:
        """Return the descriptors that lead elsewhere than before."""
        return [number for number, file in enumerate(before._files) if file is not None and self._files[number] != file]

    def __del__(self) -> None:
        for duplicate, file in zip(self._duplicates, self._files, strict=True):
            # The user's code may have closed it, and another file may have its number by now.
            if duplicate is not None and _file(duplicate) == file:
                with contextlib.suppress(OSError):
                    os.close(duplicate)


def _file(descriptor: int) -> _File | None:
    """The file that a descriptor leads to; None where it is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:  # it is closed
        return None
    return status.st_dev, status.st_ino, status.st_rdev


def _duplicate(descriptor: int) -> int | None:
    """Another descriptor of the same file; None where this process may open no more."""
    try:
        return os.dup(descriptor)
    except OSError:  # no more may be opened
        return None
