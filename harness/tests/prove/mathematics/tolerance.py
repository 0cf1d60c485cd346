"""Which planted faults the usual tolerance finds: `python -m tests.prove.mathematics.tolerance` prints the table.

Each fault is run in bfloat16 beside its reference, as a test would: the outputs and the gradients of a random
cotangent, compared by `np.allclose`. A fault is missed where no leaf of no case is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from samebits.host import environment
from samebits.schema.case import Case
from tests.prove.mathematics.specimen import Leaves, Specimen, evaluate

RTOL = ATOL = 2e-2
"""A tolerance often used for bfloat16, whose spacing is 2^-8 = 4e-3 of a value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """How one function fares under the tolerance.

    Args:
        specimen, name: the pair's name and the function's.
        honest: whether it is a rewrite rather than a fault.
        forward, gradient: the largest difference, in units of what the tolerance allows there.
        missed: whether `np.allclose` accepts every leaf of every case.
    """

    specimen: str
    name: str
    honest: bool
    forward: float
    gradient: float
    missed: bool


def measure(specimen: Specimen, cases: tuple[Case, ...] | None = None) -> list[Seen]:
    """What the tolerance says of every rewrite and fault of a specimen, over all its cases or those given."""
    functions = {**specimen.rewrites, **specimen.faults}
    found = []
    for case in cases or specimen.pair.cases:
        leaves = evaluate(specimen.pair, {"the reference": specimen.reference, **functions}, case, "bfloat16")
        found.append((leaves.pop("the reference"), leaves))
    return [
        Seen(
            specimen=specimen.pair.name.removeprefix("mathematics_"),
            name=name,
            honest=name in specimen.rewrites,
            forward=max(_share(of[name], reference, "out") for reference, of in found),
            gradient=max(_share(of[name], reference, "to ") for reference, of in found),
            missed=all(_accepted(of[name], reference) for reference, of in found),
        )
        for name in functions
    ]


def _accepted(found: Leaves, reference: Leaves) -> bool:
    return all(np.allclose(found[path], leaf, rtol=RTOL, atol=ATOL) for path, leaf in reference.items())


def _share(found: Leaves, reference: Leaves, start: str) -> float:
    """The largest difference over what is allowed, among the leaves whose path starts so; 0 without any."""
    shares = [
        np.max(np.abs(found[path] - leaf) / (ATOL + RTOL * np.abs(leaf)))
        for path, leaf in reference.items()
        if path.startswith(start)
    ]
    return float(max(shares, default=0.0))


def table(measured: Iterable[Seen]) -> Iterator[str]:
    """The faults line by line, and a last line with the counts."""
    rows = list(measured)
    yield f"{'specimen':<12} {'fault':<36} {'forward':>9} {'gradient':>9}"
    for row in (row for row in rows if not row.honest):
        said = "missed" if row.missed else "seen"
        yield f"{row.specimen:<12} {row.name:<36} {row.forward:9.3f} {row.gradient:9.3f}  {said}"
    faults, rewrites = [row for row in rows if not row.honest], [row for row in rows if row.honest]
    yield (
        f"{sum(row.missed for row in faults)} of {len(faults)} faults are missed by rtol={RTOL}, atol={ATOL} in "
        f"bfloat16 ({sum(row.forward <= 1 for row in faults)} where only the forward is compared); "
        f"{sum(not row.missed for row in rewrites)} of {len(rewrites)} honest rewrites are refused"
    )


def main() -> None:
    """Measure every specimen and print the table; a difference of 1 is what the tolerance just allows."""
    environment.prepare()
    from tests.prove.mathematics import ALL

    for line in table(seen for specimen in ALL for seen in measure(specimen)):
        print(line)


if __name__ == "__main__":
    main()
