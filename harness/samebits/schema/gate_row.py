"""What a gate finds of a kernel: a row for each kind of refutation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from samebits.schema.finding import Finding

Kind = Literal[
    "form",
    "independent",
    "formula",
    "precision",
    "gradient",
    "structure",
    "memory",
    "reference",
    "kept",
    "aware",
    "tampering",
]
"""What a kernel is refuted for:

`form`: another shape or dtype, or it raises. `independent`: it ignores inputs. `formula`: it computes something else.
`precision`: it loses more than rounding explains. `gradient`: its gradients differ. `structure`: it is right at the
given sizes or routing alone. `memory`: it reads what was not written, or steps race. `reference`: it calls the
reference. `kept`: calls give what earlier ones did. `aware`: it looks at where it runs. `tampering`: it changes its
arguments or its process.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

GateState = Literal["holds", "limited", "refuted", "undecided", "not tried"]
"""`limited`: it holds for what was asked for, and not beyond."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRow:
    """What was found about one kind.

    Args:
        kind: of refutation.
        state: whether the kernel is refuted for it.
        words: what was tried, or what refutes the kernel.
        where: file and line, where there is one.
    """

    kind: Kind
    state: GateState
    words: str
    where: str = ""


def refuted(kind: Kind, words: str, where: str = "") -> GateRow:
    """Return the row of a kernel that is refuted."""
    return GateRow(kind=kind, state="refuted", words=words, where=where)


def holds(kind: Kind, words: str) -> GateRow:
    """Return the row of a kernel that is not."""
    return GateRow(kind=kind, state="holds", words=words)


@dataclass(frozen=True, kw_only=True, slots=True)
class GateOutcome:
    """What a gate finds of a kernel.

    Args:
        rows: one for each kind of refutation that was tried, or several.
        leaves: the verdicts on outputs and gradients, where the kernel came so far.
        notes: what else to know.
    """

    rows: tuple[GateRow, ...]
    leaves: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
