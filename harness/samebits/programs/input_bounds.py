"""The declared bound of integers that select something: all of them are in `[0, below)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.schema.case import Arg, Case
from samebits.schema.size_symbols import symbols_in, value_of

Array = NDArray[Any]


def arg_below(arg: Arg, name: str, case: Case) -> int | None:
    """The number that all elements of an argument are below of, and at least 0; None where none is declared.

    Raises:
        DeclarationError: it names what is no size and no static integer, or it is below 1.
    """
    if not isinstance(arg.below, str):
        return arg.below
    # Not `case.numbers`: a size that is a symbol is kept as it is.
    known = {name: value for name, value in {**case.statics, **case.sizes}.items() if name in case.numbers}
    for symbol in symbols_in(arg.below):
        if symbol not in known:
            which = "which" if symbol == arg.below else f"and '{symbol}'"
            raise DeclarationError(
                f"case '{case.id}': argument '{name}' is below '{arg.below}', {which} is no size and no static "
                f"integer; expected {'one ' if symbol == arg.below else ''}of {', '.join(known) or 'none'}"
            )
    below = value_of(arg.below, cast(Mapping[str, int], known))
    if isinstance(below, int) and below < 1:
        raise DeclarationError(
            f"case '{case.id}': argument '{name}' is below '{arg.below}', which is {below}; expected at least 1"
        )
    return below


def check_bound(arg: Arg, name: str, array: Array, case: Case) -> None:
    """Reject values that a declared bound leaves out.

    Raises:
        DeclarationError: an element is negative, or not below the bound.
    """
    below = arg_below(arg, name, case)
    if below is not None and array.size and not (array.min() >= 0 and array.max() < below):
        raise DeclarationError(
            f"case '{case.id}': argument '{name}': its values are {array.min()} to {array.max()}; "
            f"expected them in [0, {below}), as below={arg.below!r} says"
        )
