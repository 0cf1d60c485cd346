"""A warning where functions are the same at the inputs tried, and seen to differ at others."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from samebits.report.words import plural
from samebits.schema.proof import ProofResult
from samebits.schema.result import Result

_OWN_GRADIENT = "but not its own gradient"
_PACKAGE = str(Path(__file__).resolve().parent.parent)


class OtherInputsWarning(UserWarning):
    """Two functions are the same at the inputs tried, and differ at others, or in second derivatives."""


def warn_of_other_inputs(name: str, leaves: Sequence[Result | ProofResult]) -> None:
    """One warning, at the caller's line, where leaves that hold differ at other inputs; nothing where none does.

    Args:
        name: of the comparison.
        leaves: its results.
    """
    notes = [note for leaf in leaves if leaf.ok for note in _notes(leaf)]
    if notes:
        more = f" (and {plural(len(notes) - 1, 'more result')})" if len(notes) > 1 else ""
        again = "Where that is used, compare the gradients of both functions as functions; otherwise "
        usual = (
            "If such inputs can occur, pass some as arguments, or declare them by values=, and the comparison fails; "
            "otherwise name the integers and masks that are all there are in exactly=, or "
        )
        warnings.warn(
            f"{name}: {notes[0]}{more}. {again if _OWN_GRADIENT in notes[0] else usual}filter "
            "samebits.OtherInputsWarning",
            OtherInputsWarning,
            stacklevel=_frames_inside() + 1,
        )


def _notes(leaf: Result | ProofResult) -> Iterator[str]:
    shown = [each for each in leaf.assumptions if each.counterexample is not None]
    if shown:
        where = _OWN_GRADIENT if shown[0].word == "derivatives" else "but not at others"
        yield f"{leaf.direction} of '{leaf.leaf}' is the same at the inputs tried, {where}: {shown[0].counterexample}"


def _frames_inside() -> int:
    """How many frames from the caller of this on are of this package."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and str(Path(frame.f_back.f_code.co_filename).resolve()).startswith(_PACKAGE):
        frame, count = frame.f_back, count + 1
    return count
