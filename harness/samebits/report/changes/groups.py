"""Changes of one kind, side and direction as one group, so that one cause is one line and not forty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from samebits.report.changes.diff_records import (
    BETTER,
    CHANGES,
    NOT_BETTER,
    WORSE,
    ChangedFigure,
    ChangedResult,
    DiffDocument,
    MovedLoss,
)
from samebits.report.words import plural, short_meshes
from samebits.schema.finding import Place
from samebits.train.distance import FAR

P = TypeVar("P", bound=Place)

NAMED = 3
"""Outputs or cases of a group that are named; more are counted."""

BYTES = ("temp_bytes", "peak_bytes", "wire_bytes", "bytes_accessed")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeGroup:
    """What changed in one way.

    Args:
        kind: such as `new failure`, `contract` or `slower`.
        fails: whether it makes the command fail.
        side: whose results.
        what: which outputs.
        where: under which conditions.
        before, after: what was found, or what is required, in words.
        count: how many results.
        members: every result of several, in words.
        reason: of the first.
        replay: of the first; empty where there is none.
    """

    kind: str
    fails: bool
    side: str
    what: str
    where: str
    before: str
    after: str
    count: int
    members: tuple[str, ...] = ()
    reason: str | None = None
    replay: str = ""

    @property
    def change(self) -> str:
        """From what to what."""
        return f"{self.before} -> {self.after}"


def all_groups(document: DiffDocument) -> list[ChangeGroup]:
    """Every change of a comparison, the gravest first."""
    return [
        *result_groups(document, WORSE),
        *loss_groups(document),
        *result_groups(document, NOT_BETTER),
        *contract_groups(document),
        *moved_groups(document),
        *figure_rows(document),
        *result_groups(document, BETTER),
        *slower_groups(document),
    ]


def result_groups(document: DiffDocument, changes: Sequence[str] = CHANGES) -> list[ChangeGroup]:
    """The results that changed in some ways; those that fail first, then large groups before small ones.

    Args:
        document: the comparison.
        changes: the ways.
    """
    groups: dict[tuple[str, ...], list[ChangedResult]] = {}
    for row in document.results:
        if row.change in changes:
            key = (kind_of(document, row), row.side(), row.direction, row.before or "", row.after or "")
            groups.setdefault(key, []).append(row)
    listed = [_of_results(document, rows) for rows in groups.values()]
    order: list[str] = [*CHANGES]
    return sorted(listed, key=lambda group: (not group.fails, order.index(_change(group.kind)), -group.count))


def kind_of(document: DiffDocument, row: ChangedResult) -> str:
    """The change in words; a verdict that fell without failing says why it does not."""
    if row.change != "fell" or document.fails(row):
        return row.change
    return "fell, as declared" if row.declared else "fell, in another environment"


def _change(kind: str) -> str:
    return kind.split(",")[0]


def _of_results(document: DiffDocument, rows: Sequence[ChangedResult]) -> ChangeGroup:
    first = rows[0]
    return ChangeGroup(
        kind=kind_of(document, first),
        fails=document.fails(first),
        side=first.side(),
        what=outputs(rows),
        where=conditions(rows),
        before=first.before or "none",
        after=first.after or "none",
        count=len(rows),
        members=members(rows),
        reason=first.reason,
        replay=first.replay,
    )


def loss_groups(document: DiffDocument) -> list[ChangeGroup]:
    """The training runs whose losses moved, each on its own."""
    return [
        ChangeGroup(
            kind=kind_of_loss(document, loss), fails=document.loss_fails(loss), side=loss.side(), what="", where="",
            before=loss.before, after=loss_size(loss), count=1, reason=loss.reason,
        )
        for loss in document.losses
    ]  # fmt: skip


def kind_of_loss(document: DiffDocument, loss: MovedLoss) -> str:
    """That a loss moved, and why that does not fail where it does not."""
    if document.loss_fails(loss):
        return "loss moved"
    return "loss moved, in another environment" if loss.verdict == "different" else "loss moved, by rounding"


def loss_size(loss: MovedLoss) -> str:
    """What a loss became, at which step, and how far it moved."""
    far = f"up to {loss.max_ulp} ulp" if loss.max_ulp < FAR else "not finite"
    return f"{loss.after} at step {loss.step} ({far})"


def contract_groups(document: DiffDocument) -> list[ChangeGroup]:
    """The contracts that changed."""
    return _plain("contract", document.contracts, [(row.before, row.after) for row in document.contracts])


def moved_groups(document: DiffDocument) -> list[ChangeGroup]:
    """Where the reference moved: by pair, since the digests of all leaves differ anyhow."""
    words = [_digests(row.before, row.after) for row in document.moved]
    groups = _plain("other bits", document.moved, [("", "")] * len(words))
    first = {row.side(): pair for row, pair in zip(reversed(document.moved), reversed(words), strict=True)}
    return [
        replace(group, before=first[group.side][0], after=_and_more(first[group.side][1], group.count))
        for group in groups
    ]


def _and_more(digest: str, count: int) -> str:
    return digest if count == 1 else f"{digest}, and {count - 1} more"


def _digests(before: str, after: str) -> tuple[str, str]:
    return before[:8], after[:8]


def slower_groups(document: DiffDocument) -> list[ChangeGroup]:
    """What became slower, the times of one side added up, the largest difference first."""
    sides: dict[str, list[ChangedFigure]] = {}
    for row in document.slower:
        sides.setdefault(row.side(), []).append(row)
    groups = []
    for rows in sides.values():
        total = replace(rows[0], before=sum(row.before for row in rows), after=sum(row.after for row in rows))
        group = _of_figure("slower", total)
        what = outputs(rows)
        groups.append(replace(group, what=what, where=conditions(rows), count=len(rows), members=members(rows)))
    longest = {group.side: sum(row.before - row.after for row in sides[group.side]) for group in groups}
    return sorted(groups, key=lambda group: longest[group.side])


def figure_rows(document: DiffDocument) -> list[ChangeGroup]:
    """The figures of compiled programs, what became larger first."""
    rows = sorted(document.figures, key=lambda row: row.before / row.after if row.after else float("inf"))
    return [_of_figure("larger" if row.after > row.before else "smaller", row) for row in rows]


def _of_figure(kind: str, row: ChangedFigure) -> ChangeGroup:
    name = "" if row.figure == "seconds" else row.figure.replace("_", " ").removesuffix(" bytes")
    ratio = f" ({row.after / row.before:.3g}x)" if row.before else ""
    return ChangeGroup(
        kind=kind,
        fails=False,
        side=row.side(),
        what=" ".join(part for part in (row.what(), name) if part),
        where=row.where(),
        before=amount(row.figure, row.before),
        after=amount(row.figure, row.after) + ratio,
        count=1,
    )


def amount(figure: str, value: float) -> str:
    """A figure that a person can read.

    Args:
        figure: its name.
        value: in seconds, bytes or operations.
    """
    if figure == "seconds":
        return f"{value:.1f} s"
    return f"{value / 1e6:,.1f} MB" if figure in BYTES else f"{value:.4g}"


def _plain(kind: str, places: Sequence[P], words: Sequence[tuple[str, str]]) -> list[ChangeGroup]:
    groups: dict[tuple[str, ...], list[P]] = {}
    for place, (before, after) in zip(places, words, strict=True):
        groups.setdefault((place.side(), before, after), []).append(place)
    return [
        ChangeGroup(
            kind=kind, fails=False, side=side, what=outputs(rows), where=conditions(rows), before=before, after=after,
            count=len(rows), members=members(rows),
        )
        for (side, before, after), rows in groups.items()
    ]  # fmt: skip


def members(rows: Sequence[Place]) -> tuple[str, ...]:
    """The results of a group, one text each; none where it is one result."""
    if len(rows) == 1:
        return ()
    return tuple(", ".join(part for part in (row.where(), row.what()) if part) for row in rows)


def outputs(rows: Sequence[Place]) -> str:
    """The outputs of a group, named where they are few."""
    names = list(dict.fromkeys(row.what() for row in rows))
    return ", ".join(filter(None, names)) if len(names) <= NAMED else plural(len(names), "output")


def conditions(rows: Sequence[Place]) -> str:
    """The conditions of a group: `6 results: 2 cases, bfloat16 float32, context2/4 expert4_fsdp2`."""
    if len(rows) == 1:
        return rows[0].where()
    cases = _distinct(row.case for row in rows)
    case = f"{'case' if len(cases) == 1 else 'cases'} {' '.join(cases)}" if cases else ""
    parts = (
        case if len(cases) <= NAMED else plural(len(cases), "case"),
        " ".join(_distinct(row.dtype for row in rows)),
        short_meshes(_distinct(row.mesh for row in rows)),
        " ".join(_distinct(row.target for row in rows)),
    )
    words = ", ".join(part for part in parts if part)
    return f"{len(rows)} results: {words}" if words else f"{len(rows)} results"


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]
