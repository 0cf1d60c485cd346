"""A family of argument shapes with symbols for sizes: its parts, and what its sizes are at numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from samebits.errors import RequestError
from samebits.sizes.places.polynomial import Polynomial, dimension, variable


@dataclass(frozen=True, slots=True)
class Shaped:
    """An argument of a family.

    Args:
        shape: its dimensions as expressions of the symbols, such as `("b", "4*c*g")`.
        dtype: of its elements.
        below: of integers, what all of them are below of, and at least 0; None where nothing is known.
        values: of integers, draws them in a shape as their declaration does; None where it does not say.
        equals: of integers, what each of them is, of its place `index0, index1, ...`; None where that is not known.
    """

    shape: tuple[str | int, ...]
    dtype: str = "float32"
    below: str | None = None
    values: Callable[[np.random.Generator, tuple[int, ...]], Any] | None = None
    equals: str | None = None


@dataclass(frozen=True, slots=True)
class SizeOf:
    """A static argument that is a size, as an expression of the symbols: `SizeOf("2*c")`."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Family:
    """The shapes for which something is to be proved.

    Args:
        symbols: by symbol, the smallest value that it takes.
        args: by name, the arguments of both functions, in order.
        statics: keyword arguments of both functions; each `SizeOf` becomes a size.
        constants: symbols that have a value.
        differentiable: the arguments that a gradient is taken of; None for all floats.
        divided: dimensions with the number of devices that they are split over, by which they divide where it runs.
        answers: by polynomial, whether code gets the answer that it is at least 0.
        own: symbols that a part of a family has in place of others.
        platform: whose branches of `lax.platform_dependent` run; None where that is not known.
    """

    symbols: Mapping[str, int]
    args: Mapping[str, Shaped]
    statics: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Polynomial] = field(default_factory=dict)
    differentiable: tuple[str, ...] | None = None
    divided: tuple[tuple[str, str], ...] = ()
    answers: Mapping[Polynomial, bool] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    platform: str | None = None

    def __post_init__(self) -> None:
        texts = [str(size) for arg in self.args.values() for size in arg.shape]
        texts += [value.text for value in self.statics.values() if isinstance(value, SizeOf)]
        for name in sorted({name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}):
            if name not in self.symbols:
                raise RequestError(
                    f"the sizes name '{name}', not a symbol; expected some of {', '.join(self.symbols) or 'none'}"
                )

    @property
    def free(self) -> dict[str, int]:
        """Return the symbols without a value, with their smallest values."""
        return {name: low for name, low in self.symbols.items() if name not in self.constants}

    @property
    def types(self) -> Hashable:
        """Return what a program depends on besides its function and plain static arguments."""
        args = [(name, arg.dtype, tuple(map(self.sizes, arg.shape))) for name, arg in self.args.items()]
        statics = {name: self.sizes(value.text) for name, value in self.statics.items() if isinstance(value, SizeOf)}
        symbols, answers = tuple(self.free.items()), tuple(self.answers.items())
        return tuple(args), tuple(statics.items()), symbols, answers, self.differentiable

    def where(self, symbol: str, value: Polynomial) -> Family:
        """Return the family with a value for a symbol."""
        constants = {name: p.substitute({symbol: value}) for name, p in self.constants.items()}
        return replace(self, constants={**constants, symbol: value})

    def bounded(self, symbol: str, low: int) -> Family:
        """Return the family from another smallest value of a symbol on."""
        return replace(self, symbols={**self.symbols, symbol: low})

    def having(self, symbol: str, low: int) -> Family:
        """Return the family with one more symbol, of which others can be scaled."""
        return replace(self, symbols={**self.symbols, symbol: low}, own=self.own | {symbol})

    def declared(self, polynomial: Polynomial) -> Polynomial:
        """Return a polynomial in declared symbols: `8*q` is `2*n - 2` in the part where `n = 4*q + 1`."""
        for own in self.own & polynomial.variables:
            for name, value in self.constants.items():
                scaled, parts = value.by(own), polynomial.by(own)
                times = None if scaled is None or parts is None else parts[0].quotient(scaled[0])
                if scaled is not None and parts is not None and times is not None and scaled[0].terms:
                    polynomial = parts[1] + times * (variable(name) - scaled[1])
                    break
        return polynomial

    def sizes(self, text: str | int) -> Polynomial:
        """Return a size as a polynomial of the free symbols."""
        return dimension(text, _no_operation).substitute(self.constants)

    def at(self, numbers: Mapping[str, int]) -> Family:
        """Return the family at concrete sizes."""
        symbols = {name: low for name, low in self.symbols.items() if name not in self.own}
        constants = {name: Polynomial() + number for name, number in numbers.items()}
        return replace(self, symbols=symbols, constants=constants, answers={}, own=frozenset())

    def divides(self, numbers: Mapping[str, int]) -> bool:
        """Tell whether what is split over devices divides by their number, at concrete sizes."""
        family = self.at(numbers)
        return all(
            (family.sizes(size).constant or 0) % (family.sizes(devices).constant or 1) == 0
            for size, devices in self.divided
        )

    @property
    def below(self) -> dict[str, Polynomial]:
        """Return by argument of integers with a bound, what all of them are below of."""
        return {name: self.sizes(arg.below) for name, arg in self.args.items() if arg.below is not None}

    @property
    def equals(self) -> dict[str, Polynomial]:
        """Map each integer argument with a declared formula to that formula."""
        return {name: self.sizes(arg.equals) for name, arg in self.args.items() if arg.equals is not None}

    def elements(self, numbers: Mapping[str, int]) -> int:
        """Return the number of elements of the largest argument at concrete sizes."""
        family = self.at(numbers)
        return max(math.prod(family.sizes(size).constant or 0 for size in arg.shape) for arg in self.args.values())

    def numbers(self, free: Mapping[str, int]) -> dict[str, int]:
        """Return the values of the declared symbols where the free ones have these."""
        fixed = {name: p.value(free) for name, p in self.constants.items()}
        return {name: fixed[name] if name in fixed else free[name] for name in self.symbols if name not in self.own}


def _no_operation(name: str, values: Sequence[Polynomial]) -> Polynomial:
    raise RequestError(f"a size with {name}(...); expected sums and products of symbols, such as 4*c*g")
