"""Compares the defaults of two sources of configuration: YAML, JSON or TOML files, or schemas in Python."""

from __future__ import annotations

import dataclasses
import enum
import json
import struct
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import yaml

from samebits.errors import CouldNotRun, RequestError
from samebits.host.loading import load_module


class Required:
    """Stands for a key that has no default."""

    def __repr__(self) -> str:
        return "no default"


REQUIRED = Required()
SUFFIXES = (".yml", ".yaml", ".json", ".toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The defaults of one source.

    Args:
        values: by key; keys of nested tables are joined with dots. Values are None, booleans, numbers, texts or tuples
            of them, or `REQUIRED`.
    """

    name: str
    values: Mapping[str, Any]


def read_source(text: str) -> Source:
    """Return the defaults of a file, by its ending, or of `module:Name`: a schema or a mapping."""
    path = Path(text)
    if path.suffix.lower() in SUFFIXES:
        values = dict(_flattened(_file(path), ""))
    elif ":" in text:
        module, _, name = text.rpartition(":")
        values = dict(_flattened(_schema(load_module(module), name, text), ""))
    else:
        raise RequestError(
            f"'{text}' is not a source of defaults; expected a file ending in {', '.join(SUFFIXES)}, or module:Name of "
            "a dataclass, a pydantic model, a msgspec struct or a mapping"
        )
    if not values:
        raise RequestError(f"'{text}' has no keys; nothing would be compared")
    return Source(name=text, values=values)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML in which a key that is given twice is an error; otherwise the last one wins in silence."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
        if key in seen:
            raise RequestError(f"{node.start_mark.name}:{line}: key '{key}' stands on line {seen[key]} too; keep one")
        seen[key] = line
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _file(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            if path.suffix.lower() == ".toml":
                values: Any = tomllib.load(file)
            elif path.suffix.lower() == ".json":
                values = json.load(file, object_pairs_hook=lambda pairs: _unique_keys(path, pairs))
            else:
                values = yaml.load(file, _Loader)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise RequestError(f"{path}: cannot be read: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(values, Mapping):
        raise RequestError(f"{path}: expected keys with values at its top, got {type(values).__name__}")
    return values


def _unique_keys(path: Path, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    double = next((key for key in keys if keys.count(key) > 1), None)
    if double is not None:
        raise RequestError(f"{path}: key '{double}' is given twice; keep one")
    return dict(pairs)


def _schema(module: object, name: str, text: str) -> Mapping[str, Any]:
    if not hasattr(module, name):
        raise RequestError(f"'{text}': the module has no '{name}'")
    return _fields(getattr(module, name), text)


def _fields(schema: Any, text: str) -> dict[str, Any]:
    """Return the defaults of a schema, field by field."""
    if isinstance(schema, Mapping):
        return dict(schema)
    if dataclasses.is_dataclass(schema):
        if not isinstance(schema, type):
            return {field.name: getattr(schema, field.name) for field in dataclasses.fields(schema)}
        return {field.name: _of_dataclass(field) for field in dataclasses.fields(schema)}
    # pydantic, recognised by what it offers: it need not be installed here.
    if isinstance(getattr(schema, "model_fields", None), Mapping):
        fields = schema.model_fields.items()
        return {
            str(getattr(field, "alias", None) or key): REQUIRED
            if field.is_required()
            else field.get_default(call_default_factory=True)
            for key, field in fields
        }
    if hasattr(schema, "__struct_fields__"):
        import msgspec

        return {
            field.encode_name: REQUIRED
            if field.required
            else field.default_factory()
            if field.default is msgspec.NODEFAULT
            else field.default
            for field in msgspec.structs.fields(schema)
        }
    kind = type(schema).__name__
    raise RequestError(f"'{text}' is a {kind}; expected a dataclass, a pydantic model, a msgspec struct or a mapping")


def _of_dataclass(field: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return REQUIRED if field.default_factory is dataclasses.MISSING else field.default_factory()


def _flattened(values: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield leaves by dotted key; an empty table is a leaf of its own, or it would vanish."""
    for key, value in values.items():
        name = f"{place}{key}"
        value = value.value if isinstance(value, enum.Enum) else value
        nested = _nested(value)
        if nested:
            yield from _flattened(nested, f"{name}.")
        else:
            yield name, {} if nested is not None else _file_value(value)


def _nested(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "__struct_fields__")):
        return {name: getattr(value, name) for name in _names(value)}
    model = getattr(type(value), "model_fields", None)
    return {name: getattr(value, name) for name in model} if isinstance(model, Mapping) else None


def _names(value: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    return tuple(value.__struct_fields__)


def _file_value(value: Any) -> Any:
    """Make tuples lists and paths texts, as files have no others."""
    if isinstance(value, enum.Enum):
        return _file_value(value.value)
    if isinstance(value, (list, tuple)):
        return tuple(_file_value(element) for element in value)
    return str(value) if isinstance(value, Path) else value


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
