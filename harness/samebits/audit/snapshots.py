"""Snapshots of verdicts: leaves with equal bits in an environment although their contract is `rounding`.

Contracts are promises for every machine. Equal bits beyond them are evidence of one machine only, so a file holds
several environments, each with who accepted it, when, at which commit and why. Lost bits fail in the same environment,
and nowhere else.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from samebits.errors import CouldNotRun, DeclarationError, RequestError, SamebitsError
from samebits.host.environment import Environment
from samebits.host.permit import Permit
from samebits.host.processors import NAMED
from samebits.host.sealed_file import Sealed, locked
from samebits.schema.finding import Finding
from samebits.schema.json_text import canonical, content_digest
from samebits.schema.result import Problem

SCHEMA: Literal["samebits-verdicts/1"] = "samebits-verdicts/1"

EQUAL = ("proved", "bitwise")
"""Verdicts for equal bits."""

Place = tuple[str, str, str, str]
"""Variant, direction, leaf, and `case dtype mesh mode`."""


class DamagedSnapshot(DeclarationError):
    """The file of a snapshot is damaged: truncated, edited by hand, or of another schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Processor:
    """What bits depend on besides `Environment`: cache sizes and thread counts determine how products are split.

    Args:
        model: vendor, family and model, as the system reports them; empty if it does not.
        cpus: the number of CPUs that this process may use.
    """

    model: str
    cpus: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualLeaves:
    """The points of one side, direction and leaf with equal bits.

    Args:
        variant, direction, leaf: the leaf.
        points: each as `case dtype mesh mode`.
    """

    variant: str
    direction: str
    leaf: str
    points: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotAcceptance:
    """Who accepted what, when and why.

    Args:
        date: the day.
        commit: of the tree that ran.
        author, reason: as given.
        equal: the number of results with equal bits beyond their contract.
        lost: the number of earlier ones that no longer have equal bits.
    """

    date: str
    commit: str
    author: str
    reason: str
    equal: int
    lost: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedEnvironment:
    """The accepted verdicts of one environment.

    Args:
        digest: of everything in `surroundings` and `processor` that can change bits.
        surroundings, processor: the environment.
        equal: the leaves with equal bits beyond their contract.
        accepted: the last acceptance.
        history: the earlier acceptances, oldest first.
    """

    digest: str
    surroundings: Environment
    processor: Processor
    equal: tuple[EqualLeaves, ...]
    accepted: SnapshotAcceptance
    history: tuple[SnapshotAcceptance, ...] = ()

    def places(self) -> set[Place]:
        """Return every recorded result."""
        return {
            (leaves.variant, leaves.direction, leaves.leaf, point) for leaves in self.equal for point in leaves.points
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The content of one snapshot file: a pair in several environments.

    Args:
        schema, pair, environments: the schema of the file, the pair, and its verdicts in each environment.
        content: a digest of everything else, which detects edits by hand.
    """

    schema: Literal["samebits-verdicts/1"] = SCHEMA
    pair: str
    environments: tuple[AcceptedEnvironment, ...]
    content: str = ""

    def known(self, digest: str) -> AcceptedEnvironment | None:
        """Return the entry of an environment, by its digest."""
        return next((environment for environment in self.environments if environment.digest == digest), None)


def digest_of(surroundings: Environment, processor: Processor) -> str:
    """Return a short digest of everything that bits depend on in an environment."""
    return sha256(canonical([surroundings.decisive(), asdict(processor)]).encode()).hexdigest()[:16]


def processor_here(environment: Environment) -> Processor:
    """Name this machine's processor, or the emulated one that a variable names."""
    named = os.environ.get(NAMED)
    if named:
        return Processor(model=named, cpus=environment.cpus)
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read().split("\n\n")[0]
        wanted = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
        fields: Mapping[str, str] = dict(re.findall(r"^([\w ]+?)\s*:\s*(.*)$", lines, re.MULTILINE))
        model = " ".join(fields[name] for name in wanted if name in fields)
    except OSError:
        model = platform.processor()
    return Processor(model=model, cpus=environment.cpus)


def place(result: Finding) -> Place:
    """Return the place of a result in a snapshot."""
    of = result.place
    return of.variant, of.direction, of.leaf, " ".join((of.case, of.dtype, of.mesh, of.mode))


def exceeds_contract(result: Finding) -> bool:
    """Return whether a result has equal bits although its contract requires less."""
    ruling = result.ruling
    return ruling.ok and not ruling.exempt and ruling.required == "rounding" and ruling.verdict in EQUAL


def grouped(places: Iterable[Place]) -> tuple[EqualLeaves, ...]:
    """Group places in the compact, sorted form of the file."""
    points_of_leaf: dict[tuple[str, str, str], list[str]] = {}
    for variant, direction, leaf, point in sorted(places):
        points_of_leaf.setdefault((variant, direction, leaf), []).append(point)
    return tuple(
        EqualLeaves(variant=variant, direction=direction, leaf=leaf, points=tuple(points))
        for (variant, direction, leaf), points in points_of_leaf.items()
    )


def broken_rule(snapshot: Snapshot) -> str | None:
    """Return the first broken rule of a snapshot, naming the field; None if all hold."""
    digests: set[str] = set()
    for index, known in enumerate(snapshot.environments):
        where = f"environments[{index}]"
        if known.digest != digest_of(known.surroundings, known.processor):
            return f"{where}.digest is not that of its surroundings ({digest_of(known.surroundings, known.processor)})"
        if known.digest in digests:
            return f"{where}.digest is there twice"
        digests.add(known.digest)
        if grouped(known.places()) != known.equal:
            return f"{where}.equal is not sorted, or has a leaf twice"
        lists: list[tuple[str, Any]] = [(f"{where}.accepted", known.accepted)]
        lists += [(f"{where}.history[{number}]", acceptance) for number, acceptance in enumerate(known.history)]
        for at, acceptance in lists:
            for name in ("date", "commit", "author", "reason"):
                if not getattr(acceptance, name).strip():
                    return f"{at}.{name} is empty; it is mandatory"
    return None


FOLDER = Path("suites") / "verdicts"

_FILES = Sealed(
    what="snapshot",
    kind=Snapshot,
    schema=SCHEMA,
    damaged=DamagedSnapshot,
    command="samebits accept --verdicts",
    broken=broken_rule,
)


def snapshot_path(root: Path, here: Environment, pair: str) -> Path:
    """Return the file of a pair on a platform."""
    return root / FOLDER / here.folder / f"{pair}.json"


def read_snapshot(path: Path) -> Snapshot:
    """Read and verify a snapshot."""
    return _FILES.read(path)


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Write a snapshot atomically; call it inside `locked(path.parent)`."""
    broken = broken_rule(snapshot)
    if broken:
        raise DamagedSnapshot(f"snapshot of '{snapshot.pair}' is not written: {broken}")
    _FILES.write(path, replace(snapshot, content=content_digest(msgspec.to_builtins(snapshot))))


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
    """Write the results of a pair that have equal bits beyond their contracts."""
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
