"""Locates the syntax error of a JSON text by the path of the field.

msgspec's own errors name the field of a value of the wrong type (and are used for that), but for a syntax error they
give only the byte offset, and for a truncated text not even that (tried with 0.22).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


@dataclass(slots=True)
class _Open:
    """An object or array that is not yet closed, and the current position in it."""

    array: bool
    index: int = 0
    key: str | None = None

    def __str__(self) -> str:
        return f"[{self.index}]" if self.array else "" if self.key is None else f".{self.key}"


def json_error_place(text: str, error: json.JSONDecodeError) -> str:
    """One line: the field in which the file ends, or in which it is not JSON."""
    if not text.strip():
        return "the file is empty"
    place, closed, last = _scan(text)
    if not closed and error.pos >= last:
        return f"the file ends within {place}"
    return f"no JSON at line {error.lineno}, in {_scan(text[: error.pos])[0]}"


def place_at_end(text: str) -> str:
    """The field in which a text ends, as `steps[3].loss`."""
    return _scan(text)[0]


def _scan(text: str) -> tuple[str, bool, int]:
    """The field in which a text ends, whether all brackets are closed, and where the last token begins."""
    stack: list[_Open] = []
    last, begun = 0, False
    for match in _TOKEN.finditer(text):
        token, last = match[0], match.start()
        if token in "{[":
            stack.append(_Open(array=token == "["))
            begun = True
        elif token in "}]":
            if stack:
                stack.pop()
        elif token == "," and stack:
            stack[-1].index += 1
            stack[-1].key = None
        elif token.startswith('"') and stack and not stack[-1].array and stack[-1].key is None:
            stack[-1].key = token.strip('"')
    return "".join(map(str, stack)).removeprefix(".") or "the document", begun and not stack, last
