"""Where goldens lie, and how they are read and written: whole or not at all.

A writer holds a lock on the folder, writes a hidden file beside the golden, and renames it. Readers need no lock: they
find the old file or the new one. The lock is one of the operating system's and ends with its process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.checks import unknown_key
from harness.errors import CouldNotRun, DeclarationError
from harness.model import Model
from harness.train.cut import place_at_end, why_no_json
from harness.train.golden import SCHEMA, Golden, Surroundings, content_digest
from harness.train.golden_rules import broken_rule

FOLDER = "goldens"


class DamagedGolden(DeclarationError):
    """The file of a golden is not what was written: cut, edited by hand, or of another schema."""


def platform_folder(here: Surroundings) -> str:
    """The folder of a platform: `cpu`, `gpu-nvidia_h100_80gb_hbm3`, `tpu-tpu_v5_lite`."""
    kind = re.sub(r"[^a-z0-9]+", "_", here.device_kind.lower()).strip("_")
    return here.platform if kind in ("", here.platform) else f"{here.platform}-{kind}"


def golden_path(model: Model, here: Surroundings, matrix: str, config: str) -> Path:
    """The file of a golden."""
    stem = f"{matrix}__{config}" if matrix else config
    return model.origin / FOLDER / platform_folder(here) / f"{stem}.json"


def golden_paths(model: Model, platform: str | None = None) -> list[Path]:
    """The files of all goldens, of one platform's folder or of all; drafts are hidden files and do not count."""
    found = (model.origin / FOLDER).glob(f"{platform or '*'}/*.json")
    return sorted(path for path in found if not path.name.startswith("."))


def read_golden(path: Path) -> Golden:
    """A golden from its file, with every check.

    Raises:
        DamagedGolden: it is cut, edited, of another schema, or breaks a rule; the field is named.
        CouldNotRun: it cannot be read.
    """
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as error:
        raise CouldNotRun(f"golden {path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        place = place_at_end(data[: error.start].decode())
        raise DamagedGolden(f"golden {path}: byte {error.start} is no UTF-8, in {place}; restore the file") from None
    try:
        plain = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise DamagedGolden(f"golden {path}: {why_no_json(text, error)}; restore the file") from None
    except ValueError as error:
        raise DamagedGolden(f"golden {path}: {error}; restore the file") from None
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        got = plain.get("schema") if isinstance(plain, dict) else type(plain).__name__
        raise DamagedGolden(f"golden {path}: schema is {got!r}; this samebits reads '{SCHEMA}'")
    try:
        golden = msgspec.convert(plain, Golden, strict=True)
    except msgspec.MsgspecError as error:
        raise DamagedGolden(f"golden {path}: not a {SCHEMA} document: {error}; restore the file") from None
    stranger = unknown_key(plain, golden)
    if stranger:
        raise DamagedGolden(f"golden {path}: the key {stranger} is unknown to {SCHEMA}; restore the file")
    if golden.content != content_digest(plain):
        raise DamagedGolden(
            f"golden {path}: content is not the digest of the rest: edited by hand, or merged; restore the file, and "
            "change it with `samebits golden accept` alone"
        )
    broken = broken_rule(golden)
    if broken:
        raise DamagedGolden(f"golden {path}: {broken}")
    return golden


def sealed(golden: Golden) -> Golden:
    """A golden with the digest of its content.

    Raises:
        DamagedGolden: it breaks a rule, and no file should hold it.
    """
    broken = broken_rule(golden)
    if broken:
        raise DamagedGolden(f"golden '{golden.name}' is not written: {broken}")
    return replace(golden, content=content_digest(msgspec.to_builtins(golden)))


def encode_golden(golden: Golden) -> bytes:
    """A sealed golden as JSON, indented so that a diff of two is readable."""
    return msgspec.json.format(msgspec.json.encode(golden), indent=1) + b"\n"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder of goldens, in this process and others; made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_golden(path: Path, golden: Golden) -> None:
    """Write a golden whole or not at all; to be called inside `locked(path.parent)`.

    Raises:
        DamagedGolden: it breaks a rule.
        CouldNotRun: the file cannot be written; the old one stays.
    """
    data = encode_golden(sealed(golden))
    try:
        for left in path.parent.glob(".*.json.*"):
            left.unlink(missing_ok=True)  # of a writer that was killed: none other is at work inside the lock
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            read_golden(Path(draft))  # what cannot be read back must not replace what can
            os.chmod(draft, 0o644)
            os.replace(draft, path)
        finally:
            Path(draft).unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise CouldNotRun(f"golden {path}: cannot be written: {error.strerror or error}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of a golden")
