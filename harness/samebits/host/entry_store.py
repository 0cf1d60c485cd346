"""Entries in a folder, a file for each key, shared by any number of processes: results, and compiled programs.

Not diskcache (5.6.3 was tried): it pickles, so that reading a shared folder may execute somebody else's code, and uses
an SQLite database, whose locks many network file systems do not support. Files that are replaced whole need no lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
import zlib
from pathlib import Path

USED_SECONDS = 3600
"""How stale the time of an entry's last use may be; to note every use would be a write for every read."""

BLOCK = 4096
"""Bytes in which file systems give space to files."""


class EntryStore:
    """Entries in a folder; what cannot be read is missing, what cannot be written is lost, and neither is an error.

    Args:
        limit: how many bytes the entries may take when the store is closed.
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self.folder, self.limit = folder, limit
        self.failed: str | None = None
        self._wrote = False

    def get(self, key: str) -> bytes | None:
        """Return the content of an entry; None where there is none, or where it is damaged and removed."""
        path = self.folder / key
        try:
            with open(path, "rb") as file:
                text, used = file.read(), os.fstat(file.fileno()).st_mtime
        except OSError:  # there is none
            return None
        if used < time.time() - USED_SECONDS:
            with contextlib.suppress(OSError):  # a folder that may only be read
                os.utime(path)
        content = _unpacked(key, text)
        if content is None:
            self.remove(key)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Write an entry, in place of one of the same key; nothing more once one could not be written."""
        if self.failed is not None:
            return
        packed = zlib.compress(content, 1)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file, draft = tempfile.mkstemp(dir=self.folder, prefix=".")
            try:
                with open(file, "wb") as stream:
                    stream.write(_digest(key, packed) + packed)
                os.replace(draft, self.folder / key)
            except BaseException:  # a full disk, and Ctrl-C too
                os.unlink(draft)
                raise
        except OSError as error:
            self.failed = f"{self.folder} cannot be written ({error.strerror}): nothing more is remembered in this run"
        self._wrote = True

    def remove(self, key: str) -> None:
        """Remove an entry, if there is one."""
        with contextlib.suppress(OSError):
            (self.folder / key).unlink()

    def close(self) -> None:
        """Remove the entries used longest ago until the rest is within the limit."""
        if not self._wrote or self.limit is None:
            return
        states = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process has removed it meanwhile
                    states.append((entry.stat().st_mtime, -(-entry.stat().st_size // BLOCK) * BLOCK, entry.name))
        rest = sum(size for _, size, _ in states)
        if rest <= self.limit:
            return
        for _, size, name in sorted(states):
            if rest <= self.limit * 0.9:  # so that the next run does not have to do it again
                break
            self.remove(name)
            rest -= size


def _unpacked(key: str, text: bytes) -> bytes | None:
    digest, packed = text[:32], text[32:]
    if digest != _digest(key, packed):
        return None
    try:
        return zlib.decompress(packed)
    except zlib.error:  # damaged in a way that the digest shares: written so
        return None


def _digest(key: str, packed: bytes) -> bytes:
    """Digest a content with its key, so that one that belongs to another entry counts as damaged."""
    return hashlib.sha256(key.encode() + b"\0" + packed).digest()
