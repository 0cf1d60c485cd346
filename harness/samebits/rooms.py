"""The optional rooms: what each of them is for, and what is said where one is not installed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from samebits.errors import RequestError


@dataclass(frozen=True, slots=True)
class Room:
    """A part of the package that may be absent.

    Args:
        name: of what it does.
        folders: its packages, below `samebits`.
        users: what cannot be done without it.
    """

    name: str
    folders: tuple[str, ...]
    users: str


ROOMS = (
    Room("symbolic sizes", ("sizes",), "`--all-sizes`, `sizes=` of a call and contracts for all sizes"),
    Room(
        "training", ("train",), "`train`, `golden`, what else runs a model and what opens documents (`report`, `diff`)"
    ),
    Room("several hosts", ("cluster",), "`--ray`, `--distributed` and `run launch`"),
    Room("documents", ("audit.claims", "audit.guide", "audit.defaults"), "`audit claims`, `advise` and `defaults`"),
)
"""No module of the core imports one of these; it asks `door` for what it needs at that moment."""

NOTEBOOK = "report.html.notebook"
"""What draws the records of the core in a notebook."""


def door(module: str) -> Any:
    """Import a module, such as one of an optional room.

    Args:
        module: its name below `samebits`, such as `sizes.points`.

    Raises:
        RequestError: it is of a room that is not installed.
    """
    try:
        return importlib.import_module(f"samebits.{module}")
    except ModuleNotFoundError as error:
        raise missing_room(error) or error from None


def missing_room(error: ModuleNotFoundError) -> RequestError | None:
    """Say which room an import did not find; None where the module is not of a room."""
    for room in ROOMS:
        for folder in room.folders:
            if f"{error.name}.".startswith(f"samebits.{folder}."):
                lacks = f"{room.name}: samebits/{folder.replace('.', '/')}/ is not installed"
                return RequestError(f"{lacks}, and {room.users} need it; install all of samebits")
    return None
