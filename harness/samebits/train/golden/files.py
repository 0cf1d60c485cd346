"""The paths of goldens, and how they are read and written (atomically, by `samebits.host.sealed_file`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from samebits.errors import DeclarationError
from samebits.host.environment import Environment
from samebits.host.sealed_file import Sealed, locked
from samebits.schema.json_text import content_digest
from samebits.schema.model import Model
from samebits.train.golden.record import SCHEMA, Golden
from samebits.train.golden.rules import broken_rule

FOLDER = "goldens"

__all__ = [
    "FOLDER",
    "DamagedGolden",
    "golden_path",
    "golden_paths",
    "locked",
    "read_golden",
    "require_own_name",
]


class DamagedGolden(DeclarationError):
    """The file of a golden is damaged: truncated, edited by hand, or of another schema."""


def golden_path(model: Model, here: Environment, matrix: str, config: str) -> Path:
    """The file of a golden."""
    return model.origin / FOLDER / here.folder / f"{_stem(matrix, config)}.json"


def require_own_name(path: Path, golden: Golden) -> None:
    """Reject a golden that is in the file of another.

    Args:
        path: of the file.
        golden: as it was read from there.

    Raises:
        DamagedGolden: the file has the name of another golden.
    """
    if path.stem != _stem(golden.matrix, golden.config):
        expected = path.stem.replace("__", "/", 1)
        raise DamagedGolden(f"golden {path}: config is '{golden.name}'; expected '{expected}', as in the file's name")


def _stem(matrix: str, config: str) -> str:
    return f"{matrix}__{config}" if matrix else config


def golden_paths(model: Model, platform: str | None = None) -> list[Path]:
    """The files of all goldens of one platform, or of all; drafts are hidden files and do not count."""
    paths = (model.origin / FOLDER).glob(f"{platform or '*'}/*.json")
    return sorted(path for path in paths if not path.name.startswith("."))


_FILES = Sealed(
    what="golden",
    kind=Golden,
    schema=SCHEMA,
    damaged=DamagedGolden,
    command="samebits golden accept",
    broken=broken_rule,
)


def read_golden(path: Path) -> Golden:
    """Read and verify a golden.

    Raises:
        DamagedGolden: it is truncated, edited, of another schema, or breaks a rule; the message names the field.
        CouldNotRun: it cannot be read.
    """
    return _FILES.read(path)


def sealed(golden: Golden) -> Golden:
    """A golden with the digest of its content.

    Raises:
        DamagedGolden: it breaks a rule.
    """
    broken = broken_rule(golden)
    if broken:
        raise DamagedGolden(f"golden '{golden.name}' is not written: {broken}")
    return replace(golden, content=content_digest(msgspec.to_builtins(golden)))


def encode_golden(golden: Golden) -> bytes:
    """A sealed golden as JSON, indented so that a diff of two is readable."""
    return msgspec.json.format(msgspec.json.encode(golden), indent=1) + b"\n"


def write_golden(path: Path, golden: Golden) -> None:
    """Write a golden atomically; call it inside `locked(path.parent)`.

    Raises:
        DamagedGolden: it breaks a rule.
        CouldNotRun: the file cannot be written; the old one is unchanged.
    """
    _FILES.write(path, sealed(golden))
