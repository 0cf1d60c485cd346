"""What a process wrote before it ended: the one line that says why, and where in the user's code it was.

A worker process has `faulthandler` write its stacks when it crashes, and when it is about to be ended for its time.
"""

from __future__ import annotations

import re

from samebits.user_errors import first_user_frame

LONGEST = 300
"""Characters of a line that are shown."""

_DUMP = re.compile(rb"^(Fatal Python error: |(?:Current thread|Thread) 0x|Extension modules: )", re.MULTILINE)
_WHY = re.compile(r"Check failed|terminate called|^F\d{4} |rror|what\(\):")


def without_stacks(text: bytes) -> bytes:
    """Return what the user's code wrote: the text before the first stack."""
    match = _DUMP.search(text)
    return text if match is None else text[: match.start()]


def last_words(text: bytes) -> str:
    """Explain why a process ended, as it said so itself, and where it was; empty where it said nothing."""
    said = without_stacks(text)
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    why = [line for line in lines[-20:] if _WHY.search(line)][-1:]
    frame = first_user_frame(text[len(said) :].decode("utf-8", "replace"))
    return "; ".join([*(line[:LONGEST] for line in why), *([f"it was at {frame}"] if frame else [])])
