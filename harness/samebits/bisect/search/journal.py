"""The journal of a search: one JSON line per run, so that an interrupted search resumes where it stopped.

Each line is written and flushed at once; an incomplete last line is dropped when reading. The first line holds a digest
of the search, and the journal of another search is rejected.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from samebits.bisect.search.judgement import Judgement
from samebits.errors import RequestError

FORMAT = "samebits bisect journal 1"


class SearchJournal:
    """The judgements of one search, by the key of the point that was run.

    Args:
        path: the file; created with the first judgement.
        what: a digest of everything that the judgements depend on besides the point.

    Raises:
        RequestError: the file belongs to another search, or is not a journal.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
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
        for look in looks:
            self.looks.setdefault(look.pop("key"), []).append(Judgement(**look))

    def add(self, key: str, look: Judgement) -> None:
        """Append one judgement."""
        self.looks.setdefault(key, []).append(look)
        first = self._whole == 0
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.truncate(self._whole)
            file.seek(self._whole)
            if first:
                file.write(_line({"format": FORMAT, "what": self.what}))
            file.write(_line({"key": key, **asdict(look)}))
            file.flush()
            os.fsync(file.fileno())
            self._whole = file.tell()


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, default=str).encode() + b"\n"
