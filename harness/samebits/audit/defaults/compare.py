"""Where two sources of defaults disagree: keys, types, values."""

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
    """What came out.

    Args:
        keys: how many keys either source has, those ignored apart.
        compared: how many both have.
        ignored: keys that were left out.
        required: keys without a default in one of them: nothing to disagree with.
        disagreements: in the order of the first source, then of the second.
    """

    keys: int
    compared: int
    ignored: tuple[str, ...]
    required: tuple[str, ...]
    disagreements: tuple[Disagreement, ...]


def agree(first: Source, second: Source, ignore: Sequence[str] = ()) -> Agreement:
    """Hold two sources against each other.

    A boolean is no number, 1 is not 1.0, and texts are not numbers: `1e-5` without a dot is a text in YAML 1.1.

    Args:
        first, second: the sources.
        ignore: shell patterns of keys to leave out.

    Raises:
        CouldNotRun: they have no key in common; nothing would be compared.
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
    """The type, element by element."""
    return tuple(_form(element) for element in value) if isinstance(value, tuple) else type(value).__name__


def _bits(value: Any) -> Any:
    """What is compared: floats by their bits, so that -0.0 is not 0.0 and nan is itself."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return tuple(_bits(element) for element in value) if isinstance(value, tuple) else value


def _typed(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"
