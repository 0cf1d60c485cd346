"""The outcome of a property: one verdict of all its readings, as text, as an error, and as a picture in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from samebits.errors import CouldNotRun
from samebits.properties.reading import Reading, Verdict
from samebits.report.html.read_matrix import matrix_svg
from samebits.schema.picture import MAY, MUST_NOT, NOT_READ, ReadMatrix

WIDEST = 128
"""Rows and columns of the picture of a dependence matrix."""


class Conclusion:
    """What a question about one function came to."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Tell whether it holds."""
        raise NotImplementedError

    def text(self) -> str:
        """Return the answer as lines."""
        raise NotImplementedError

    def raise_for_status(self) -> None:
        """Do nothing where it holds.

        Raises:
            AssertionError: it does not; the message is `text()`.
            CouldNotRun: nothing shows that it does not, but it could not be decided.
        """
        __tracebackhide__ = True
        if not self.ok:
            raise AssertionError(self.text())

    def __repr__(self) -> str:
        return self.text()


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PropertyOutcome(Conclusion):
    """What was found out about one property of one function.

    Args:
        name: of the property, such as `causal`.
        function: its name.
        readings: one for each direction.
        notes: what a reader should know.
    """

    name: str
    function: str
    readings: tuple[Reading, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the gravest verdict of all readings."""
        verdicts = {reading.verdict for reading in self.readings}
        return (
            "refuted" if "refuted" in verdicts else "undecided" if "undecided" in verdicts or not verdicts else "proved"
        )

    @property
    def ok(self) -> bool:
        """Tell whether the property is proved."""
        return bool(self.verdict == "proved")

    def raise_for_status(self) -> None:
        """Do nothing where the property is proved; as `Conclusion.raise_for_status`."""
        __tracebackhide__ = True
        if self.verdict == "undecided":
            raise CouldNotRun(self.text())
        Conclusion.raise_for_status(self)

    def text(self) -> str:
        """Return the verdict, and that of each reading, as lines."""
        seconds = sum(reading.seconds for reading in self.readings)
        lines = [f"{self.name}({self.function}): {self.verdict} ({seconds:.2g} s)"]
        lines += [line for reading in self.readings for line in _lines(reading)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        pictures = "".join(picture(reading) for reading in self.readings)
        return f"<pre>{html.escape(repr(self))}</pre>{pictures}"


def _lines(reading: Reading) -> Iterator[str]:
    yield f"  {reading.direction}: {reading.verdict}: {reading.claim}"
    if reading.witness:
        yield f"    {reading.witness}"
    if reading.reason:
        yield f"    {reading.reason}"
    if reading.place:
        yield f"    it gets in by {reading.place}"
    for condition in reading.conditions:
        yield f"    where {condition}"


def read_matrix(reading: Reading) -> ReadMatrix | None:
    """Return what is read as a record of a document; None where it is not known, or too large."""
    reads, forbidden = reading.reads, reading.forbidden
    if reads is None or forbidden is None or not reads.size or max(reads.shape) > WIDEST:
        return None
    kinds = np.where(reads, np.where(forbidden, MUST_NOT, MAY), NOT_READ)
    lines = (" ".join(f"{kind}{len([*run])}" for kind, run in groupby(row)) for row in kinds.tolist())
    return ReadMatrix(cells="\n".join(lines), place=reading.place or None)


def picture(reading: Reading) -> str:
    """Return the matrix of what is read as an SVG: rows outputs, columns inputs; what must not be read is red."""
    matrix = read_matrix(reading)
    return "" if matrix is None else matrix_svg(matrix, f"what each output reads, {reading.direction}")
