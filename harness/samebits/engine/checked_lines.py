"""Lines of JSON that show whether they are whole: each begins with the checksum of the rest.

What a process appended before it was killed, or before the power failed, can be read up to the line that is torn.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec


def encode_line(value: object) -> bytes:
    """One line: CRC-32 in eight hexadecimal digits, a blank, JSON without line breaks."""
    text = msgspec.json.encode(value)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode_line(line: bytes) -> bytes | None:
    """The JSON of a line without its line break; None where it is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    return text if checksum == b"%08x" % zlib.crc32(text) else None


class LineReader:
    """Reads a file that another process appends to, each line once.

    Args:
        path: the file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> list[bytes]:
        """The JSON of the lines that were completed since the last call; damaged ones are left out."""
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
