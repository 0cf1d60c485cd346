"""Records with nothing in them but what a test is about; fields and types are those of the record itself."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def blank(kind: type[Record], /, **given: Any) -> Record:
    """A record with empty values for all fields that have no default, but for those given."""
    hints = get_type_hints(kind)
    required = [part.name for part in fields(kind) if part.default is MISSING and part.default_factory is MISSING]  # type: ignore[arg-type]
    return kind(**{**{name: _empty(hints[name]) for name in required}, **given})


def _empty(hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if type(None) in parts else _empty(parts[0])
    if origin is Literal:
        return parts[0]
    if origin in (dict, Mapping):
        return {}
    return () if origin is tuple else blank(hint) if hasattr(hint, "__dataclass_fields__") else hint()
