"""Compares results with the snapshots of their pairs: lost bits fail in the same environment, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.audit.snapshots.record import (
    EQUAL,
    Place,
    Processor,
    Snapshot,
    digest_of,
    exceeds_contract,
    place,
    read_snapshot,
    snapshot_path,
)
from samebits.errors import SamebitsError
from samebits.host.environment import Environment
from samebits.schema.finding import Finding
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotComparison:
    """The comparison of a check with the snapshots.

    Args:
        environment: the digest of this environment.
        known, unknown: pairs with accepted verdicts for this environment, and pairs with verdicts for others only.
        elsewhere: the number of other environments that the unknown pairs have verdicts for.
        held, lost, gained: numbers of results with equal bits as accepted, no longer equal, and equal but not accepted.
    """

    environment: str
    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    elsewhere: int = 0
    held: int = 0
    lost: int = 0
    gained: int = 0

    def notes(self) -> list[str]:
        """Return the lines of the report; empty if there are no snapshots."""
        lines = []
        if self.unknown:
            pairs = "1 pair has" if len(self.unknown) == 1 else f"{len(self.unknown)} pairs have"
            lines.append(
                f"snapshot: no accepted verdicts for this environment; {pairs} verdicts for {self.elsewhere} "
                f"{'other' if self.elsewhere == 1 else 'others'}"
            )
        if self.gained:
            lines.append(
                f"snapshot: {self.gained} more results have equal bits beyond their contract and can be accepted: "
                f"samebits accept --verdicts --reason '...' {' '.join(self.known)}"
            )
        return lines


def compare_to_snapshots(
    results: Sequence[Finding], pairs: Mapping[str, Path], here: Environment, processor: Processor
) -> tuple[list[Finding], SnapshotComparison, list[Problem]]:
    """Compare results with snapshots.

    Returns:
        The results, in which lost bits fail; the counts; and a problem for each damaged file.
    """
    digest, problems = digest_of(here, processor), []
    snapshots: dict[str, Snapshot] = {}
    for pair, root in pairs.items():
        path = snapshot_path(root, here, pair)
        if not path.is_file():
            continue
        try:
            snapshots[pair] = read_snapshot(path)
        except SamebitsError as error:
            problems.append(Problem(pair=pair, message=str(error), exit_code=error.exit_code))
    judged = [_held(result, snapshots.get(result.place.pair), digest) for result in results]
    known = tuple(pair for pair, snapshot in snapshots.items() if snapshot.known(digest) is not None)
    unknown = tuple(pair for pair in snapshots if pair not in known)
    verdicts = SnapshotComparison(
        environment=digest,
        known=known,
        unknown=unknown,
        elsewhere=len({environment.digest for pair in unknown for environment in snapshots[pair].environments}),
        held=sum(result.ruling.snapshot is not None and result.ruling.verdict in EQUAL for result in judged),
        lost=sum(result.ruling.snapshot is not None and result.ruling.verdict not in EQUAL for result in judged),
        gained=sum(
            each.place.pair in known and each.ruling.snapshot is None and exceeds_contract(each) for each in judged
        ),
    )
    return judged, verdicts, problems


def _held(result: Finding, snapshot: Snapshot | None, digest: str) -> Finding:
    known = None if snapshot is None else snapshot.known(digest)
    if known is None:
        return result
    return compare_to_places(result, known.places(), f"accepted {known.accepted.date}: {known.accepted.reason}")


def compare_to_places(result: Finding, equal: Collection[Place], since: str) -> Finding:
    """Compare one result with the places that had equal bits in this environment; it fails if it lost them."""
    if place(result) not in equal or result.ruling.verdict == "skipped":
        return result
    compared = result.with_ruling(snapshot="bitwise")
    if result.ruling.verdict in EQUAL:
        return compared
    reason = f"these bits were equal here before: bitwise, now {result.ruling.verdict}; {since}"
    if not result.ruling.ok and result.ruling.reason:
        reason += f"; {result.ruling.reason}"
    return compared.with_ruling(ok=False, reason=reason)
