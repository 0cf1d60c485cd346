"""How a side is called: the declared arguments by name, whatever kinds of parameters it has.

Bare functions of libraries stand beside each other so: parameters that a declaration does not name are left at their
defaults, and positional-only, keyword-only and differently called parameters take what is declared for them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.errors import DeclarationError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Binding:
    """Which declared argument goes to which parameter.

    Args:
        positional: the declared names that are passed by position, in order.
        keywords: the declared names that are passed by keyword, with the parameter of each.
    """

    positional: tuple[str, ...]
    keywords: Mapping[str, str]

    def call(self, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """Call a side with the declared arguments."""
        positional = [values[name] for name in self.positional]
        return function(*positional, **{parameter: values[name] for name, parameter in self.keywords.items()})


def bind(where: str, function: Callable[..., Any], names: Iterable[str], rename: Mapping[str, str]) -> Binding:
    """Which parameter of a function takes which declared argument.

    A function without a readable signature, such as one that is built in, takes them by position, in their order.

    Args:
        where: the pair and the side, for the message.
        function: the side.
        names: the declared arguments and static arguments.
        rename: by declared name, the parameter's name where the function has no parameter of the declared one.

    Raises:
        DeclarationError: the function has no parameter for an argument, or one without a default is not declared.
    """
    names = tuple(names)
    parameters = parameters_of(function)
    if parameters is None:
        return Binding(names, {})
    known = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    positional_only = {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
    collects = any(p.kind is p.VAR_KEYWORD for p in parameters)
    target: dict[str, str] = {}
    for name in names:
        other = rename.get(name, name)
        called = other if name not in known and (other in known or not collects) else name
        if called not in known and not collects:
            unnamed = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
            if unnamed is not None:
                raise DeclarationError(
                    f"{where} takes {signature_text(function)}, and what *{unnamed} takes has no names, so that "
                    f"'{called}' cannot be passed; wrap it in a function that names its arguments, as in "
                    f"`def named(a, b): return {getattr(function, '__name__', 'function')}(a, b)`"
                )
            raise DeclarationError(
                f"{where} takes {signature_text(function)}, and no parameter '{called}'; declare its own names, or map "
                f"them: rename={{'{name}': ...}}{class_remark(function)}"
            )
        if called in target.values():
            raise DeclarationError(f"{where}: '{name}' and another argument are both given as '{called}'; see rename")
        target[name] = called
    _require_all(where, function, parameters, set(target.values()), names)
    # A positional-only parameter needs all before it by position too, where they are declared.
    last = max((i for i, p in enumerate(parameters) if p.name in positional_only & set(target.values())), default=-1)
    declared = {called: name for name, called in target.items()}
    first = [p for p in parameters[: last + 1] if p.kind in _POSITIONAL]
    gap = next((p.name for p in first if p.name not in declared), None)
    if gap is not None:
        raise DeclarationError(
            f"{where} takes {signature_text(function)}: '{first[-1].name}' can only be passed by position, so "
            f"'{gap}' before it must be declared too"
        )
    positional = tuple(declared[p.name] for p in first)
    return Binding(positional, {name: called for name, called in target.items() if name not in positional})


def without_unknown(
    function: Callable[..., Any], names: Iterable[str], optional: Iterable[str], rename: Mapping[str, str]
) -> tuple[str, ...]:
    """The names less the optional ones that a function has no parameter for; all where it has no readable signature."""
    names, optional, parameters = tuple(names), tuple(optional), parameters_of(function)
    if not optional or parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return names
    known = {p.name for p in parameters}
    return tuple(name for name in names if name not in optional or known & {name, rename.get(name, name)})


def parameters_of(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...] | None:
    """The parameters of a callable; None where it has no readable signature."""
    try:
        return _parameters(function)
    except TypeError:  # an object without a hash, which cannot be cached
        return _parameters.__wrapped__(function)


@functools.lru_cache(maxsize=4096)
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...] | None:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # Python has none of functions that are built in
        return None


def signature_text(function: Callable[..., Any]) -> str:
    """The parameters of a function in parentheses, without annotations."""
    parameters = parameters_of(function)
    if parameters is None:
        return "(...)"
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare))


def class_remark(function: Callable[..., Any]) -> str:
    """What to do about a class, or a method taken from one, to follow a message; empty for other functions."""
    if isinstance(function, type):
        return f"; {function.__name__} is a class: give a function, or an object of the class that can be called"
    *_, owner, name = ("", *str(getattr(function, "__qualname__", "")).split("."))
    parameters = parameters_of(function)
    if owner in ("", "<locals>") or not parameters or parameters[0].name != "self":
        return ""
    return f"; {owner}.{name} is a method: take it from an object, as in obj.{name} where obj = {owner}(...)"


def in_other_order(
    reference: Callable[..., Any], variant: Callable[..., Any], names: Iterable[str], rename: Mapping[str, str]
) -> tuple[str, ...]:
    """The arguments that both sides take by position too, in the reference's order where the variant's is another.

    Args:
        reference, variant: two sides, called with the arguments by name.
        names: the declared arguments and static arguments, without those that are matched on purpose.
        rename: by declared name, what the variant calls it.
    """
    first, second = (
        [p.name for p in parameters_of(side) or () if p.kind in _POSITIONAL] for side in (reference, variant)
    )
    called = {name: rename.get(name, name) for name in first if name in {*names} and rename.get(name, name) in second}
    own = sorted(called, key=lambda name: second.index(called[name]))
    return tuple(name for name, other in zip(called, own, strict=True) if name != other)


def order_remark(
    reference: Callable[..., Any],
    variant: Callable[..., Any],
    names: Iterable[str],
    rename: Mapping[str, str],
    called: str,
) -> str | None:
    """What to say where calls by position would give the variant other arguments than calls by name; else None.

    Args:
        reference, variant, names, rename: as for `in_other_order`.
        called: the name of the variant.
    """
    moved = in_other_order(reference, variant, names, rename)
    if not moved:
        return None
    listed = f"{', '.join(moved[:-1])} and {moved[-1]}"
    return (
        f"{called} takes {listed} in another order: they are matched by name here, and a call by position would "
        "exchange them"
    )


def other_defaults(
    function: Callable[..., Any], other: Callable[..., Any], names: Iterable[str]
) -> dict[str, tuple[Any, Any]]:
    """The parameters that two functions share, no declaration gives, and that have different defaults.

    Args:
        function, other: two sides.
        names: the declared arguments.

    Returns:
        Both defaults by the parameter's name.
    """
    defaults = [
        {p.name: p.default for p in parameters_of(side) or () if p.default is not inspect.Parameter.empty}
        for side in (function, other)
    ]
    shared = [name for name in defaults[0] if name in defaults[1] and name not in tuple(names)]
    pairs = {name: (defaults[0][name], defaults[1][name]) for name in shared}
    return {name: pair for name, pair in pairs.items() if not _alike(*pair)}


def _alike(first: Any, second: Any) -> bool:
    """Whether two defaults are equal; arrays are, as far as this is asked, only where they are one."""
    if first is second:
        return True
    try:
        return type(first) is type(second) and bool(first == second)
    except Exception:  # an array has no truth value, and an object may raise what it likes
        return False


def _require_all(
    where: str,
    function: Callable[..., Any],
    parameters: tuple[inspect.Parameter, ...],
    called: set[str],
    names: tuple[str, ...],
) -> None:
    needed = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in called
    ]
    if needed:
        if needed[0] == "self" and class_remark(function):
            raise DeclarationError(
                f"{where} takes {signature_text(function)} and is called with {', '.join(names)}"
                f"{class_remark(function)}"
            )
        mesh = ", as in statics={'mesh': ContextMesh()} for the mesh of the point" if needed[0] == "mesh" else ""
        raise DeclarationError(
            f"{where} takes {signature_text(function)} and is called with {', '.join(names)}: '{needed[0]}' is "
            f"missing; declare it in args or statics{mesh}, or give it a default"
        )
