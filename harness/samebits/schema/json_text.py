"""JSON documents as texts: their canonical form and digest, unknown keys, and where a syntax error is.

msgspec's own errors name the field of a value of the wrong type (and are used for that), but for a syntax error they
give only the byte offset, and for a truncated text not even that (tried with 0.22).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def canonical(value: Any) -> str:
    """Write canonical JSON: equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def content_digest(plain: Mapping[str, Any]) -> str:
    """Digest a document, as plain JSON, over everything but `content`."""
    return hashlib.sha256(canonical({k: v for k, v in plain.items() if k != "content"}).encode()).hexdigest()


def unknown_key(raw: Any, typed: Any, place: str = "$") -> str | None:
    """Return the first key of a JSON document that its records do not have; msgspec itself skips those."""
    pairs: Iterable[tuple[str, Any, Any]] = ()
    if is_dataclass(typed) and isinstance(raw, Mapping):
        known = {field.name for field in fields(typed)}
        strange = next((key for key in raw if key not in known), None)
        if strange is not None:
            return f"{place}.{strange}"
        pairs = ((f"{place}.{key}", value, getattr(typed, key)) for key, value in raw.items())
    elif isinstance(typed, Mapping) and isinstance(raw, Mapping):
        pairs = ((f"{place}.{key}", value, typed[key]) for key, value in raw.items())
    elif isinstance(typed, tuple) and isinstance(raw, list):
        pairs = (
            (f"{place}[{i}]", raw_value, other) for i, (raw_value, other) in enumerate(zip(raw, typed, strict=True))
        )
    return next(
        (key_path for where, raw_value, other in pairs if (key_path := unknown_key(raw_value, other, where))), None
    )


@dataclass(slots=True)
class _Open:
    """An object or array that is not yet closed, and the current position in it."""

    array: bool
    index: int = 0
    key: str | None = None

    def __str__(self) -> str:
        return f"[{self.index}]" if self.array else "" if self.key is None else f".{self.key}"


def json_error_place(text: str, error: json.JSONDecodeError) -> str:
    """Say in one line where the file ends, or where it is not JSON: the field."""
    if not text.strip():
        return "the file is empty"
    place, closed, last = _scan(text)
    if not closed and error.pos >= last:
        return f"the file ends within {place}"
    return f"no JSON at line {error.lineno}, in {_scan(text[: error.pos])[0]}"


def place_at_end(text: str) -> str:
    """Return the field in which a text ends, as `steps[3].loss`."""
    return _scan(text)[0]


def _scan(text: str) -> tuple[str, bool, int]:
    """Return the field in which a text ends, whether all brackets are closed, and where the last token begins."""
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
