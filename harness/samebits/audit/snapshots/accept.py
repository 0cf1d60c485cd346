"""Accepts today's verdicts of a pair as the snapshot of this environment, merged with the previous snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.audit.snapshots.record import (
    EQUAL,
    AcceptedEnvironment,
    Processor,
    Snapshot,
    SnapshotAcceptance,
    digest_of,
    exceeds_contract,
    grouped,
    place,
    read_snapshot,
    snapshot_path,
    write_snapshot,
)
from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.host.permit import Permit
from samebits.host.sealed_file import locked
from samebits.schema.finding import Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedVerdicts:
    """The result of accepting the verdicts of one pair.

    Args:
        pair, path: the pair, and the snapshot file.
        change: `new` environment, `changed`, or `unchanged` (nothing was written).
        equal: number of results with equal bits beyond their contract, including earlier ones that did not run today.
        lost, gained: differences from the previous snapshot.
    """

    pair: str
    path: str
    change: str
    equal: int
    lost: int
    gained: int


def accept_verdicts(
    pair: str, root: Path, results: Sequence[Finding], here: Environment, processor: Processor, allowed: Permit
) -> AcceptedVerdicts:
    """Write the results of a pair that have equal bits beyond their contracts.

    Raises:
        RequestError: a result fails, nothing ran, or the tree changed meanwhile.
        DamagedSnapshot: the existing file is damaged; it holds other environments, so it is not overwritten.
        CouldNotRun: all results that fail are errors, or the file cannot be written.
    """
    _require_acceptable(pair, results)
    path, digest = snapshot_path(root, here, pair), digest_of(here, processor)
    with locked(path.parent):
        before = read_snapshot(path) if path.exists() else Snapshot(pair=pair, environments=())
        known = before.known(digest)
        old = set() if known is None else known.places()
        today = {place(result) for result in results if exceeds_contract(result)}
        ran = {place(result) for result in results if result.ruling.verdict != "skipped"}
        new = today | (old - ran)
        lost, gained = len(old - new), len(new - old)
        change = "new" if known is None else "changed" if lost or gained else "unchanged"
        if change != "unchanged":
            accepted = SnapshotAcceptance(
                date=allowed.date,
                commit=allowed.commit,
                author=allowed.author,
                reason=allowed.reason,
                equal=len(new),
                lost=lost,
            )
            entry = AcceptedEnvironment(
                digest=digest,
                surroundings=here,
                processor=processor,
                equal=grouped(new),
                accepted=accepted,
                history=() if known is None else (*known.history, known.accepted),
            )
            others = tuple(
                known_environment for known_environment in before.environments if known_environment.digest != digest
            )
            allowed.still()
            write_snapshot(path, replace(before, environments=(*others, entry), content=""))
    return AcceptedVerdicts(pair=pair, path=str(path), change=change, equal=len(new), lost=lost, gained=gained)


def _require_acceptable(pair: str, results: Sequence[Finding]) -> None:
    """Check that no result fails and that something was compared; bits lost since the last snapshot are accepted."""
    failed = [result for result in results if result.failed]
    if failed:
        unanswered = all(result.ruling.verdict == "error" for result in failed)
        raise (CouldNotRun if unanswered else RequestError)(
            f"verdicts of '{pair}' are not accepted: {len(failed)} of {len(results)} results fail; "
            f"the first is {failed[0].ruling.verdict}: {failed[0].replay}"
        )
    if not any(result.ruling.verdict in (*EQUAL, "rounding") for result in results):
        raise RequestError(f"verdicts of '{pair}' are not accepted: nothing was compared")
