"""JSON files that detect edits by hand: they hold a digest of their content, and are written atomically.

A writer locks the folder, writes a hidden file beside the target, and renames it. Readers need no lock: they see either
the old file or the new one. The lock is an operating system lock, which ends with its process.
filelock (4.2 was tried) would leave its lock file behind, here in a folder that git tracks.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from samebits.errors import CouldNotRun, SamebitsError
from samebits.schema.json_text import content_digest, unknown_key

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Sealed(Generic[R]):
    """A kind of sealed file.

    Args:
        what: its name in messages, such as `golden`.
        kind: the type of its record, with the fields `schema` and `content`.
        schema: the only schema that is accepted.
        damaged: the error for a file that is truncated, edited or of another schema.
        broken: returns the first broken rule of a record, naming the field.
    """

    what: str
    kind: type[R]
    schema: str
    damaged: type[SamebitsError]
    command: str
    broken: Callable[[R], str | None]

    def read(self, path: Path) -> R:
        """Read and verify a record."""
        plain = self._plain(path)
        try:
            record = msgspec.convert(plain, self.kind, strict=True)
        except msgspec.MsgspecError as error:
            raise self._damaged(path, f"not a {self.schema} document: {error}; restore the file") from None
        stranger = unknown_key(plain, record)
        if stranger:
            raise self._damaged(path, f"the key {stranger} is unknown to {self.schema}; restore the file")
        if plain["content"] != content_digest(plain):
            raise self._damaged(
                path,
                "content is not the digest of the rest: edited by hand, or merged; restore the file, and "
                f"change it with `{self.command}` alone",
            )
        broken = self.broken(record)
        if broken:
            raise self._damaged(path, broken)
        return record

    def write(self, path: Path, record: R) -> None:
        """Write a sealed record atomically; call it inside `locked(path.parent)`."""
        data = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
        try:
            for left in path.parent.glob(".*.json.*"):
                left.unlink(missing_ok=True)  # left by a writer that was killed: the lock excludes any other
            handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                self.read(Path(draft))  # verify the new file before it replaces the old one
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
            raise CouldNotRun(f"{self.what} {path}: cannot be written: {error.strerror or error}") from None

    def _plain(self, path: Path) -> dict[str, Any]:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise CouldNotRun(f"{self.what} {path}: cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise self._damaged(path, f"byte {error.start} is not UTF-8; restore the file") from None
        try:
            plain = json.loads(text, parse_constant=self._refuse_constant)
        except json.JSONDecodeError as error:
            raise self._damaged(path, f"no JSON at line {error.lineno}: {error.msg}; restore the file") from None
        except ValueError as error:
            raise self._damaged(path, f"{error}; restore the file") from None
        if not isinstance(plain, dict) or plain.get("schema") != self.schema:
            got = plain.get("schema") if isinstance(plain, dict) else type(plain).__name__
            raise self._damaged(path, f"schema is {got!r}; this samebits reads '{self.schema}'")
        return plain

    def _damaged(self, path: Path, why: str) -> SamebitsError:
        return self.damaged(f"{self.what} {path}: {why}")

    def _refuse_constant(self, name: str) -> Any:
        raise ValueError(f"{name} is not a number of a {self.what}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Exclude other writers from a folder, in this process and others; the folder is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
