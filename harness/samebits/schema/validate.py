"""The checks that declarations share: each message says what was got, what is expected and what to write."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

from samebits.errors import DeclarationError
from samebits.schema.size_symbols import INDEX, check_expression, symbols_in

_ID = re.compile(r"[a-z0-9][a-z0-9_]*")


def check_id(what: str, text: str) -> None:
    """Reject a name that cannot be part of a file's or a test's name."""
    if not isinstance(text, str) or not _ID.fullmatch(text):
        raise DeclarationError(f"{what} '{text}' is not an id; expected lower-case letters, digits and '_'")


def check_unique(where: str, what: str, items: tuple[str, ...]) -> None:
    """Reject a name that is given twice."""
    double = sorted({item for item in items if items.count(item) > 1})
    if double:
        raise DeclarationError(f"{where} declares {what} '{double[0]}' twice; ids must differ")


def check_tuple(where: str, what: str, value: Any) -> None:
    """Reject what should be a tuple and is one item (a text would be read letter by letter) or a list."""
    if isinstance(value, str):
        raise DeclarationError(f"{where}: {what} is the text '{value}'; expected a tuple, as in ('{value}',)")
    if not isinstance(value, tuple):
        kind = type(value).__name__
        raise DeclarationError(f"{where}: {what} is of type {kind}; expected a tuple, with a comma after a single item")


def check_accuracy(what: str, limit: Any) -> None:
    """Reject a limit of the error that is not a number, or that not every reference would keep itself."""
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1:
        raise DeclarationError(
            f"{what} is {limit!r}; expected how many times the reference's error is accepted, a number of at least 1, "
            "or None for no limit"
        )


def check_shape(shape: Any) -> None:
    """Reject a shape that is not a tuple of sizes and of names of sizes."""
    check_tuple("argument", "shape", shape)
    for dimension, size in enumerate(shape):
        if not isinstance(size, str) and not (hasattr(size, "__index__") and size >= 0):
            raise DeclarationError(
                f"argument of shape {shape}: dimension {dimension} is {size!r}; expected a size, or a name "
                "of Case.sizes"
            )


def check_bound(shape: Any, below: Any, dtype: str | None, special: tuple[str, ...]) -> None:
    """Reject a bound of non-integers, one that is not a size, or one beside values that no bound allows."""
    where = f"argument of shape {shape}: below={below!r}"
    if dtype is None or not dtype.startswith(("int", "uint")):
        raise DeclarationError(f"{where} bounds integers, and its dtype is {dtype}; write dtype='int32'")
    if isinstance(below, str) and below.strip():
        check_expression(
            f"argument of shape {shape}: below",
            below,
            "name the bound, as in below='half' with Case(sizes={'n': 8, 'half': 4}, symbols={'n': '2*half'})",
            "name the bound, as in below='rest' with Case(sizes={'n': 8, 'rest': 5, ...}, symbols={'n': 'own+rest'})",
        )
    elif not (type(below) is int and below > 0):
        raise DeclarationError(f"{where}; expected a number above 0, or an expression of sizes such as 'rows+1'")
    if special:
        raise DeclarationError(f"{where}; special values lie outside of it: leave out one of them")


def check_formula(shape: Any, equals: Any, dtype: str | None, special: tuple[str, ...], below: Any) -> None:
    """Reject a formula of non-integers, a malformed one, or one beside values or a bound that contradict it."""
    where = f"argument of shape {shape}: equals={equals!r}"
    if dtype is None or not dtype.startswith(("int", "uint")):
        raise DeclarationError(f"{where} is of integers, and its dtype is {dtype}; write dtype='int32'")
    if isinstance(equals, str) and equals.strip():
        check_expression(
            f"argument of shape {shape}: equals",
            equals,
            "name the quotient, as in equals='part' with Case(sizes={'n': 8, 'part': 4}, symbols={'n': '2*part'})",
            None,
        )
        for name in symbols_in(equals):
            if INDEX.fullmatch(name) and not int(name.removeprefix("index")) < len(shape):
                raise DeclarationError(f"{where}: '{name}' is the place along a dimension that it does not have")
    elif type(equals) is not int:
        raise DeclarationError(f"{where}; expected an integer, or an expression such as 'index1', of sizes and places")
    if special or below is not None:
        raise DeclarationError(
            f"{where}; {'special values' if special else 'a bound'} beside it: leave out one of them"
        )


def check_spec(where: str, spec: Any, dimensions: int) -> None:
    """Reject a spec with more entries than dimensions, or with an entry that no axis can be called."""
    check_tuple(where, "spec", spec)
    if len(spec) > dimensions:
        raise DeclarationError(f"{where}: spec {spec} has {len(spec)} entries; expected at most one per dimension")
    for entry in spec:
        for axis in entry if isinstance(entry, tuple) else () if entry is None else (entry,):
            if not isinstance(axis, str) or not axis.isidentifier():
                raise DeclarationError(
                    f"{where}: spec has the entry {axis!r}; expected the name of a mesh axis, a tuple of names, or None"
                )
    axes = [axis for entry in spec for axis in (entry if isinstance(entry, tuple) else (entry,)) if axis is not None]
    twice = next((axis for axis in axes if axes.count(axis) > 1), None)
    if twice is not None:
        raise DeclarationError(f"{where}: spec {spec} has axis '{twice}' twice; a mesh axis splits one dimension once")


def check_pattern(
    where: str, what: str, pattern: str, known: tuple[str, ...], examples: tuple[str, ...] | None = None
) -> None:
    """Reject a pattern that matches nothing: a promise about no result; `examples` are what the message lists."""
    if not any(fnmatchcase(name, pattern) for name in known):
        raise DeclarationError(f"{where}: {what}={pattern} matches nothing; {expected(pattern, examples or known)}")


def check_known(where: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Reject a name that there is not."""
    known = tuple(known)
    for name in names:
        if name not in known:
            raise DeclarationError(f"{where}: {what} '{name}' is unknown; {expected(name, known)}")


def expected(got: str, known: Iterable[str]) -> str:
    """List the known names, and the nearest one."""
    names = list(known)
    near = difflib.get_close_matches(str(got), names, n=1)
    return f"expected some of {', '.join(names)}" + (f"; did you mean '{near[0]}'?" if near else "")


# What a value is, in a few words, for messages about one that is something else than expected.
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
