"""The families that a point of a pair is tried for: its arguments with symbols, and both sides as functions of them.

Every size is a symbol where that is possible; a family has as few numbers as the code of the sides allows.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from samebits.errors import DeclarationError
from samebits.programs.implementations import implementation
from samebits.programs.inputs import arg_below, arg_dtype, arg_equals, differentiable, drawn_values
from samebits.programs.placement import partition
from samebits.programs.shared_state import SharedState
from samebits.programs.side_call import side_call
from samebits.schema.case import Arg, AxisSize, Case
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.pair import Pair
from samebits.schema.size_symbols import EXAMPLE, SizeSymbols, is_symbol
from samebits.schema.values import Given, Normal
from samebits.sizes.places.polynomial import Polynomial, dimension, of, variable
from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.tracing import OnMesh, TracedOnce
from samebits.sizes.proofs.witnesses import Function


@dataclass(frozen=True, slots=True)
class PairPoint:
    """What is to be proved: a variant in a case.

    Args:
        platform: whose branches of `lax.platform_dependent` run; None where that is not known.
        programs: those of sides that are traced already, for the next caller.
    """

    pair: Pair
    variant: str
    case: Case
    dtype: str
    direction: str
    mode: Mode = "auto"
    platform: str | None = None
    programs: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def key(self) -> tuple[str | None, ...]:
        """Return the names of all that it is made of."""
        return self.pair.name, self.variant, self.case.id, self.dtype, self.direction, self.mode, self.platform


@dataclass(frozen=True, slots=True)
class Attempt:
    """A family for a point, with both sides as functions.

    Args:
        sizes, axes: by size of the case and by mesh axis that is made of symbols, its expression.
    """

    family: Family
    functions: tuple[Function, Function]
    fixed: Mapping[str, int]
    sizes: Mapping[str, str]
    axes: Mapping[str, str]

    @property
    def statics(self) -> dict[str, str]:
        """Return the static arguments that are sizes, as text."""
        return {name: size.text for name, size in self.family.statics.items() if isinstance(size, SizeOf)}


def attempts(point: PairPoint, mesh: MeshSpec, most_fixed: int) -> Iterator[Attempt]:
    """Yield families with as few symbols fixed as possible, as long as there is one left.

    Args:
        mesh: of symbols, or the one that it is proved for.
        most_fixed: how many symbols may be numbers.
    """
    symbols = symbols_of(point, mesh)
    own = (*point.case.sizes, *(name for name in point.case.numbers if name in symbols.expressions))
    numbers = numbers_on(point, mesh)
    # Empty dimensions are not sizes of a family, and a mesh that is there has the axes that it has.
    always = {name: number for name, number in point.case.sizes.items() if number < 1}
    if not isinstance(mesh, SymbolicMesh) and numbers is not None:
        always |= {name: numbers[name] for name in symbols.free(mesh_axes(point, mesh))}
    names = tuple(name for name in symbols.free(own) if numbers is not None and name not in always)
    for count in range(min(most_fixed, len(names)) + 1):
        for fixed in itertools.combinations(names, count):
            values = {**always, **{name: (numbers or {})[name] for name in fixed}}
            attempt = _attempt(point, mesh, symbols, values)
            if attempt.family.symbols:
                yield attempt


def symbols_of(point: PairPoint, mesh: MeshSpec | None = None) -> SizeSymbols:
    """Return what the sizes of the case are made of; where shardings are part of types, they divide as well."""
    symbols = point.case.size_symbols(f"pair '{point.pair.name}', case '{point.case.id}'", point.pair.axes)
    if point.mode != "explicit" or mesh is None or isinstance(mesh, SymbolicMesh):
        return symbols
    shards: dict[str, int] = {}
    for arg in point.pair.arguments(point.case, mesh).values():
        for size, entry in zip(arg.shape, arg.spec, strict=False):
            axes = entry if isinstance(entry, tuple) else () if entry is None else (entry,)
            devices = math.prod(mesh.size(axis) for axis in axes)
            if isinstance(size, str) and devices > 1 and size not in symbols.expressions:
                shards[size] = math.lcm(shards.get(size, 1), devices)
    own = {size: f"{devices}*{size}_shard" for size, devices in shards.items()}
    return replace(symbols, expressions={**symbols.expressions, **own})


def mesh_axes(point: PairPoint, mesh: MeshSpec) -> tuple[str, ...]:
    """Return the mesh axes that the sizes of a case are declared to depend on."""
    case, symbols = point.case, symbols_of(point, mesh)
    free = symbols.free(tuple(case.numbers))
    names = dict.fromkeys((*point.pair.axes, *mesh.names))
    return tuple(name for name in names if name not in case.numbers and (name in symbols.expressions or name in free))


def numbers_on(point: PairPoint, mesh: MeshSpec) -> dict[str, int] | None:
    """Return the symbols' values at the declared sizes, on a mesh; on one of symbols, whatever its axes are there."""
    case, symbols = point.case, symbols_of(point, mesh)
    axes = {} if isinstance(mesh, SymbolicMesh) else {name: mesh.size(name) for name in mesh_axes(point, mesh)}
    return symbols.numbers({**axes, **case.numbers})


def covers(family: Family, point: PairPoint, mesh: MeshSpec) -> bool:
    """Tell whether the declared shapes on a mesh are among those of a family."""
    axes = {
        name: mesh.size(name) for name in (*family.symbols, *mesh_axes(point, mesh)) if name not in point.case.numbers
    }
    known = {name for name in axes if name in point.pair.axes or name in mesh.names or name in _axis_names(point.case)}
    numbers = symbols_of(point).numbers({**{name: axes[name] for name in known}, **point.case.numbers})
    if numbers is None:
        return False
    numbers |= {name: number for name, number in point.case.sizes.items() if number < 1}
    for name, arg in point.pair.arguments(point.case, mesh).items():
        declared = tuple(point.case.sizes[size] if isinstance(size, str) else size for size in arg.shape)
        shaped = family.args.get(name)
        if shaped is None or tuple(family.sizes(size).value(numbers) for size in shaped.shape) != declared:
            return False
    return True


def _attempt(point: PairPoint, mesh: MeshSpec, symbols: SizeSymbols, fixed: Mapping[str, int]) -> Attempt:
    pair, case = point.pair, with_symbols(point.case, symbols, fixed)
    args = pair.arguments(case, mesh)
    shaped = {
        name: Shaped(
            tuple(str(polynomial_of(case.sizes[size] if isinstance(size, str) else size)) for size in arg.shape),
            arg_dtype(arg, point.dtype).name,
            _as_text(arg_below(arg, name, case)),
            _drawing(arg, name, arg_dtype(arg, point.dtype), point.case),
            _as_text(arg_equals(arg, name, case, _places(len(arg.shape)))),
        )
        for name, arg in args.items()
    }
    every = isinstance(mesh, SymbolicMesh)
    statics = {name: SizeOf(str(size.polynomial)) for name, size in _symbolic_statics(case, mesh).items()}
    texts = " ".join([str(size) for arg in shaped.values() for size in arg.shape] + [s.text for s in statics.values()])
    axes = mesh.symbolic if isinstance(mesh, SymbolicMesh) else ()
    family = Family(
        symbols={name: symbols.low(name) for name in symbols.free((*case.numbers, *axes)) if _names(texts, name)},
        args=shaped,
        statics=statics,
        differentiable=differentiable(args, point.dtype),
        divided=_divided(args, case, mesh, texts),
        platform=point.platform,
    )
    built = None if every else mesh.abstract(point.mode)
    single = mesh.single.abstract(point.mode) if built is not None and case.context_meshes else None
    functions = (
        _function(point, pair.reference_name, case, mesh, single),
        _function(point, point.variant, case, mesh, built),
    )
    sizes = {name: case.sizes.get(name, case.statics.get(name)) for name in case.numbers}
    return Attempt(family, functions, fixed, _expressions(sizes), _expressions({n: mesh.size(n) for n in axes}))


def _as_text(size: int | None) -> str | None:
    return None if size is None else str(polynomial_of(size))


def _places(dimensions: int) -> dict[str, int]:
    """Return the place of an element along each dimension, as symbols."""
    return {name: SymbolicSize.made(0, variable(name)) for name in (f"index{axis}" for axis in range(dimensions))}


def _drawing(arg: Arg, name: str, dtype: np.dtype[Any], case: Case) -> Callable[..., Any] | None:
    """Return how the integers of an argument are drawn: what they select is promised of such ones alone."""
    if dtype.kind not in "iub" or isinstance(arg.values, Given | Normal):
        return None
    return lambda rng, shape: drawn_values(arg, name, rng, shape, dtype, case)


def _divided(args: Mapping[str, Arg], case: Case, mesh: MeshSpec, texts: str) -> tuple[tuple[str, str], ...]:
    """Return the dimensions that lie on several devices, with their number; axes of no size are 1 there."""
    divided: dict[tuple[str, str], None] = {}
    for arg in args.values():
        for size, entry in zip(arg.shape, arg.spec, strict=False):
            devices = of(1)
            for axis in entry if isinstance(entry, tuple) else () if entry is None else (entry,):
                number = polynomial_of(mesh.size(axis))
                idle = isinstance(mesh, SymbolicMesh) and not any(_names(texts, name) for name in number.variables)
                devices = devices if idle else devices * number
            if devices.constant != 1:
                text = str(polynomial_of(case.sizes[size] if isinstance(size, str) else size))
                divided[text, str(devices)] = None
    return tuple(divided)


def _expressions(sizes: Mapping[str, Any]) -> dict[str, str]:
    """Return the sizes that are symbols, as text."""
    return {name: str(size.polynomial) for name, size in sizes.items() if isinstance(size, SymbolicSize)}


def _names(texts: str, name: str) -> bool:
    return name in texts.replace("*", " ").replace("+", " ").replace("-", " ").split()


def _function(point: PairPoint, side: str, case: Case, mesh: MeshSpec, built: Any) -> Callable[..., Any]:
    """Return a side as a function of the arrays of a case, in their order, and of its sizes of mesh axes."""
    pair = point.pair
    names = tuple(pair.arguments(case, mesh))
    written = implementation(pair, side)
    state = SharedState(implementation(pair, each) for each in pair.sides)

    def function(*arrays: Any, **sizes: Any) -> Any:
        dims = {str(size.polynomial): sizes[name] for name, size in _symbolic_statics(case, mesh).items()}

        @functools.wraps(written)
        def traced_side(*args: Any, **keywords: Any) -> Any:
            return written(*(_dim(a, dims) for a in args), **{name: _dim(a, dims) for name, a in keywords.items()})

        call = side_call(pair, side, traced_side if dims else written, case, mesh, built)
        with state.put_back():
            return call(dict(zip(names, arrays, strict=True)))

    name = _name_of(point, written, case, mesh)
    if built is None:
        # Whether the code of a variant asks for a mesh is seen where it is traced.
        return function if name is None or side != pair.reference_name else TracedOnce(function, name, point.programs)
    explicit = point.mode == "explicit" and side != pair.reference_name
    specs = {name: partition(arg.spec, mesh) for name, arg in pair.arguments(case, mesh).items()}
    placed = OnMesh(function, built, specs if explicit else {})
    return placed if name is None else TracedOnce(placed, (name, side, mesh, built, explicit), point.programs)


def _name_of(point: PairPoint, written: Callable[..., Any], case: Case, mesh: MeshSpec) -> Hashable | None:
    """Return what a side closes over: its code, names and static arguments; None where one of these has no hash."""
    statics = {n: str(v) if isinstance(v, SymbolicSize) else v for n, v in point.pair.statics(case, mesh).items()}
    name = point.pair.name, case.id, written, tuple(statics.items()), tuple(point.pair.arguments(case, mesh))
    try:
        hash(name)
    except TypeError:  # as of a list: then it is traced anew each time
        return None
    return name


def axis_sizes(case: Case) -> dict[str, AxisSize]:
    """Return the static arguments that are sizes of mesh axes."""
    return {name: value for name, value in case.statics.items() if isinstance(value, AxisSize)}


def _axis_names(case: Case) -> set[str]:
    return {value.axis for value in axis_sizes(case).values()}


def _symbolic_statics(case: Case, mesh: MeshSpec) -> dict[str, SymbolicSize]:
    """Return the static arguments that are sizes made of symbols."""
    values = {name: mesh.size(v.axis) if isinstance(v, AxisSize) else v for name, v in case.statics.items()}
    return {name: value for name, value in values.items() if isinstance(value, SymbolicSize)}


def _dim(value: Any, dims: Mapping[str, Any]) -> Any:
    """Return the size of an axis as jax has it, in place of the number that the declaration gave."""
    return dims[str(value.polynomial)] if isinstance(value, SymbolicSize) else value


# The sizes of a declared case as symbols: whatever the declaration computes of them stays an expression of them.
class SymbolicSize(int):
    """A size of a case with the symbols that it was made from: a number to code, a polynomial to proofs.

    Sums, differences and products keep the symbols; all else gives plain numbers, which are then fixed in the family.
    """

    polynomial: Polynomial

    @classmethod
    def made(cls, number: int, polynomial: Polynomial) -> SymbolicSize:
        """Return a number with what it is made of."""
        size = cls(number)
        size.polynomial = polynomial
        return size

    def __add__(self, other: int) -> SymbolicSize:
        return self.made(int(self) + int(other), self.polynomial + polynomial_of(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> SymbolicSize:
        return self.made(int(self) - int(other), self.polynomial - polynomial_of(other))

    def __rsub__(self, other: int) -> SymbolicSize:
        return self.made(int(other) - int(self), polynomial_of(other) - self.polynomial)

    def __mul__(self, other: int) -> SymbolicSize:
        return self.made(int(self) * int(other), self.polynomial * polynomial_of(other))

    __rmul__ = __mul__


def polynomial_of(size: int) -> Polynomial:
    """Return a size as a polynomial; a plain number as a constant."""
    return size.polynomial if isinstance(size, SymbolicSize) else of(int(size))


def with_symbols(case: Case, symbols: SizeSymbols, fixed: Mapping[str, int]) -> Case:
    """Make the sizes of a case expressions of symbols, but for those that are fixed."""
    sizes = {name: _size(name, number, symbols, fixed) for name, number in case.sizes.items()}
    statics = {
        name: _size(name, value, symbols, fixed)
        for name, value in case.statics.items()
        # Of a size of the same name it is another number: then it is not of that symbol.
        if name in symbols.expressions and case.numbers.get(name) == value
    }
    return replace(case, sizes=sizes, statics={**case.statics, **statics})


def _size(name: str, number: int, symbols: SizeSymbols, fixed: Mapping[str, int]) -> int:
    """Return a size with what it is made of; a plain number where all its symbols are numbers."""
    if name not in symbols.expressions and not is_symbol(name):
        return number
    polynomial = expression(symbols.text(name)).substitute({symbol: of(value) for symbol, value in fixed.items()})
    return number if polynomial.constant is not None else SymbolicSize.made(number, polynomial)


def expression(text: str) -> Polynomial:
    """Return a declared expression as a polynomial."""
    return dimension(text, _no_operation)


def _no_operation(name: str, values: Sequence[Polynomial]) -> Polynomial:
    raise DeclarationError(f"a size with {name}(...); expected {EXAMPLE}")


@dataclass(frozen=True, kw_only=True)
class SymbolicMesh(MeshSpec):
    """A mesh whose axes have symbols for sizes; what a declaration computes of them stays an expression of them.

    Args:
        axes: as in `MeshSpec`: numbers for code that needs one.
        taken: the names of sizes, which an axis of the same name must not use.
        symbols: what the sizes of axes are made of.
    """

    taken: tuple[str, ...] = ()
    symbols: SizeSymbols = field(default_factory=SizeSymbols)

    @classmethod
    def over(cls, mesh: MeshSpec, case: Case, symbols: SizeSymbols) -> SymbolicMesh:
        """Return a mesh with symbols for the sizes of its axes and of those that a case names."""
        declared = {value.axis: 1 for value in case.statics.values() if isinstance(value, AxisSize)}
        axes = {**declared, **dict(mesh.axes)}
        return cls(axes=tuple(axes.items()), taken=tuple(case.numbers), symbols=symbols)

    @property
    def symbolic(self) -> tuple[str, ...]:
        """Return the axes whose sizes are symbols."""
        return tuple(name for name in self.names if name not in self.taken)

    def size(self, axis: str) -> int:
        """Return the size of an axis, as a symbol."""
        number = dict(self.axes).get(axis, 1)
        return _size(axis, number, self.symbols, {}) if axis in self.symbolic else number
