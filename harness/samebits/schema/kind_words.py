"""What a value is, in a few words, for messages about one that is something else than expected; arrays in one word."""

from __future__ import annotations

from types import ModuleType
from typing import Any

LONGEST = 40
"""Characters of a number or a text that are shown."""


def kind_words(value: Any) -> str:
    """Say what a value is: `3, an int`, `an array float32[4,8]`, `the module math`, `an object of the class Layer`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(shape, tuple) and dtype is not None:
        return f"an array {dtype}[{','.join(map(str, shape))}]"
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if value is None:
        return "None"
    kind = type(value).__name__
    if isinstance(value, bool | int | float | complex | str | bytes):
        text = repr(value)
        return f"{text if len(text) <= LONGEST else text[: LONGEST - 3] + '...'}, {with_article(kind)}"
    if isinstance(value, dict | list | tuple | set):
        return f"{with_article(kind)} of {len(value)} {'entry' if len(value) == 1 else 'entries'}"
    return f"an object of the class {kind}"


def with_article(noun: str) -> str:
    """Put the indefinite article before a noun."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
