"""`causes`: the failing results of a check, each group with its likely cause, its smallest example and what to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from samebits.report.causes.groups import Key, group_failures, holds_at_its_sizes
from samebits.report.causes.rules import Group, likely
from samebits.report.causes.scope import only, place_words
from samebits.report.document import Document
from samebits.report.words import plural
from samebits.schema.result import ACCEPTABLE, Result, requirement

_GRAVEST = ("different", "unstable", "rounding", "refused", "error")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Failing results that most likely have one cause.

    Args:
        kind: the kind of evidence that joins them, such as `line` (one line of the source), `mesh` (the reference
            fails as well) or `error` (one text).
        subject: whose results, how many of how many.
        verdicts: of these results, each with what is required and how many there are.
        likely: the likely cause, in one sentence.
        where: the cases, dtypes, meshes and directions, in few words.
        only: what restricts them, such as `only with bfloat16`: results beside them that hold.
        results: in the order of the document.
        example: the smallest: fewest devices, then fewest elements.
        next_command: shows the example again.
    """

    kind: str
    subject: str
    verdicts: tuple[tuple[str, str, int], ...]
    likely: str
    where: str
    only: tuple[str, ...]
    results: tuple[Result, ...]
    example: Result
    next_command: str | None

    @property
    def title(self) -> str:
        """The subject with its verdicts, where these are not shown beside it."""
        counts: Counter[str] = Counter()
        for verdict, required, count in self.verdicts:
            counts[f"{verdict}, required {required}" if verdict in ("proved", "bitwise") else verdict] += count
        listed = (verdict if len(counts) == 1 else f"{verdict} {count}" for verdict, count in counts.items())
        return f"{self.subject}: {', '.join(listed)}"


def causes(results: Iterable[Result], references: Mapping[str, str] | None = None) -> list[Cause]:
    """The groups of failing results, differences before errors and large groups before small ones.

    Args:
        results: all results of a check; those that hold restrict the cause.
        references: by pair, the name of its reference; without it no group is known to be the mesh's.
    """
    every = list(results)
    groups = group_failures(every, references or {})
    return sorted(
        (_cause(key, group, every) for key, group in groups.items()),
        key=lambda cause: (_rank(cause), -len(cause.results)),
    )


def document_causes(document: Document) -> list[Cause]:
    """The causes of the failures of a check's document."""
    return causes(document.results, {head.pair: head.reference for head in document.pairs})


def first_command(listed: Iterable[Cause]) -> str | None:
    """What to type first: the command of the first cause that has one."""
    return next((cause.next_command for cause in listed if cause.next_command is not None), None)


def _cause(key: Key, group: Sequence[Result], every: Sequence[Result]) -> Cause:
    # Results that lack only other sizes belong to this cause, but hold where they are: they show where it ends.
    wrong = [result for result in group if not holds_at_its_sizes(result)] or list(group)
    example = min(wrong, key=lambda result: (result.devices or 1 << 30, result.direction != "forward", result.elements))
    restricted = tuple(only(wrong, every))
    return Cause(
        kind=key[0],
        subject=_subject(group, every),
        verdicts=_verdicts(group),
        likely=likely(Group(key, wrong, restricted)),
        where=place_words(wrong),
        only=restricted,
        results=tuple(group),
        example=example,
        next_command=example.replay or None,
    )


def _subject(group: Sequence[Result], every: Sequence[Result]) -> str:
    sides = dict.fromkeys((result.pair, result.variant) for result in group)
    pairs = list(dict.fromkeys(pair for pair, _ in sides))
    if len(sides) == 1:
        whose = "/".join(next(iter(sides)))
    elif len(pairs) == 1:
        whose = f"{pairs[0]} ({', '.join(variant for _, variant in sides)})"
    else:
        whose = ", ".join(pairs) if len(pairs) <= 3 else plural(len(pairs), "pair")
    beside = sum((result.pair, result.variant) in sides and result.verdict != "skipped" for result in every)
    return f"{whose}: {len(group)} of {plural(beside, 'result')}"


def _verdicts(group: Sequence[Result]) -> tuple[tuple[str, str, int], ...]:
    """The verdicts with what is required, which says something of verdicts that another contract would accept."""
    counts = Counter((r.verdict, requirement(r.required, r.reason) if r.verdict in ACCEPTABLE else "") for r in group)
    return tuple((verdict, required, count) for (verdict, required), count in counts.items())


def _rank(cause: Cause) -> int:
    return min(_GRAVEST.index(result.verdict) if result.verdict in _GRAVEST else 0 for result in cause.results)
