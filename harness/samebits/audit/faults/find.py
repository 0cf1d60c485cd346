"""Finds the planted faults of a tree: one file for each pair in `suites/faults/`, each with a constant `FAULTS`."""

from __future__ import annotations

from pathlib import Path

from samebits.audit.faults.fault import Fault
from samebits.errors import DeclarationError, RequestError
from samebits.host.loading import load_file

FOLDER = Path("suites") / "faults"


def all_faults(root: Path) -> list[Fault]:
    """Return every planted fault of a tree, file by file.

    Raises:
        RequestError: the tree has none.
        DeclarationError: a file does not import, or has no `FAULTS`.
    """
    files = sorted(path for path in (root / FOLDER).glob("*.py") if not path.stem.startswith("_"))
    if not files:
        raise RequestError(f"'{root}' plants no faults: expected files with FAULTS = (Fault(...), ...) in {FOLDER}/")
    return [fault for path in files for fault in _faults_of(path)]


def _faults_of(path: Path) -> tuple[Fault, ...]:
    faults = getattr(load_file(path), "FAULTS", None)
    if not isinstance(faults, tuple) or not faults or not all(isinstance(fault, Fault) for fault in faults):
        raise DeclarationError(f"{path} has no faults; expected FAULTS = (Fault(...), ...)")
    return faults
