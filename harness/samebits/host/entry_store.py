"""A file of entries, each with a key, shared by any number of processes: SQLite, as Python brings it along.

Not diskcache: it pickles, so that reading a shared folder may execute somebody else's code. An entry here is bytes with
a checksum. A process that is killed at any moment leaves whole entries; what is damaged all the same is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUSY_SECONDS = 60.0
"""How long a process waits for another one's write."""

USED_SECONDS = 3600
"""How stale the note of an entry's last use may be; a note for every use would be a write for every read."""

_TABLE = """CREATE TABLE IF NOT EXISTS entries
    (key TEXT PRIMARY KEY, content BLOB NOT NULL, digest BLOB NOT NULL, size INTEGER NOT NULL, made REAL NOT NULL,
     used REAL NOT NULL) WITHOUT ROWID"""

_YEAR_3000 = 32_503_680_000
"""In seconds since the epoch; what a damaged file says is later."""

_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "9p", "afs", "fuse.sshfs")
"""File systems of several machines, on which SQLite's write-ahead log does not work: its index is shared memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreSize:
    """How large a store is.

    Args:
        entries: how many there are.
        content: their bytes.
        oldest, newest: when they were made, in seconds since the epoch; None where there are none.
    """

    entries: int
    content: int
    oldest: float | None
    newest: float | None


class EntryStore:
    """Entries in a file; never an error of the caller: what cannot be read is missing, what cannot be written is lost.

    Args:
        path: of the file; its folder is created.
        limit: how many bytes of content are retained when the store is closed.
    """

    def __init__(self, path: Path, limit: int | None = None) -> None:
        self.path, self.limit = path, limit
        self.remarks: list[str] = []
        self._used: set[str] = set()
        self._wrote = False
        self._connection: sqlite3.Connection | None = self._opened()

    @property
    def usable(self) -> bool:
        """Whether entries can be read and written at all; if not, a remark says why."""
        return self._connection is not None

    def get(self, key: str) -> bytes | None:
        """Return the content of an entry; None where there is none, or where it is damaged and dropped."""
        rows = self._execute("SELECT content, digest, used FROM entries WHERE key = ?", key)
        if not rows:
            return None
        packed, digest, used = rows[0]
        whole = isinstance(packed, bytes) and isinstance(digest, bytes) and isinstance(used, int | float)
        content = _unpacked(key, packed, digest) if whole else None
        if content is None:
            self.remove(key)
        elif used < time.time() - USED_SECONDS:
            self._used.add(key)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Write an entry, in place of one of the same key."""
        packed, now = zlib.compress(content, 1), time.time()
        values = (key, packed, _digest(key, packed), len(packed), now, now)
        self._execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", *values)
        self._wrote = True

    def remove(self, key: str) -> None:
        """Remove an entry, if there is one."""
        self._execute("DELETE FROM entries WHERE key = ?", key)

    def size(self) -> StoreSize:
        """Return how many entries there are, and how large they are."""
        rows = self._execute("SELECT COUNT(*), TOTAL(size), MIN(made), MAX(made) FROM entries")
        entries, content, *days = rows[0] if rows else (0, 0, None, None)
        oldest, newest = (day if isinstance(day, int | float) and 0 <= day < _YEAR_3000 else None for day in days)
        return StoreSize(entries=entries, content=int(content), oldest=oldest, newest=newest)

    def drop(self, before: float | None = None) -> int:
        """Remove entries, and return their number.

        Args:
            before: only those that were last used before; all by default.
        """
        count = self.size().entries
        self._execute("DELETE FROM entries WHERE used < ?", float("inf") if before is None else before)
        left = self.size().entries
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # another process is reading; the file shrinks another time
                self._connection.execute("VACUUM")
        return count - left

    def close(self) -> None:
        """Note down which entries were used, and remove those used longest ago until the rest is within the limit."""
        if self._connection is None:
            return
        if self._used:
            self._execute_many("UPDATE entries SET used = ? WHERE key = ?", [(time.time(), key) for key in self._used])
        if self._wrote and self.limit is not None and self.size().content > self.limit:
            self._shrink(self.limit)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _shrink(self, limit: int) -> None:
        rest, going = self.size().content, []
        # Down to nine tenths, so that the next run does not have to do it again.
        for key, size in self._execute("SELECT key, size FROM entries ORDER BY used"):
            if rest <= limit * 0.9:
                break
            going.append((key,))
            rest -= size
        self._execute_many("DELETE FROM entries WHERE key = ?", going)

    def _opened(self) -> sqlite3.Connection | None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return _connected_in_turn(self.path)
        except sqlite3.OperationalError as error:  # locked, or the folder or the disk does not allow it
            self.remarks.append(f"{self.path} cannot be used ({error}): nothing is remembered in this run")
        except sqlite3.DatabaseError as error:
            return self._rebuilt(error)
        except OSError as error:
            self.remarks.append(f"{error.filename}: {error.strerror}: nothing is remembered in this run")
        return None

    def _rebuilt(self, error: sqlite3.DatabaseError) -> sqlite3.Connection | None:
        """Return a new file in place of a damaged one, which is set aside; or that of a process that was faster."""
        try:
            with _alone(self.path.with_name(self.path.name + ".lock")):
                with contextlib.suppress(sqlite3.DatabaseError):
                    if (connection := _if_whole(_connected(self.path))) is not None:
                        return connection
                aside = self.path.with_name(f"{self.path.name}.damaged")
                os.replace(self.path, aside)
                for suffix in ("-wal", "-shm"):  # they belong to the damaged file
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
                self.remarks.append(f"{self.path} was damaged ({error}); it is set aside as {aside.name}, and rebuilt")
                return _connected(self.path)
        except (OSError, sqlite3.Error) as again:
            self.remarks.append(f"{self.path} is damaged and cannot be rebuilt ({again}): nothing is remembered")
            return None

    def _execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._attempt(lambda connection: connection.execute(statement, values).fetchall())

    def _execute_many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        def run(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(statement, values)
            except BaseException:  # Ctrl-C too: the transaction would lock others out
                with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back by itself
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            return []

        self._attempt(run)

    def _attempt(self, run: Any) -> list[tuple[Any, ...]]:
        """Return what a statement returns; nothing, with a remark, where the file is damaged, full or locked."""
        if self._connection is None:
            return []
        try:
            rows: list[tuple[Any, ...]] = run(self._connection)
            return rows
        except sqlite3.OperationalError as error:
            self.remarks.append(f"{self.path}: {error}; nothing more is remembered in this run")
            self._connection.close()
            self._connection = None
        except sqlite3.DatabaseError as error:
            self._connection.close()
            self._connection = self._rebuilt(error)
        return []


def _connected_in_turn(path: Path) -> sqlite3.Connection:
    """Return an open file, also where several processes create it at once.

    SQLite does not wait there: two that both want to change the kind of the log would wait for each other.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _connected(path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.01, 0.1))


def _connected(path: Path) -> sqlite3.Connection:
    """Return an open file with its table; every statement is a transaction of its own."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        # Where the log cannot be had, SQLite stays with its rollback journal, which is slower and as safe.
        connection.execute(f"PRAGMA journal_mode = {'TRUNCATE' if on_network(path) else 'WAL'}")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_TABLE)
        connection.execute("SELECT key FROM entries LIMIT 1").fetchall()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _if_whole(connection: sqlite3.Connection) -> sqlite3.Connection | None:
    """Return the connection, or None where its file is damaged; then it is closed."""
    whole = False
    try:
        whole = connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    finally:
        if not whole:
            connection.close()
    return connection if whole else None


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep all other processes of this machine out."""
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def on_network(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Return whether a path lies on a file system of several machines, as far as the system says so."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:  # not Linux
        return False
    inside = [(len(line[1]), line[2]) for line in lines if len(line) > 2 and path.resolve().is_relative_to(line[1])]
    return bool(inside) and max(inside)[1] in _NETWORK


def _unpacked(key: str, packed: bytes, digest: bytes) -> bytes | None:
    if digest != _digest(key, packed):
        return None
    try:
        return zlib.decompress(packed)
    except (zlib.error, TypeError):  # damaged in a way that the digest shares: written so
        return None


def _digest(key: str, packed: bytes) -> bytes:
    """Digest a content with its key, so that one that belongs to another entry counts as damaged."""
    return hashlib.sha256(key.encode() + b"\0" + bytes(packed)).digest()
