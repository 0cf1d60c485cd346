"""The journal of a search: one JSON line per run, so that an interrupted search resumes where it stopped.

Each line is written and flushed at once; an incomplete last line is dropped when reading. The first line holds a digest
of the search, and the journal of another search is rejected. Each judgement has a digest of what was read until then:
one that rests on a file that has changed since does not count, and one that rests on what cannot be compared, such as
another program, is not written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from samebits.bisect.search.judgement import Judgement
from samebits.errors import RequestError
from samebits.host.file_reads import OUTSIDE, state_of
from samebits.host.isolation import note

FORMAT = "samebits bisect journal 2"


class SearchJournal:
    """The judgements of one search, by the key of the point that was run.

    Args:
        path: the file; created with the first judgement.
        what: a digest of everything that the judgements depend on besides the point and what is read.
        reads: tells what was read so far (`FileReads.all`).

    Raises:
        RequestError: the file belongs to another search, or is not a journal.
    """

    def __init__(self, path: Path, what: str, reads: Callable[[], Iterable[str]] = tuple) -> None:
        self.path = path
        self._can_write = True
        self.what = what
        self._reads = reads
        self.looks: dict[str, list[Judgement]] = {}
        self._whole = 0
        if path.exists() and path.stat().st_size:
            self._read()

    def _read(self) -> None:
        try:
            text = self.path.read_bytes()
        except OSError as error:
            raise RequestError(f"journal {self.path}: cannot be read: {error.strerror or error}") from None
        lines = text.split(b"\n")
        torn = lines.pop()  # empty, or an incomplete last line
        self._whole = len(text) - len(torn)
        if not lines:
            return
        try:
            head = json.loads(lines[0])
            same = head["format"] == FORMAT
            what = head["what"]
            looks = [json.loads(line) for line in lines[1:]]
        except (ValueError, KeyError, TypeError):
            raise RequestError(
                f"journal {self.path}: is not a journal of a bisection; give another file, or remove it"
            ) from None
        if not same or what != self.what:
            raise RequestError(
                f"journal {self.path}: belongs to another search; give another file, or remove it to start over"
            )
        states: dict[str, str] = {}
        for look in looks:
            key, reads = look.pop("key"), look.pop("reads")
            for read in reads.keys() - states.keys():
                states[read] = state_of(read)
            if all(states[read] == state for read, state in reads.items()):
                self.looks.setdefault(key, []).append(Judgement(**look))

    def add(self, key: str, look: Judgement) -> None:
        """Append one judgement."""
        self.looks.setdefault(key, []).append(look)
        reads = [*self._reads()]
        if any(read.startswith(OUTSIDE) for read in reads):
            return
        line = _line({"key": key, "reads": {read: state_of(read) for read in reads}, **asdict(look)})
        if self._can_write:
            try:
                self._write(line)
            except OSError as error:  # the search goes on: its judgements are known in this process
                self._can_write = False
                why = error.strerror or error
                words = f"journal {self.path}: cannot be written ({why}): this search cannot be continued later"
                note(words, lasting=False)

    def _write(self, line: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        first = self._whole == 0
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.truncate(self._whole)
            file.seek(self._whole)
            if first:
                file.write(_line({"format": FORMAT, "what": self.what}))
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._whole = file.tell()


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, default=str).encode() + b"\n"
