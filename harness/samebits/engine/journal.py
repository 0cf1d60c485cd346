"""The journal of a run: each result is on disk as soon as it is known, so that the run can go on after it was killed.

A file of checked lines (see `checked_lines`): first what was asked for, then a line per item. Where a run goes on at
another commit, what was asked for is there once more. A torn last line, of a process that was killed or of a power
failure, is dropped and counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from samebits.errors import RequestError
from samebits.host.written import Written


# Lines of JSON that show whether they are whole: each begins with the checksum of the rest.
def encode_line(value: object) -> bytes:
    """Return one line: CRC-32 in eight hexadecimal digits, a blank, JSON without line breaks."""
    text = msgspec.json.encode(value)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode_line(line: bytes) -> bytes | None:
    """Return the JSON of a line without its line break; None where it is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    return text if checksum == b"%08x" % zlib.crc32(text) else None


class LineReader:
    """Reads a file that another process appends to, each line once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> list[bytes]:
        """Return the JSON of the lines that were completed since the last call; damaged ones are left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        decoded = [decode_line(line) for line in whole.splitlines()]
        return [line for line in decoded if line is not None]


FORMAT: Literal["samebits journal 1"] = "samebits journal 1"
_HEAD = b'{"format":'


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalHead:
    """What a journal is of.

    Args:
        request: everything that was asked for, but for the shard.
        shard: such as `3/8`; None for the whole.
        written: when the run began, and at which commit; None where an older samebits wrote it.
    """

    format: Literal["samebits journal 1"] = FORMAT
    command: str
    request: Mapping[str, Any]
    shard: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    written: Written | None = None


class Entry(msgspec.Struct, frozen=True, rename={"cache_key": "sign", "dependencies": "rests_on"}):
    """The rows of an item.

    Args:
        cache_key: a digest of everything that the rows depend on; None where it is not known.
        dependencies: what was read for them besides, with digests.
    """

    key: str
    cache_key: str | None
    rows: tuple[msgspec.Raw, ...]
    dependencies: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class JournalText:
    """What a journal holds.

    Args:
        head: of the run that wrote to it last, with uncommitted changes where any of them had some; None where not
            even that was written.
        entries: by key; the last of several.
        damaged: how many lines were dropped.
        size: of what can be read, in bytes.
        continued: the commits of all runs that wrote to it, in order, where there are several; None of one is unknown.
    """

    head: JournalHead | None
    entries: Mapping[str, Entry]
    damaged: int
    size: int
    continued: tuple[str | None, ...] = ()


def read_journal(path: Path) -> JournalText:
    """Return what a journal holds, as far as it is whole."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RequestError(f"journal {path}: cannot be read: {error.strerror or error}") from None
    whole = text[: text.rfind(b"\n") + 1]
    decoded = [decode_line(line) for line in whole.splitlines()]
    lines = [line for line in decoded if line is not None]
    damaged = len(decoded) - len(lines) + bool(text[len(whole) :])
    if not text:
        return JournalText(None, {}, 0, 0)
    if not lines or decoded[0] is None:
        raise RequestError(f"journal {path}: is not a journal of samebits; give another file, or remove it")
    try:
        heads = [msgspec.json.decode(lines[0], type=JournalHead)]
        entries = []
        for line in lines[1:]:
            if line.startswith(_HEAD):
                heads.append(msgspec.json.decode(line, type=JournalHead))
            else:
                entries.append(msgspec.json.decode(line, type=Entry))
    except msgspec.MsgspecError as error:
        raise RequestError(
            f"journal {path}: is not of the format '{FORMAT}': {error}; give another file, or remove it"
        ) from None
    commits = tuple(dict.fromkeys(None if head.written is None else head.written.commit for head in heads))
    by_key = {entry.key: entry for entry in entries}
    return JournalText(_last(heads), by_key, damaged, len(whole), commits if len(commits) > 1 else ())


def _last(heads: Sequence[JournalHead]) -> JournalHead:
    """Return the last head; what an earlier run of an edited tree found may still be in the journal."""
    last = heads[-1]
    if last.written is None or not any(head.written is not None and head.written.dirty for head in heads):
        return last
    return replace(last, written=replace(last.written, dirty=True))


class Journal:
    """A journal that is written; `failed` says why nothing is written any more, as where the disk is full.

    `taken` counts the items of the earlier run whose rows this one takes from it.

    Args:
        resume: go on with what is in it; otherwise it begins anew.

    Raises:
        RequestError: it cannot be written, another run writes it, or it is of another request.
    """

    def __init__(self, path: Path, head: JournalHead, *, resume: bool) -> None:
        self.path = path
        self.before = JournalText(None, {}, 0, 0)
        self.taken = 0
        self.failed: str | None = None
        self._unsynced = False
        self._file = _open_locked(path)
        try:
            before = read_journal(path)  # also of a run that begins anew: no other file is overwritten
            if resume:
                _require_same(path, before.head, head)
                self.before = before
            os.ftruncate(self._file, self.before.size)
            if self.before.head is None or _is_elsewhere(self.before.head, head):
                self._write(head)
                self.sync()
        except OSError as error:
            os.close(self._file)
            if not self.before.size:  # nothing that a run could go on with
                path.unlink(missing_ok=True)
            raise RequestError(f"journal {path}: cannot be written: {error.strerror or error}") from None
        except BaseException:
            os.close(self._file)
            raise

    def add(
        self,
        key: str,
        cache_key: str | None,
        rows: tuple[msgspec.Raw, ...],
        dependencies: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Append the rows of an item, with what `Entry` says of them; nothing once the disk is full."""
        if self.failed is None:
            with self._noting_failure():
                self._write(Entry(key, cache_key, rows, dependencies))

    def sync(self) -> None:
        """Have the system write to the disk what was added: from here on no power failure loses it."""
        if self._unsynced:
            with self._noting_failure():
                os.fsync(self._file)
            self._unsynced = False

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Go on where the disk is full: what could not be written down is said at the end of the run."""
        try:
            yield
        except OSError as error:
            self.failed = error.strerror or str(error)

    def close(self, *, remove: bool) -> None:
        """End writing; `remove` where the run is complete, and its document says everything."""
        self.sync()
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._file)

    def _write(self, value: object) -> None:
        line = encode_line(value)
        while line:
            line = line[os.write(self._file, line) :]
        self._unsynced = True


def _open_locked(path: Path) -> int:
    """Return the descriptor of a file that no other process writes."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise RequestError(f"journal {path}: cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise RequestError(
                f"journal {path}: another run writes it; wait for its end, or give --journal FILE"
            ) from None
        except OSError as error:  # a file system without locks
            os.close(file)
            raise RequestError(
                f"journal {path}: cannot be locked: {error.strerror or error}; give --journal FILE on a local disk"
            ) from None
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # the run that held it has come to its end and removed it


def _require_same(path: Path, before: JournalHead | None, head: JournalHead) -> None:
    if before is None:
        return
    for name in ("command", "request", "shard"):
        old, new = getattr(before, name), getattr(head, name)
        if msgspec.json.encode(old) != msgspec.json.encode(new):
            raise RequestError(
                f"journal {path}: is of another {name}: {msgspec.json.encode(old).decode()}, not "
                f"{msgspec.json.encode(new).decode()}; ask for the same, or give --journal FILE"
            )


def _is_elsewhere(before: JournalHead, head: JournalHead) -> bool:
    """Return whether a run goes on at another commit, or with other uncommitted changes."""
    at = [part.written and (part.written.commit, part.written.dirty) for part in (before, head)]
    return at[0] != at[1]


def default_name(head: JournalHead) -> str:
    """Return a file name that is the same for the same request alone."""
    what = msgspec.json.encode((head.command, head.request, head.shard), order="sorted")
    return f"{head.command}-{hashlib.sha256(what).hexdigest()[:16]}.journal"
