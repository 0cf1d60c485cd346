"""The paths of snapshots, one file per platform and pair, and how they are read and written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from samebits.audit.snapshots.record import SCHEMA, DamagedSnapshot, Snapshot, broken_rule
from samebits.host.environment import Environment
from samebits.host.sealed_file import Sealed
from samebits.schema.json_text import content_digest

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
    """The file of a pair on a platform."""
    return root / FOLDER / here.folder / f"{pair}.json"


def read_snapshot(path: Path) -> Snapshot:
    """Read and verify a snapshot.

    Raises:
        DamagedSnapshot: it is truncated, edited, of another schema, or breaks a rule; the message names the field.
        CouldNotRun: it cannot be read.
    """
    return _FILES.read(path)


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Write a snapshot atomically; call it inside `locked(path.parent)`.

    Raises:
        DamagedSnapshot: it breaks a rule.
        CouldNotRun: the file cannot be written; the old one is unchanged.
    """
    broken = broken_rule(snapshot)
    if broken:
        raise DamagedSnapshot(f"snapshot of '{snapshot.pair}' is not written: {broken}")
    _FILES.write(path, replace(snapshot, content=content_digest(msgspec.to_builtins(snapshot))))
