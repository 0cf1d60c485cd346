"""Every string of a record replaced by one that runs a script wherever it is taken for markup, code or an address."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

R = TypeVar("R")

PAYLOAD = (
    " </script><script>planted({n})</script>--><img src=x onerror=planted({n})>{{{{ 7*7 }}}}"
    "<a href=\"javascript:planted({n})\">a</a>' onfocus='planted({n})' autofocus='\" onmouseover=\"planted({n})`${{1}}"
)
"""What follows the text of each string: ends of elements, attributes, comments, templates and template strings."""


@dataclass(slots=True)
class Planting:
    """The strings that were replaced."""

    texts: dict[str, str] = field(default_factory=dict)
    _new: dict[str, str] = field(default_factory=dict)

    def plant(self, record: R) -> R:
        """The same record with every string replaced that is not one of a fixed set of words."""
        planted: R = self._value(record, type(record), "")
        return planted

    def text(self, path: str, old: str) -> str:
        """The text that takes a string's place, equal for equal strings: results still belong to their pair."""
        self.texts[path] = self._new.setdefault(old, old + PAYLOAD.format(n=len(self._new)))
        return self.texts[path]

    def _value(self, value: Any, kind: Any, path: str) -> Any:
        """A value of a declared type; what is declared as `Any` is taken as it comes."""
        members = _members(kind)
        if isinstance(value, str):
            fixed = [word for member in members if get_origin(member) is Literal for word in get_args(member)]
            return value if value in fixed else self.text(path, value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            kinds = get_type_hints(type(value))
            names = [each.name for each in dataclasses.fields(value) if each.init]
            return dataclasses.replace(
                value, **{name: self._value(getattr(value, name), kinds[name], _join(path, name)) for name in names}
            )
        if isinstance(value, Mapping):
            return self._mapping(value, members, path)
        if isinstance(value, list | tuple):
            inner = _inner(members)
            return type(value)(
                self._value(each, inner[min(number, len(inner) - 1)], _join(path, number))
                for number, each in enumerate(value)
            )
        return value

    def _mapping(self, value: Mapping[Any, Any], members: list[Any], path: str) -> dict[Any, Any]:
        """Names stay, as sections look some of them up, such as the version of jax; one with markup is added."""
        records = [get_type_hints(member) for member in members if is_typeddict(member)]
        if records:
            return {key: self._value(each, records[0].get(key, Any), _join(path, key)) for key, each in value.items()}
        kind = _inner(members)[-1]
        replaced = {key: self._value(each, kind, _join(path, key)) for key, each in value.items()}
        if replaced and all(isinstance(key, str) for key in value):
            last = next(reversed(replaced))
            replaced[self.text(_join(path, "added key"), last)] = replaced[last]
        return replaced


def _members(kind: Any) -> list[Any]:
    """The types of a union; of another type the type itself."""
    if isinstance(kind, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return _members(kind.__value__)
    if get_origin(kind) in (Union, UnionType):
        return [member for each in get_args(kind) for member in _members(each)]
    return [kind]


def _inner(members: list[Any]) -> list[Any]:
    """The types of the parts of a tuple, list or mapping."""
    for member in members:
        origin = get_origin(member)
        if isinstance(origin, type) and issubclass(origin, tuple | list | Mapping):
            return [each for each in get_args(member) if each is not Ellipsis]
    return [Any]


def _join(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)
