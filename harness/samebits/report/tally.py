"""Counts over a check's results: one tally per side, what is only rounding and why, and what failed."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from samebits.schema.contract import RUNGS
from samebits.schema.difference import ulps_in_words
from samebits.schema.finding import Finding, Place
from samebits.schema.result import VERDICTS, Verdict

CAP = 20
"""How many failures are explained in full; the rest is counted."""


@dataclass(kw_only=True, slots=True)
class SideTally:
    """Everything seen of one side of a pair."""

    pair: str
    variant: str
    verdicts: dict[str, Counter[Verdict]] = field(default_factory=lambda: defaultdict(Counter))
    cases: dict[str, None] = field(default_factory=dict)
    meshes: dict[str, None] = field(default_factory=dict)
    dtypes: dict[str, None] = field(default_factory=dict)
    modes: dict[str, None] = field(default_factory=dict)
    emulated: dict[str, None] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    known: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    failed: int = 0

    def add(self, result: Finding) -> None:
        """Count one result."""
        place, ruling = result.place, result.ruling
        self.verdicts[place.direction][ruling.verdict] += 1
        self.failed += result.failed
        self.known[place.direction, ruling.verdict] += ruling.exempt and ruling.ok
        if ruling.verdict == "skipped":
            return
        self.cases[place.case] = self.meshes[place.mesh] = self.dtypes[place.dtype] = self.modes[place.mode] = None
        self.emulated |= dict.fromkeys(result.run.emulated)
        if not ruling.exempt and ruling.verdict not in ("error", "refused"):
            self.required.add(ruling.required)

    def parts(self, direction: str) -> list[tuple[Verdict, str]]:
        """The verdicts of a direction, each with its count in words; differences that are known are marked."""
        parts: list[tuple[Verdict, str]] = []
        for verdict in VERDICTS:
            count, known = self.verdicts[direction][verdict], self.known[direction, verdict]
            if count:
                mark = "" if not known else " (known)" if known == count else f" ({known} known)"
                parts.append((verdict, f"{verdict} {count}{mark}"))
        return parts

    def counts(self, direction: str) -> str:
        """The verdicts of a direction in words, such as `bitwise 96, rounding 12`."""
        return ", ".join(text for _, text in self.parts(direction))

    @property
    def lowest(self) -> str:
        """The lowest rung that a contract of this side accepts."""
        return next((rung for rung in reversed(RUNGS) if rung in self.required), "")


@dataclass(kw_only=True, slots=True)
class RelaxedLeaf:
    """The results of one leaf for which less than `bitwise` is accepted, and how far they really go."""

    pair: str
    variant: str
    direction: str
    leaf: str
    reason: str
    total: int = 0
    below: int = 0
    max_ulp: int = 0
    error_ratio: float = 0.0
    dtypes: dict[str, None] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    def add(self, result: Finding) -> None:
        """Count one result."""
        self.total += 1
        if result.ruling.verdict == "rounding":
            self.below += 1
            self.max_ulp = max(self.max_ulp, result.comparison.max_ulp or 0)
            self.error_ratio = max(self.error_ratio, result.accuracy.error_ratio or 0.0)
            self.dtypes[result.place.dtype] = None
            self.kinds |= {difference.kind for difference in result.comparison.differences}

    def measured(self) -> str:
        """The numbers of this run, in words."""
        many, dtypes = f"{self.below} of {self.total} results", ", ".join(self.dtypes)
        if self.kinds == {"sign of zero"}:  # which no distance and no error shows
            return f"{many} {'differs' if self.below == 1 else 'differ'} in the sign of zero alone ({dtypes})"
        ratio = f"{self.error_ratio:.2g}" if self.error_ratio >= 0.01 else "under 0.01"
        far = ulps_in_words(self.max_ulp)
        return f"{many} are only rounding ({dtypes}): at most {far}, error {ratio}x the reference's"


def rows(results: Iterable[Finding]) -> list[SideTally]:
    """One row per pair and side, in the order of the results."""
    tallies: dict[str, SideTally] = {}
    for result in results:
        new = SideTally(pair=result.place.pair, variant=result.place.variant)
        tallies.setdefault(result.place.side(), new).add(result)
    return list(tallies.values())


def accepted(results: Iterable[Finding]) -> list[RelaxedLeaf]:
    """The leaves for which a contract accepts rounding and rounding came out; those that need no leave are notes."""
    relaxed: dict[tuple[str, ...], RelaxedLeaf] = {}
    for result in results:
        place, ruling = result.place, result.ruling
        if ruling.required == "rounding" and ruling.ok and not ruling.exempt:
            new = RelaxedLeaf(
                pair=place.pair,
                variant=place.variant,
                direction=place.direction,
                leaf=place.leaf,
                reason=ruling.reason or "",
            )
            relaxed.setdefault((new.pair, new.reason, new.variant, new.direction, new.leaf), new).add(result)
    return [group for group in relaxed.values() if group.below]


def exempted(results: Iterable[Finding]) -> dict[tuple[str, str, str], list[Finding]]:
    """The known differences that came out as declared, by pair, variant and reason."""
    known: dict[tuple[str, str, str], list[Finding]] = {}
    for result in results:
        if result.ruling.exempt and result.ruling.ok:
            known.setdefault((result.place.pair, result.place.variant, result.ruling.reason or ""), []).append(result)
    return known


def not_interpreted(results: Iterable[Finding]) -> Counter[tuple[str, str, str]]:
    """How many results of each pair and variant rest on execution alone, by what could not be interpreted."""
    return Counter(
        (result.place.pair, result.place.variant, result.proof.not_interpreted)
        for result in results
        if result.proof.not_interpreted
    )


def skipped(results: Iterable[Finding]) -> Counter[tuple[str, str, str]]:
    """How many results of each pair were skipped on each mesh, by the reason."""
    return Counter(
        (result.place.pair, result.place.mesh, result.ruling.reason or "no reason given")
        for result in results
        if result.ruling.verdict == "skipped"
    )


def failures(results: Sequence[Finding], cap: int = CAP) -> tuple[list[list[Finding]], int]:
    """The failing points to explain, each with its failing leaves, and how many more failing points there are.

    Every kind of failure gets its turn before a second of the same kind, and of a kind the point with the fewest
    devices and elements comes first: the smallest counterexample is the easiest to follow.
    """
    points: dict[Place, list[Finding]] = {}
    for result in results:
        if result.failed:
            points.setdefault(result.place.whole, []).append(result)
    kinds: dict[tuple[str, ...], list[list[Finding]]] = {}
    for leaves in points.values():
        place, verdict = leaves[0].place, leaves[0].ruling.verdict
        kinds.setdefault((place.pair, place.variant, place.direction, verdict), []).append(leaves)
    for group in kinds.values():
        group.sort(key=lambda leaves: (leaves[0].run.devices, leaves[0].comparison.elements))
    rounds = itertools.zip_longest(*kinds.values())
    chosen = [leaves for turn in rounds for leaves in turn if leaves is not None][:cap]
    order = {key: place for place, key in enumerate(points)}
    return sorted(chosen, key=lambda leaves: order[leaves[0].place.whole]), len(points) - len(chosen)
