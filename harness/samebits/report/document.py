"""The JSON document: one record that the terminal, Markdown, JSON and later commands all read.

JSON has no infinity: an infinite `error_ratio` is written as null, and stays in words in `evidence`. Null is
read back as NaN where a number is expected.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from samebits.errors import RequestError
from samebits.host.written import Written
from samebits.schema.json_text import unknown_key
from samebits.schema.older_rows import upgraded

D = TypeVar("D")

SCHEMA: Literal["samebits/2"] = "samebits/2"

OLDER = "samebits/1"
"""What is read as well: rows with the fields of all groups side by side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandDocument:
    """What the documents of all commands have.

    Args:
        schema: a published key never changes its meaning within `samebits/2`.
        written: when the run began, and at which commit of its tree; None where an older samebits wrote it.
    """

    schema: Literal["samebits/2"] = SCHEMA
    written: Written | None = None


def to_json(document: object) -> str:
    """Return the document of any command as JSON text, indented so that a diff of two is readable."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def read_as(path: Path, kind: type[D]) -> D:
    """Return a document of a known command from its file, every key and type checked."""
    return as_record(path, read_raw(path), kind)


def read_raw(path: Path) -> dict[str, Any]:
    """Return the JSON object of a document of any command, of which nothing but the schema is checked."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not text.strip():
        raise RequestError(f"{path}: is empty; expected a document that --json FILE wrote")
    try:
        raw = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        cut = " (the file may be cut off)" if "truncated" in str(error) else ""
        raise RequestError(f"{path}: not a {SCHEMA} document: {error}{cut}") from None
    if isinstance(raw, dict) and raw.get("schema") == OLDER:
        return upgraded(raw)
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        got = raw.get("schema") if isinstance(raw, dict) else type(raw).__name__
        raise RequestError(f'{path}: expected a document with "schema": "{SCHEMA}", got {got!r}')
    return raw


def _converted(raw: Mapping[str, Any], kind: type[D]) -> D:
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        if "got `null`" not in str(error):
            raise
        return msgspec.convert(restored(raw, kind), kind, strict=True)


def as_record(path: Path, raw: Mapping[str, Any], kind: type[D]) -> D:
    """Return a document as the record of its command; keys with a default may be missing, as in older versions."""
    try:
        document = _converted(raw, kind)
    except msgspec.ValidationError as error:
        raise RequestError(f"{path}: not a {SCHEMA} document: {error}") from None
    unknown = unknown_key(raw, document)
    if unknown:
        raise RequestError(f"{path}: not a {SCHEMA} document: the key {unknown} is unknown")
    return document


def restored(value: Any, kind: Any) -> Any:
    """Return a JSON value with NaN in place of null wherever its type is `float`; null stays where None is allowed."""
    if kind is float:
        return math.nan if value is None else value
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = [part for part in parts if part is not type(None)]
        return restored(value, inner[0]) if len(inner) == 1 and value is not None else value
    if is_dataclass(kind) and isinstance(value, Mapping):
        hints = get_type_hints(kind)
        known = {field.name: hints[field.name] for field in fields(kind)}
        return {name: restored(part, known.get(name)) for name, part in value.items()}
    if isinstance(value, Mapping) and len(parts) == 2:
        return {name: restored(part, parts[1]) for name, part in value.items()}
    if isinstance(value, list) and origin is tuple and parts:
        each = [parts[0]] * len(value) if parts[-1] is Ellipsis else [*parts, *[None] * len(value)]
        return [restored(part, inner) for part, inner in zip(value, each, strict=False)]
    return value
