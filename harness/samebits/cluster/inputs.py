"""What all processes must have alike before the first point: what runs, the sources, and the environment."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from samebits.cluster.process_group import ProcessGroup
from samebits.errors import RequestError
from samebits.host.environment import Environment
from samebits.host.installed import is_installed
from samebits.host.package import PACKAGE

LISTED = 5
"""How many of several differences are listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInputs:
    """What a process is about to do, and with what; every entry as text, by its name.

    Args:
        points: what runs, in order, by pair or configuration.
        sources: digests of samebits' own files and of the modules that the declarations brought.
        environment: versions, devices, flags and settings.
    """

    points: Mapping[str, str]
    sources: Mapping[str, str]
    environment: Mapping[str, str]

    def digests(self) -> dict[str, str]:
        """One digest of each part, the order in it included."""
        return {
            name: hashlib.sha256(repr(list(part.items())).encode()).hexdigest() for name, part in self.parts().items()
        }

    def parts(self) -> dict[str, Mapping[str, str]]:
        """By the name that a message gives it."""
        return {"what it runs": self.points, "its sources": self.sources, "its environment": self.environment}


def compare_inputs(group: ProcessGroup, inputs: RunInputs) -> None:
    """Compare what the processes are about to do.

    Args:
        group: the processes.
        inputs: of this one.

    Raises:
        RequestError: a process differs from process 0; it is named, with what differs.
    """
    digests = group.share("comparing points, sources and environment", inputs.digests())
    apart = [number for number, other in enumerate(digests) if other != digests[0]]
    if not apart:
        return
    parts = group.share("finding what differs", inputs.parts())
    lines = [_difference(number, parts[0], parts[number]) for number in apart[:LISTED]]
    more = f" (and {len(apart) - LISTED} more processes)" if len(apart) > LISTED else ""
    raise RequestError("; ".join(lines) + f"{more}: start all processes from the same files and settings")


def _difference(number: int, first: Mapping[str, Mapping[str, str]], other: Mapping[str, Mapping[str, str]]) -> str:
    words = []
    for part, own in other.items():
        names = [name for name in {**first[part], **own} if first[part].get(name) != own.get(name)]
        if not names and list(own) != list(first[part]):
            names = ["their order"]
        if names:
            shown = [
                name + _imported_where(name, own, first[part])
                if part == "its sources"
                else f"{name} ({_short(own.get(name))}, not {_short(first[part].get(name))})"
                for name in names[:LISTED]
            ]
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            words.append(f"{part}: {', '.join(shown)}{more}")
    return f"process {number} differs from process 0 in {' and in '.join(words)}"


def _imported_where(name: str, own: Mapping[str, str], first: Mapping[str, str]) -> str:
    """Where a module is imported in one of two processes alone, as where its import fails in the other."""
    if (name in own) == (name in first):
        return ""
    return f" (imported {'there' if name in own else 'in process 0'} alone)"


def _short(text: str | None) -> str:
    return "missing" if text is None else text if len(text) <= 60 else f"{text[:57]}..."


def sources() -> dict[str, str]:
    """Digests of samebits' own files, and of every imported module that is neither installed nor Python's own."""
    digests = {
        f"samebits/{path.relative_to(PACKAGE).as_posix()}": _digest(path) for path in sorted(PACKAGE.rglob("*.py"))
    }
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(PACKAGE) or is_installed(str(path)):
            continue
        # Files of a tree are loaded under a name with the digest of their folder, which may be another one elsewhere.
        name = re.sub(r"^samebits_[0-9a-f]{8}_", "", name)
        digests[f"{name} ({path.name})"] = digests.get(f"{name} ({path.name})", "") + _digest(path)
    return digests


def described(environment: Environment) -> dict[str, str]:
    """An environment as text by its entries."""
    described: dict[str, str] = {}
    for name, value in asdict(environment).items():
        entries: dict[str, Any] = value if isinstance(value, dict) else {"": value}
        described |= {f"{name}.{key}".rstrip("."): str(entry) for key, entry in entries.items()}
    return described


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:  # gone since it was imported; that too has to be alike
        return "not readable"
