"""Numbers that are not finite, read back: JSON has no word for them, and documents hold null in their place."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints


def restored(value: Any, kind: Any) -> Any:
    """A JSON value with NaN in place of null wherever its type is `float`; null stays where None is allowed.

    Args:
        value: as JSON gives it.
        kind: the record or type that it is to be converted to.
    """
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
