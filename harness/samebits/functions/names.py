"""What two functions are called in reports, so that a reader can tell them apart."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from samebits.errors import RequestError
from samebits.programs.binding import parameters_of, signature_text

_LAMBDA = "<lambda>"
_UNNAMED = ("", "lambda", "unnamed_function")


def side_names(
    reference: Callable[..., Any], variant: Callable[..., Any], texts: tuple[str, str] = ("", "")
) -> tuple[str, str]:
    """What two functions are called: their names, with the module where those are equal.

    A `functools.partial` has the name of its function after `partial_`, an object that of its class; a lambda is the
    `reference` or the `variant`.

    Args:
        reference, variant: the functions.
        texts: how a command names them, as in `module:function`; empty where none does.
    """
    sides = (reference, variant)
    own = (
        _id(text.rpartition(":")[2].rpartition(".")[2] or _name(side)) for side, text in zip(sides, texts, strict=True)
    )
    short = [name or which for name, which in zip(own, ("reference", "variant"), strict=True)]
    if short[0] == short[1]:
        modules = [str(getattr(_inner(side), "__module__", "")).split(".") for side in sides]
        part = 0 if modules[0][0] != modules[1][0] else -1  # of libraries the package, else the file
        if modules[0][part] != modules[1][part]:
            short = [_id(f"{module[part]}_{name}") for module, name in zip(modules, short, strict=True)]
    return (short[0], short[1]) if short[0] != short[1] else (f"{short[0]}_reference", f"{short[1]}_variant")


def shown_name(side: Callable[..., Any], place: str) -> str:
    """A function in a message: `'norm'`; a lambda by its place in the call, `first` or `second`."""
    name = getattr(_inner(side), "__name__", type(side).__name__)
    return f"the {place} function, a lambda," if name == _LAMBDA else f"'{name}'"


def check_renames(
    renamed: Mapping[str, str], names: Iterable[str], variant: Callable[..., Any], option: str, by_name: bool
) -> None:
    """Reject renamed arguments that the call does not have, or that the second function does not call so.

    Args:
        renamed: by the name of an argument, what the second function calls it.
        names: of the arguments of the call.
        variant: the second function.
        option: names it in messages.
        by_name: whether an argument whose own name the second function has too is passed as that one.

    Raises:
        RequestError: there is one.
    """
    names, parameters = tuple(names), parameters_of(variant)
    own = {p.name for p in parameters or ()}
    collects = parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name, other in renamed.items():
        where = f"{option} {name}={other}"
        if name not in names:
            raise RequestError(f"{where}: there is no argument '{name}'; the arguments are {', '.join(names)}")
        takes = f"{where}: the second function takes {signature_text(variant)}"
        if other not in own and not collects:
            raise RequestError(f"{takes}, and no parameter '{other}'")
        if by_name and collects and parameters is not None and other not in own:
            raise RequestError(f"{takes}, which gets '{name}' by that name; wrap it in a function that names '{other}'")
        if by_name and name in own and name != other:
            raise RequestError(f"{takes}, whose own '{name}' gets that argument; wrap it in a function of other names")


def _name(side: Callable[..., Any]) -> str:
    name = str(getattr(_inner(side), "__name__", type(side).__name__))
    if not isinstance(side, functools.partial):
        return name
    return f"partial_{name}" if _id(name) else "partial"


def _inner(side: Callable[..., Any]) -> Any:
    """The function in a partial, which has the name."""
    while isinstance(side, functools.partial):
        side = side.func
    return side


def _id(text: str) -> str:
    """A name as it may be part of a test's id; empty where there is none."""
    cleaned = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return "" if cleaned in _UNNAMED else cleaned
