"""A snapshot: the leaves of a pair whose bits were equal in an environment although their contract is `rounding`.

Contracts are promises for every machine; what one machine gives beyond them is evidence of that machine, so one file
holds several environments side by side, each with who accepted it, when, at which commit and why.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Literal

from samebits.errors import DeclarationError
from samebits.host.environment import Environment
from samebits.schema.result import Result
from samebits.train.golden.record import Surroundings, canonical

SCHEMA: Literal["samebits-verdicts/1"] = "samebits-verdicts/1"

EQUAL = ("proved", "bitwise")
"""Verdicts under which both sides have the same bits."""

Place = tuple[str, str, str, str]
"""Variant, direction, leaf, and `case dtype mesh mode`."""


class DamagedSnapshot(DeclarationError):
    """The file of a snapshot is not what was written: cut, edited by hand, or of another schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Processor:
    """What bits depend on beside `Surroundings`: caches decide how products are split, threads how they are shared.

    Args:
        model: vendor, family and model, as the system names them; empty where it does not.
        cpus: how many this process may use.
    """

    model: str
    cpus: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualLeaves:
    """Leaves whose bits were equal: all points of one side, direction and leaf together.

    Args:
        points: each `case dtype mesh mode`.
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
        equal: how many results had equal bits beyond their contract.
        lost: how many of those of before had not.
    """

    date: str
    commit: str
    author: str
    reason: str
    equal: int
    lost: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedEnvironment:
    """One environment.

    Args:
        digest: of `surroundings` and `processor`, all but what moves no bits.
        equal: the leaves.
        accepted: the last acceptance.
        history: those before, oldest first.
    """

    digest: str
    surroundings: Surroundings
    processor: Processor
    equal: tuple[EqualLeaves, ...]
    accepted: SnapshotAcceptance
    history: tuple[SnapshotAcceptance, ...] = ()

    def places(self) -> set[Place]:
        """Every result that is recorded."""
        return {
            (leaves.variant, leaves.direction, leaves.leaf, point) for leaves in self.equal for point in leaves.points
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What one file holds: a pair in several environments.

    Args:
        content: a digest of all the rest, which shows edits by hand.
    """

    schema: Literal["samebits-verdicts/1"] = SCHEMA
    pair: str
    environments: tuple[AcceptedEnvironment, ...]
    content: str = ""

    def known(self, digest: str) -> AcceptedEnvironment | None:
        """The entry of an environment."""
        return next((environment for environment in self.environments if environment.digest == digest), None)


def digest_of(surroundings: Surroundings, processor: Processor) -> str:
    """A short digest of everything that bits depend on here."""
    return sha256(canonical([surroundings.decisive(), asdict(processor)]).encode()).hexdigest()[:16]


def processor_here(environment: Environment) -> Processor:
    """This machine's processor; one that is emulated is named by a variable, since the system shows its host's."""
    named = os.environ.get("SAMEBITS_PROCESSOR")
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


def place(result: Result) -> Place:
    """Where a result stands in a snapshot."""
    point = " ".join((result.case, result.dtype, result.mesh, result.mode))
    return result.variant, result.direction, result.leaf, point


def exceeds_contract(result: Result) -> bool:
    """Whether a result has equal bits although its contract asks for less."""
    return result.ok and not result.exempt and result.required == "rounding" and result.verdict in EQUAL


def grouped(places: Iterable[Place]) -> tuple[EqualLeaves, ...]:
    """Places in the compact form of the file, in a fixed order."""
    points_of_leaf: dict[tuple[str, str, str], list[str]] = {}
    for variant, direction, leaf, point in sorted(places):
        points_of_leaf.setdefault((variant, direction, leaf), []).append(point)
    return tuple(
        EqualLeaves(variant=variant, direction=direction, leaf=leaf, points=tuple(points))
        for (variant, direction, leaf), points in points_of_leaf.items()
    )


def broken_rule(snapshot: Snapshot) -> str | None:
    """The first rule that a snapshot breaks, naming the field; None where all hold."""
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
