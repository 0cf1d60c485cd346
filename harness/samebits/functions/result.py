"""What a comparison of two functions, or of a declared pair, gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samebits.errors import CouldNotRun
from samebits.functions.other_inputs import warn_of_other_inputs
from samebits.functions.passed import REPORTING
from samebits.report.failure import point_block
from samebits.report.html.notebook import notebook_table  # by which each record shows itself too
from samebits.report.leaves import leaf_rows, text
from samebits.schema.assumption import Assumption, breakable
from samebits.schema.proof import ProofResult
from samebits.schema.result import Problem, Result, Verdict

_GRAVEST: tuple[Verdict, ...] = (
    "different",
    "unstable",
    "error",
    "skipped",
    "rounding",
    "bitwise",
    "refused",
    "proved",
)
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
    leaves: tuple[Result | ProofResult, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole: the gravest of all leaves, such as `rounding` where any leaf is only rounding."""
        verdicts = {leaf.verdict for leaf in self._counted()}
        return next((verdict for verdict in _GRAVEST if verdict in verdicts), "error")

    @property
    def ok(self) -> bool:
        """Whether something was compared, and every leaf reaches what was required."""
        return bool(self.leaves) and not self.problems and all(leaf.ok for leaf in self._counted())

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the leaves that hold assume, and other values could break: each with how it could be false."""
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
        failed = [leaf for leaf in self._counted() if not leaf.ok]
        if any(leaf.verdict not in ("error", "skipped") for leaf in failed):
            raise AssertionError(self.failure())
        if not self.ok:
            raise CouldNotRun(self.failure())

    def failure(self) -> str:
        """The failing leaves with their witnesses, as text."""
        failed = [leaf for leaf in self._counted() if not leaf.ok]
        lines = [f"{self._title()}: {len(failed)} of {len(self.leaves)} leaves do not hold"]
        lines += [problem.message for problem in self.problems]
        for point in _by_point(failed):
            executed = [leaf for leaf in point if isinstance(leaf, Result)]
            lines += point_block(executed) if executed else [text("", leaf_rows(point, self.reference)).strip()]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _counted(self) -> tuple[Result | ProofResult, ...]:
        """The leaves less those of a reference that cannot run on the mesh, which leaves its variants as they are."""
        counted = (leaf for leaf in self.leaves if leaf.verdict != "skipped" or leaf.variant != self.reference)
        return tuple(counted) or self.leaves

    def _title(self) -> str:
        return f"{self.name}: {self.verdict}"

    def __repr__(self) -> str:
        rows = leaf_rows(self.leaves, self.reference)
        lines = [text(f"{self._title()} ({self.seconds:.2g} s)", rows)]
        lines += [f"note: {note}" for note in (*(problem.message for problem in self.problems), *self.notes)]
        lines += [f"assumes: {taken}" for taken in self.assumptions]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = leaf_rows(self.leaves, self.reference)
        notes = (*(problem.message for problem in self.problems), *self.notes)
        notes += tuple(f"assumes: {taken}" for taken in self.assumptions)
        return notebook_table(self._title(), rows, notes, [] if self.ok else [self.failure()])


def _by_point(leaves: Sequence[Any]) -> list[list[Any]]:
    """Leaves of one point together, in order."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for leaf in leaves:
        names = ("variant", "case", "dtype", "mesh", "mode", "direction")
        groups.setdefault(tuple(getattr(leaf, name) for name in names), []).append(leaf)
    return list(groups.values())
