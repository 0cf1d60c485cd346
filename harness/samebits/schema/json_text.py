"""JSON documents as texts: their canonical form and digest, and keys that their records do not have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any


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
