"""A family of argument shapes with symbols for sizes: traced with the symbols, or at concrete sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax import export

from samebits.errors import NotCovered, RequestError, SamebitsError
from samebits.interpret.all_sizes.dimensions import dimension
from samebits.interpret.all_sizes.polynomial import Polynomial, variable
from samebits.prove.size_comparisons import SizeComparison, comparisons
from samebits.schema.domain import cotangent_of


@dataclass(frozen=True, slots=True)
class Shaped:
    """An argument of a family.

    Args:
        shape: its dimensions as expressions of the symbols, such as `("b", "4*c*g")`.
        dtype: of its elements.
    """

    shape: tuple[str | int, ...]
    dtype: str = "float32"


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
        answers: by polynomial, whether code is told that it is at least 0.
        own: symbols that a part of a family has in place of others.
    """

    symbols: Mapping[str, int]
    args: Mapping[str, Shaped]
    statics: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Polynomial] = field(default_factory=dict)
    differentiable: tuple[str, ...] | None = None
    divided: tuple[tuple[str, str], ...] = ()
    answers: Mapping[Polynomial, bool] = field(default_factory=dict)
    own: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        texts = [str(size) for arg in self.args.values() for size in arg.shape]
        texts += [value.text for value in self.statics.values() if isinstance(value, SizeOf)]
        for name in sorted({name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}):
            if name not in self.symbols:
                raise RequestError(
                    f"the sizes name '{name}', which is no symbol; expected some of {', '.join(self.symbols) or 'none'}"
                )

    @property
    def free(self) -> dict[str, int]:
        """The symbols without a value, with their smallest values."""
        return {name: low for name, low in self.symbols.items() if name not in self.constants}

    def where(self, symbol: str, value: Polynomial) -> Family:
        """The family with a value for a symbol."""
        constants = {name: p.substitute({symbol: value}) for name, p in self.constants.items()}
        return replace(self, constants={**constants, symbol: value})

    def bounded(self, symbol: str, low: int) -> Family:
        """The family from another smallest value of a symbol on."""
        return replace(self, symbols={**self.symbols, symbol: low})

    def having(self, symbol: str, low: int) -> Family:
        """The family with one more symbol, of which others can be scaled."""
        return replace(self, symbols={**self.symbols, symbol: low}, own=self.own | {symbol})

    def declared(self, polynomial: Polynomial) -> Polynomial:
        """A polynomial in declared symbols, where it is one: `8*q` is `2*n - 2` in the part where `n = 4*q + 1`."""
        for own in self.own & polynomial.variables:
            for name, value in self.constants.items():
                scaled, parts = value.by(own), polynomial.by(own)
                times = None if scaled is None or parts is None else parts[0].quotient(scaled[0])
                if scaled is not None and parts is not None and times is not None and scaled[0].terms:
                    polynomial = parts[1] + times * (variable(name) - scaled[1])
                    break
        return polynomial

    def sizes(self, text: str | int) -> Polynomial:
        """A size as a polynomial of the free symbols."""
        return dimension(text, _no_operation).substitute(self.constants)

    def at(self, numbers: Mapping[str, int]) -> Family:
        """The family at concrete sizes."""
        symbols = {name: low for name, low in self.symbols.items() if name not in self.own}
        constants = {name: Polynomial() + number for name, number in numbers.items()}
        return replace(self, symbols=symbols, constants=constants, answers={}, own=frozenset())

    def divides(self, numbers: Mapping[str, int]) -> bool:
        """Whether what is split over devices divides by their number, at concrete sizes."""
        family = self.at(numbers)
        return all(
            (family.sizes(size).constant or 0) % (family.sizes(devices).constant or 1) == 0
            for size, devices in self.divided
        )

    def elements(self, numbers: Mapping[str, int]) -> int:
        """The number of elements of the largest argument at concrete sizes."""
        family = self.at(numbers)
        return max(math.prod(family.sizes(size).constant or 0 for size in arg.shape) for arg in self.args.values())

    def numbers(self, free: Mapping[str, int]) -> dict[str, int]:
        """The values of the declared symbols where the free ones have these."""
        fixed = {name: p.value(free) for name, p in self.constants.items()}
        return {name: fixed[name] if name in fixed else free[name] for name in self.symbols if name not in self.own}


def _no_operation(name: str, values: Sequence[Polynomial]) -> Polynomial:
    raise RequestError(f"a size with {name}(...); expected sums and products of symbols, such as 4*c*g")


@dataclass(frozen=True, slots=True)
class OnMesh:
    """A function that is traced in the context of a mesh.

    Args:
        function: takes the arguments by position and the static ones by keyword.
        mesh: the abstract mesh.
        specs: by argument, how it lies on the mesh, where shardings are part of types; empty elsewhere.
    """

    function: Callable[..., Any]
    mesh: Any
    specs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *arrays: Any, **sizes: Any) -> Any:
        """Call the function in the context of the mesh."""
        with jax.sharding.use_abstract_mesh(self.mesh):
            return self.function(*arrays, **sizes)

    def placed(self, name: str, kind: Any) -> Any:
        """The type of an argument with its sharding."""
        if name not in self.specs:
            return kind
        sharding = jax.sharding.NamedSharding(self.mesh, self.specs[name])
        return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding)


@dataclass(frozen=True, slots=True)
class TracedFamily:
    """A program of a family.

    Args:
        closed: its jaxpr.
        inputs: names of its flat inputs.
        outputs: names of its flat outputs.
        comparisons: those of sizes with one answer for all, which is wrong for some.
    """

    closed: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    comparisons: tuple[SizeComparison, ...]


class NotTraced(NotCovered):
    """Code raises where it meets a symbol.

    Args:
        message: what it raises.
        comparisons: those of sizes before that.
    """

    def __init__(self, message: str, comparisons: tuple[SizeComparison, ...]) -> None:
        super().__init__(message)
        self.comparisons = comparisons


def traced(function: Callable[..., Any], family: Family, direction: str = "forward") -> TracedFamily:
    """A function's program for a family, with symbols where these are free.

    Args:
        function: takes the arguments by position and the static ones by keyword.
        family: the shapes.
        direction: `forward`, or `gradient` for the pull-back of cotangents.

    Raises:
        NotTraced: the function needs a number where it gets a symbol.
    """
    if isinstance(function, OnMesh) and function.specs:
        with jax.sharding.use_abstract_mesh(function.mesh):
            return _traced(function, family, direction)
    return _traced(function, family, direction)


def _traced(function: Callable[..., Any], family: Family, direction: str) -> TracedFamily:
    types, statics = _types(family)

    def forward(*arrays: Any) -> Any:
        return function(*arrays, **statics)

    inputs = tuple(family.args)
    with comparisons(family.free, family.answers) as seen:
        try:
            if isinstance(function, OnMesh):
                types = [function.placed(name, kind) for name, kind in zip(family.args, types, strict=True)]
            outputs = jax.eval_shape(forward, *types)
            program, arguments = forward, list(types)
            if direction == "gradient":
                chosen = _chosen(family, types)
                program, arguments = (
                    _pull_back(forward, types, chosen, outputs),
                    [*types, jax.tree.map(_of_cotangent, outputs)],
                )
                inputs = (*inputs, *(cotangent_of(path) for path in _paths("out", outputs)))
            closed, shapes = jax.make_jaxpr(program, return_shape=True)(*arguments)
        except SamebitsError:
            raise
        except Exception as error:  # of the user's code, which may raise anything where it meets a symbol
            raise NotTraced(f"it cannot be traced with symbols for sizes: {_first_line(error)}", tuple(seen)) from error
    names = tuple(tuple(family.args)[n] for n in chosen) if direction == "gradient" else tuple(_paths("out", shapes))
    return TracedFamily(closed, inputs, names, tuple(seen))


def _of_cotangent(kind: Any) -> Any:
    """The type of a cotangent: reduced over the axes over which the output is unreduced, and the other way round."""
    spec = getattr(kind.sharding, "spec", None)
    if spec is None or not (spec.unreduced or spec.reduced):
        return kind
    swapped = jax.sharding.PartitionSpec(*spec.partitions, unreduced=spec.reduced, reduced=spec.unreduced)
    sharding = jax.sharding.NamedSharding(kind.sharding.mesh, swapped)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding)


def _chosen(family: Family, types: Sequence[Any]) -> list[int]:
    """The numbers of the arguments that a gradient is taken of."""
    if family.differentiable is not None:
        return [number for number, name in enumerate(family.args) if name in family.differentiable]
    return [number for number, kind in enumerate(types) if jax.numpy.issubdtype(kind.dtype, jax.numpy.inexact)]


def _types(family: Family) -> tuple[list[Any], dict[str, Any]]:
    """The types of the arguments, and the static ones with sizes as jax has them."""
    free = family.free
    symbols = {}
    if free:
        bounds = [f"{name} >= {low}" for name, low in free.items() if low > 1] + _of_products(family)
        symbols = dict(zip(free, export.symbolic_shape(",".join(free), constraints=bounds), strict=True))

    def size(text: str | int) -> Any:
        total: Any = 0
        for monomial, factor in family.sizes(text).terms:
            product: Any = factor
            for name in monomial:
                product = symbols[name] * product
            total = product + total
        return total

    types = [
        jax.ShapeDtypeStruct(tuple(size(text) for text in arg.shape), np.dtype(arg.dtype))
        for arg in family.args.values()
    ]
    statics = {name: size(value.text) if isinstance(value, SizeOf) else value for name, value in family.statics.items()}
    return types, statics


def _of_products(family: Family) -> list[str]:
    """That a product of sizes is at least any of its factors' products, which jax does not conclude by itself."""
    statics = [value.text for value in family.statics.values() if isinstance(value, SizeOf)]
    sizes = [family.sizes(text) for text in (*(size for arg in family.args.values() for size in arg.shape), *statics)]
    products = dict.fromkeys(monomial for size in sizes for monomial, _ in size.terms if len(set(monomial)) > 1)
    return [
        f"{'*'.join(monomial)} >= {'*'.join(name for place, name in enumerate(monomial) if place != left_out)}"
        for monomial in products
        for left_out in range(len(monomial))
    ]


def _pull_back(
    forward: Callable[..., Any], types: Sequence[Any], chosen: Sequence[int], outputs: Any
) -> Callable[..., Any]:
    """The gradients with respect to the chosen arguments of cotangents of the outputs."""

    def pull(*arrays: Any) -> Any:
        *arguments, cotangents = arrays

        def of_chosen(*own: Any) -> Any:
            placed = dict(zip(chosen, own, strict=True))
            return forward(*(placed.get(number, argument) for number, argument in enumerate(arguments)))

        return jax.vjp(of_chosen, *(arguments[number] for number in chosen))[1](cotangents)

    return pull


def _paths(root: str, tree: Any) -> list[str]:
    return [root + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
