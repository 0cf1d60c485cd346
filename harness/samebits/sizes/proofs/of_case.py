"""The sizes of a declared case as symbols: whatever the declaration computes of them stays an expression of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from samebits.errors import DeclarationError
from samebits.schema.case import AxisSize, Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.size_symbols import EXAMPLE, SizeSymbols, is_symbol
from samebits.sizes.places.dimensions import dimension
from samebits.sizes.places.polynomial import Polynomial, of


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
