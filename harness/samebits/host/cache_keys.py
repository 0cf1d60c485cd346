"""Keys for what is cached: values by content, everything else by identity, and nothing by how it prints.

An `id` does not identify an object that no longer exists: the next one of its size may get the same address. So a key
holds the objects that it stands for, and they live as long as it does.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import struct
import sys
import types
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

_EXACT = (bool, int, str, bytes, type(None), type(Ellipsis), range)
"""Immutable, and within one type equal only where they are indistinguishable."""


class ByIdentity:
    """An object as a key: equal to itself only, and alive as long as the key."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.value is other.value

    def __repr__(self) -> str:
        return f"ByIdentity({self.value!r})"


def key_of(value: Any) -> Hashable:
    """Return a key that two values share only where they are indistinguishable.

    Numbers count with their type and their bits, arrays with dtype, shape, layout and bytes, containers and frozen data
    classes with what is in them. Anything else, such as a function or an object of an unknown class, counts as itself.

    Args:
        value: any object; it must not be changed while the key is in use.
    """
    kind = type(value)
    if kind in _EXACT or isinstance(value, np.dtype):
        return kind, value
    if kind is float or kind is complex:
        return kind, struct.pack("<dd", value.real, value.imag)
    if kind is np.ndarray or isinstance(value, np.generic) or _is_jax_array(value):
        return kind, _array_key(value)
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return kind, tuple(map(key_of, value))
    if kind in (set, frozenset):
        return kind, frozenset(map(key_of, value))
    if kind in (dict, types.MappingProxyType):
        # In their order: a function that iterates over a dictionary sees it.
        return kind, tuple((key_of(name), key_of(item)) for name, item in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type | enum.Enum) and _is_frozen(kind):
        return kind, tuple(key_of(getattr(value, field.name)) for field in dataclasses.fields(value))
    return ByIdentity(value)


def digest_of(arrays: Iterable[Any], *words: Hashable) -> str:
    """Return a digest of arrays and of the words that go with them: dtypes, shapes and every byte."""
    digest = hashlib.sha256(repr(words).encode())
    for array in arrays:
        digest.update(repr(_array_key(array)).encode())
    return digest.hexdigest()


def _array_key(value: Any) -> Hashable:
    """Return the content of an array; one of jax has a layout and perhaps a weak type besides, which tracing sees."""
    if not isinstance(value, np.ndarray | np.generic):
        if not value.is_fully_addressable:
            return ByIdentity(value)
        more = value.weak_type, value.sharding
        if sys.modules["jax"].dtypes.issubdtype(value.dtype, sys.modules["jax"].dtypes.prng_key):
            return str(value.dtype), more, _array_key(sys.modules["jax"].random.key_data(value))
        return more, _array_key(np.asarray(value))
    array = np.asarray(value)
    if array.dtype.hasobject:
        return "object", array.shape, tuple(map(key_of, array.ravel().tolist()))
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return str(array.dtype), array.dtype.byteorder, array.shape, content


def _is_jax_array(value: Any) -> bool:
    """Return whether it is an array of jax with numbers in it, unlike a tracer, which is not a key for another one."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)


def _is_frozen(kind: type) -> bool:
    parameters = getattr(kind, "__dataclass_params__", None)
    return bool(parameters is not None and parameters.frozen)
