"""Reads the text that XLA prints of a compiled module: each instruction by its name, and where it comes from.

XLA's own printer writes every attribute, those of later versions too; here its text is only parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_LINE = re.compile(r"^ +(?:ROOT )?%?([\w.\-]+) = (.*)$")
_ROW = re.compile(r"^(\d+) (.*)$")
_NAME = re.compile(r"%([\w.\-]+)")
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\d+)')

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
"""Heads of the tables before the computations, which the numbers of stack frames refer to."""

_UNREAD = (
    "metadata",
    "backend_config",
    "frontend_attributes",
    "control-predecessors",
    "channel_id",
    "origin",
    "statistics",
)
"""Attributes that a line is shown without: names, numbers and places, or long configurations in JSON."""

_COMMENT = re.compile(r"/\*.*?\*/")

_CLOSING = {"{": "}", "(": ")", "[": "]"}


class PrintedModule:
    """Holds a module as XLA prints it."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, str] = {}
        self._tables: dict[str, dict[int, str]] = {name: {} for name in _TABLES}
        table: dict[int, str] | None = None
        for line in text.splitlines():
            if line in self._tables:
                table = self._tables[line]
            elif table is not None and (row := _ROW.match(line)):
                table[int(row[1])] = row[2]
            elif instruction := _LINE.match(line):
                self._lines[instruction[1]] = instruction[2]

    @property
    def names(self) -> list[str]:
        """Name all instructions, in the order of the text."""
        return list(self._lines)

    def text(self, name: str, renamed: Callable[[str], str]) -> str:
        """Return an instruction without its own name, and without metadata and configurations, its operands renamed."""
        line = _COMMENT.sub("", self._lines.get(name, ""))
        for attribute in _UNREAD:
            line = _without(line, attribute)
        return _NAME.sub(lambda match: renamed(match[1]), line)

    def source(self, name: str) -> str | None:
        """Return the operation of JAX that an instruction comes from, with its function and file where XLA noted them.

        Line numbers are left out: a program from the cache has those of the day on which it was compiled.
        """
        line = self._lines.get(name, "")
        start = line.find(", metadata={")
        if start < 0:
            return None
        fields = {key: value.strip('"') for key, value in _FIELD.findall(line[start : _end(line, start + 11)])}
        words = [fields.get("op_name", "").replace("\\'", "'"), self._function(fields)]
        return "; ".join(filter(None, words)) or None

    def _function(self, fields: dict[str, str]) -> str:
        """Return such as `permute in sequence_reorder.py`."""
        file = fields.get("source_file", "")
        function = ""
        frame = self._row("StackFrames", fields.get("stack_frame_id"))
        place = self._row("FileLocations", frame.get("file_location_id"))
        if place:
            file = self._text("FileNames", place.get("file_name_id"))
            function = self._text("FunctionNames", place.get("function_name_id"))
        file = file.replace("\\", "/").rpartition("/")[2]
        return f"{function} in {file}" if function and file else file

    def _row(self, table: str, number: str | None) -> dict[str, str]:
        return dict(_FIELD.findall(self._tables[table].get(int(number or 0), "")))

    def _text(self, table: str, number: str | None) -> str:
        return self._tables[table].get(int(number or 0), "").strip('"')


def _without(line: str, attribute: str) -> str:
    """Return a line without one attribute."""
    start = line.find(f", {attribute}=")
    if start < 0:
        return line
    return line[:start] + line[_end(line, start + len(attribute) + 3) :]


def _end(line: str, start: int) -> int:
    """Find where a value ends that begins at a place: after its closing bracket or quote, else at the next comma."""
    awaited: list[str] = []
    quoted = False
    place = start
    while place < len(line):
        letter = line[place]
        if quoted:
            place += letter == "\\"
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in _CLOSING:
            awaited.append(_CLOSING[letter])
        elif awaited and letter == awaited[-1]:
            awaited.pop()
        elif letter == "," and not awaited:
            return place
        place += 1
        if not awaited and not quoted and letter in '"})]':
            return place
    return place
