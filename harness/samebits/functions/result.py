"""What a comparison of two functions, or of a declared pair, gave; it warns where they are seen to differ elsewhere."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import CouldNotRun
from samebits.functions.passed import REPORTING
from samebits.schema.assumption import Assumption
from samebits.schema.finding import Finding, Place, breakable
from samebits.schema.result import Problem, Verdict

_GRAVEST: tuple[Verdict, ...]
_GRAVEST = ("different", "unstable", "error", "skipped", "rounding", "bitwise", "refused", "proved")
"""The verdicts, the one that speaks for the whole first."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Comparing:
    """The verdicts on two functions or on a pair, leaf by leaf; in a notebook it shows itself as a table.

    Args:
        name: of the comparison.
        reference: the name of the reference.
        leaves: one record per output leaf and per gradient, as in the JSON document.
        problems: what is wrong with the declaration of a pair; none of two functions.
        notes: what a reader should know.
        seconds: from the call to the verdicts.
    """

    name: str
    reference: str
    leaves: tuple[Finding, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the whole: the gravest of all leaves, such as `rounding` where one is only rounding."""
        verdicts = {leaf.ruling.verdict for leaf in self._counted()}
        return next((verdict for verdict in _GRAVEST if verdict in verdicts), "error")

    @property
    def ok(self) -> bool:
        """Tell whether something was compared, and every leaf reaches what was required."""
        return bool(self.leaves) and not self.problems and all(leaf.ruling.ok for leaf in self._counted())

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return what the leaves that hold assume, and other values could break: each with how it could be false."""
        return breakable(self.leaves)

    def noted(self) -> Comparing:
        """Note itself down for whoever reports on this process; warn where it holds, and not at other inputs."""
        REPORTING.add(self.name, self.assumptions if self.ok else ())
        if self.ok:
            warn_of_other_inputs(self.name, self.leaves)
        return self

    def raise_for_status(self) -> None:
        """Do nothing where every leaf reaches what is required.

        Raises:
            AssertionError: a leaf differs, or is below what is accepted; the message has witnesses and a replay.
            CouldNotRun: nothing differs, but some leaf could not be decided, or a declaration has a problem.
        """
        __tracebackhide__ = True
        failed = [leaf for leaf in self._counted() if not leaf.ruling.ok]
        if any(leaf.ruling.verdict not in ("error", "skipped") for leaf in failed):
            raise AssertionError(self.failure())
        if not self.ok:
            raise CouldNotRun(self.failure())

    def failure(self) -> str:
        """Return the failing leaves with their witnesses, as text."""
        from samebits.report.failure import leaf_rows, point_block, text

        failed = [leaf for leaf in self._counted() if not leaf.ruling.ok]
        lines = [f"{self._title()}: {len(failed)} of {len(self.leaves)} leaves do not hold"]
        lines += [problem.message for problem in self.problems]
        for point in _by_point(failed):
            executed = [leaf for leaf in point if leaf.tool == "check"]
            lines += point_block(executed) if executed else [text("", leaf_rows(point, self.reference)).strip()]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _counted(self) -> tuple[Finding, ...]:
        """Leave out a reference that cannot run on the mesh, which leaves its variants as they are."""
        counted = (
            leaf for leaf in self.leaves if leaf.ruling.verdict != "skipped" or leaf.place.variant != self.reference
        )
        return tuple(counted) or self.leaves

    def _title(self) -> str:
        return f"{self.name}: {self.verdict}"

    def __repr__(self) -> str:
        from samebits.report.failure import leaf_rows, text

        rows = leaf_rows(self.leaves, self.reference)
        lines = [text(f"{self._title()} ({self.seconds:.2g} s)", rows)]
        lines += [f"note: {note}" for note in (*(problem.message for problem in self.problems), *self.notes)]
        lines += [f"assumes: {taken}" for taken in self.assumptions]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from samebits.report.failure import leaf_rows
        from samebits.report.html.notebook import notebook_table

        rows = leaf_rows(self.leaves, self.reference)
        notes = (*(problem.message for problem in self.problems), *self.notes)
        notes += tuple(f"assumes: {taken}" for taken in self.assumptions)
        return notebook_table(self._title(), rows, notes, [] if self.ok else [self.failure()])


def _by_point(leaves: Sequence[Finding]) -> list[list[Finding]]:
    """Group the leaves of one point, in order."""
    groups: dict[Place, list[Finding]] = {}
    for leaf in leaves:
        groups.setdefault(leaf.place.whole, []).append(leaf)
    return list(groups.values())


_OWN_GRADIENT = "but not its own gradient"
_PACKAGE = str(Path(__file__).resolve().parent.parent)


class OtherInputsWarning(UserWarning):
    """Two functions are the same at the inputs tried, and differ at others, or in second derivatives."""


def warn_of_other_inputs(name: str, leaves: Sequence[Finding]) -> None:
    """Warn once, at the caller's line, where leaves that hold differ at other inputs."""
    notes = [note for leaf in leaves if leaf.ruling.ok for note in _notes(leaf)]
    if notes:
        from samebits.report.words import plural

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


def _notes(leaf: Finding) -> Iterator[str]:
    shown = [each for each in leaf.proof.assumptions if each.counterexample is not None]
    if shown:
        where = _OWN_GRADIENT if shown[0].word == "derivatives" else "but not at others"
        what = f"{leaf.place.direction} of '{leaf.place.leaf}'"
        yield f"{what} is the same at the inputs tried, {where}: {shown[0].counterexample}"


def _frames_inside() -> int:
    """Return how many frames from the caller of this on are of this package."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and str(Path(frame.f_back.f_code.co_filename).resolve()).startswith(_PACKAGE):
        frame, count = frame.f_back, count + 1
    return count
