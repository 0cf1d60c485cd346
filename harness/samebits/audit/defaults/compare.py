"""Finds the disagreements of two sources of defaults: missing keys, different types, different values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from samebits.audit.defaults.sources import REQUIRED, Source
from samebits.errors import CouldNotRun

Kind = Literal["missing", "type", "value"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """One key on which two sources disagree.

    Args:
        key: dotted.
        kind: `missing` in one, another `type`, another `value`.
        first, second: the defaults in words; None where the key is missing.
    """

    key: str
    kind: Kind
    first: str | None
    second: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """The result of comparing two sources.

    Args:
        keys: the number of keys in either source, without the ignored ones.
        compared: the number of keys that were compared.
        ignored: the ignored keys.
        required: keys without a default in one of the sources, which cannot disagree.
        disagreements: in the order of the first source, then of the second.
    """

    keys: int
    compared: int
    ignored: tuple[str, ...]
    required: tuple[str, ...]
    disagreements: tuple[Disagreement, ...]


def compare_sources(first: Source, second: Source, ignore: Sequence[str] = ()) -> Agreement:
    """Compare two sources.

    Types are strict: a boolean is not a number, 1 is not 1.0, and a string is not a number (`1e-5` without a dot is a
    string in YAML 1.1).

    Raises:
        CouldNotRun: they have no key in common, so nothing would be compared.
    """
    every = list(dict.fromkeys((*first.values, *second.values)))
    ignored = tuple(key for key in every if any(fnmatchcase(key, pattern) for pattern in ignore))
    keys = [key for key in every if key not in ignored]
    both = [key for key in keys if key in first.values and key in second.values]
    if not both:
        raise CouldNotRun(f"'{first.name}' and '{second.name}' have no key in common; nothing was compared")
    required = tuple(key for key in both if first.values[key] is REQUIRED or second.values[key] is REQUIRED)
    disagreements = [_judged(key, first, second) for key in keys if key not in required]
    return Agreement(
        keys=len(keys),
        compared=len(both) - len(required),
        ignored=ignored,
        required=required,
        disagreements=tuple(disagreement for disagreement in disagreements if disagreement is not None),
    )


def _judged(key: str, first: Source, second: Source) -> Disagreement | None:
    if key not in first.values or key not in second.values:
        shown = [repr(source.values[key]) if key in source.values else None for source in (first, second)]
        return Disagreement(key=key, kind="missing", first=shown[0], second=shown[1])
    default, other = first.values[key], second.values[key]
    if _form(default) != _form(other):
        return Disagreement(key=key, kind="type", first=_typed(default), second=_typed(other))
    if _bits(default) != _bits(other):
        return Disagreement(key=key, kind="value", first=repr(default), second=repr(other))
    return None


def _form(value: Any) -> Any:
    """Return the type name; for a tuple, those of its elements."""
    return tuple(_form(element) for element in value) if isinstance(value, tuple) else type(value).__name__


def _bits(value: Any) -> Any:
    """Return the value to compare: floats by their bits, so that -0.0 differs from 0.0 and NaN equals itself."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return tuple(_bits(element) for element in value) if isinstance(value, tuple) else value


def _typed(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"
