"""What is to be compared of two functions: the arguments of a call, and how."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from samebits.errors import DeclarationError, RequestError
from samebits.schema.contract import Rung
from samebits.schema.pair import Adapt
from samebits.schema.validate import check_accuracy, kind_words
from samebits.schema.values import Integers, Normal, Uniform, Values

LONGEST = 100
"""Characters of a value that a message shows."""

ACCEPTED = ("proved", "bitwise", "rounding")


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareOptions:
    """How two functions are compared.

    Args:
        mesh: a `jax.sharding.Mesh`, or the id of one such as `dp2_tp4`; None, the default, takes the mesh on which the
            arrays lie, and one device where they lie on none.
        specs: how the arguments lie on the mesh: one `PartitionSpec` for all, a sequence of one (or a tree of them) per
            positional argument, or a mapping by name. None, the default, takes each array's own sharding; where none
            has one, the dimensions of each are split over the axes in their order, where the sizes divide.
        accept: the lowest verdict that passes; None, the default, requires the same bits of what only moves data and
            accepts rounding of what computes.
        accuracy: how many times the reference's error a result that rounds may have; None, the default, accepts all but
            a loss of kind, and tells how large it is.
        gradients: whether gradients with respect to the float arrays are compared; True by default.
        seeds: how many sets of inputs are tried; the first consists of the arrays given.
        rename: by the name of an argument that is passed by keyword, what the second function calls it.
        adapt: how the arguments and outputs of the second function correspond to those of the first.
        has_aux: whether the functions return `(outputs, auxiliary)`, of which only the first is differentiated.
        budget: how many seconds evidence is gathered, forward and gradient each, the strongest first; what is not
            reached is said, and never called more than it is. None, the default, has no end.
        assumptions: whether a verdict may rest on a proof with assumptions beyond shapes and rounding; True by default.
        ignore: outputs that are not compared, by shell patterns over their paths with dots, such as `cache.*`: what one
            function alone returns, or writes into an argument. What is ignored is said in a note.
        name: of the comparison, in reports; made of the functions' names by default.
        sizes: for `prove`, what is proved for every size at once: by array its shape as a text of symbols, by static
            argument or by name in a shape an expression of symbols; or `all`, which makes every dimension a symbol.
            None, the default, proves the sizes of the arguments alone.
        values: by argument, or by array of a tree as messages name it, how its elements are drawn instead of given:
            `Integers(high=4)`, `Uniform(...)`, `Normal(...)` or a function `(rng, shape) -> array`.
        exactly: the arguments, or arrays of trees, whose given integers and booleans are all that there are; the others
            are examples, and values like them are tried too.

    Raises:
        RequestError: a value is not one of those above.
    """

    mesh: Any = None
    specs: Any = None
    accept: Rung | None = None
    accuracy: float | None = None
    gradients: bool = True
    seeds: int = 1
    rename: Mapping[str, str] = field(default_factory=dict)
    adapt: Adapt | None = None
    has_aux: bool = False
    budget: float | None = None
    assumptions: bool = True
    ignore: tuple[str, ...] = ()
    name: str | None = None
    sizes: Mapping[str, str] | Literal["all"] | None = None
    values: Mapping[str, Values] = field(default_factory=dict)
    exactly: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.accept is not None and self.accept not in ACCEPTED:
            raise RequestError(f"accept={short_text(self.accept)}; expected one of {', '.join(ACCEPTED)}, or None")
        if not isinstance(self.seeds, int) or self.seeds < 1:
            raise RequestError(f"seeds={short_text(self.seeds)}; expected a number of at least 1")
        if self.budget is not None and not (isinstance(self.budget, int | float) and 0 < self.budget < math.inf):
            raise RequestError(f"budget={short_text(self.budget)}; expected a number of seconds above 0, or None")
        try:
            check_accuracy("accuracy", self.accuracy)
        except DeclarationError as error:
            raise RequestError(str(error)) from None
        if self.adapt is not None and not isinstance(self.adapt, Adapt):
            raise RequestError(f"adapt={short_text(self.adapt)}; expected samebits.Adapt(arguments=..., outputs=...)")
        if not (isinstance(self.ignore, tuple) and all(self.ignore)):
            raise RequestError(f"ignore={short_text(self.ignore)}; expected a tuple of patterns, such as ('cache.*',)")
        if not (self.sizes is None or self.sizes == "all" or (self.sizes and isinstance(self.sizes, Mapping))):
            raise RequestError(
                f"sizes={short_text(self.sizes)}; expected 'all', or a dict such as "
                "{'x': 'batch, 4*cp*g, dim', 'cp': '2*c'}"
            )
        if not _are_values(self.values):
            raise RequestError(f"values={short_text(self.values)}; expected a dict such as {{'ids': Integers(high=8)}}")
        names: Any = self.exactly
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise RequestError(f"exactly={short_text(self.exactly)}; expected names, as in exactly=('ids',)")


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareRequest:
    """Two functions and the arguments of one call."""

    reference: Callable[..., Any]
    variant: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
    options: CompareOptions


def compare_request(
    reference: Callable[..., Any], variant: Callable[..., Any], args: tuple[Any, ...], more: Mapping[str, Any]
) -> CompareRequest:
    """Read a call of `assert_same` and its like: options by their names, everything else is for the functions."""
    for place, function in (("first", reference), ("second", variant)):
        if not callable(function):
            raise RequestError(_not_a_function(place, function))
    if reference is variant:
        raise RequestError(f"both functions are {short_text(reference)}; nothing would be compared")
    known = {option.name for option in fields(CompareOptions)}
    if not _are_values(more.get("values", {})):  # the argument of an attention, for one
        known -= {"values"}
    chosen = {name: value for name, value in more.items() if name in known}
    keywords = {name: value for name, value in more.items() if name not in known}
    return CompareRequest(
        reference=reference, variant=variant, args=args, keywords=keywords, options=CompareOptions(**chosen)
    )


def _are_values(option: Any) -> bool:
    """Return whether something says how arguments are drawn, by their names."""
    return isinstance(option, Mapping) and all(
        isinstance(each, Normal | Uniform | Integers) or callable(each) for each in option.values()
    )


def short_text(value: Any) -> str:
    """Return a value as text for a message; in a few words where it is long, as arrays and modules with arrays are."""
    text = repr(value)
    return text if len(text) <= LONGEST and "\n" not in text else kind_words(value)


def _not_a_function(place: str, value: Any) -> str:
    arrays = "; samebits.assert_same_bits(found, expected) compares arrays" if _holds_array(value) else ""
    return (
        f"the {place} argument is {kind_words(value)}; expected a function, and what both are called with after the "
        f"two{arrays}"
    )


def _holds_array(value: Any) -> bool:
    """Return whether a value is an array, or a container with one."""
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    if values is None:
        return hasattr(value, "shape") and hasattr(value, "dtype")
    return any(map(_holds_array, values))


def near_option(name: str) -> str:
    """Return a hint at the option that a keyword may have been meant to be; empty where none is near."""
    if name in ("rtol", "atol", "tol", "tolerance"):
        limits = "accept= is the lowest verdict, and accuracy= how many times the error of the first is accepted"
        return f"; tolerances are not given: the bound of rounding is computed; {limits}"
    near = difflib.get_close_matches(name, [option.name for option in fields(CompareOptions)], n=1, cutoff=0.75)
    return f"; did you mean the option {near[0]}=?" if near else ""
