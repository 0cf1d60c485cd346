"""The sizes of a declared case as symbols: whatever the declaration computes of them stays an expression of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from samebits.interpret.all_sizes.polynomial import Polynomial, of, variable
from samebits.schema.case import AxisSize, Case
from samebits.schema.meshes import MeshSpec


class SymbolicSize(int):
    """A size of a case that knows from which symbols it was made: a number to whoever looks, a polynomial to proofs.

    Sums, differences and products keep the symbols; all else gives plain numbers, which are then fixed in the family.
    """

    polynomial: Polynomial

    @classmethod
    def made(cls, number: int, polynomial: Polynomial) -> SymbolicSize:
        """A number with what it is made of."""
        size = cls(number)
        size.polynomial = polynomial
        return size

    def __add__(self, other: int) -> SymbolicSize:
        return self.made(int(self) + int(other), self.polynomial + polynomial_of(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> SymbolicSize:
        return self.made(int(self) - int(other), self.polynomial - polynomial_of(other))

    def __mul__(self, other: int) -> SymbolicSize:
        return self.made(int(self) * int(other), self.polynomial * polynomial_of(other))

    __rmul__ = __mul__


def polynomial_of(size: int) -> Polynomial:
    """A size as a polynomial; a plain number as a constant."""
    return size.polynomial if isinstance(size, SymbolicSize) else of(int(size))


def with_symbols(case: Case, fixed: Iterable[str] = ()) -> Case:
    """A case whose sizes are symbols of their names, but for some that stay numbers."""
    kept = set(fixed)
    sizes = {
        name: number if name in kept else SymbolicSize.made(number, variable(name))
        for name, number in case.sizes.items()
    }
    return replace(case, sizes=sizes)


@dataclass(frozen=True, kw_only=True)
class SymbolicMesh(MeshSpec):
    """A mesh whose axes have symbols for sizes; what a declaration computes of them stays an expression of them.

    Args:
        axes: as in `MeshSpec`: numbers for whoever needs one.
        taken: the names of sizes, which an axis of the same name must not use.
    """

    taken: tuple[str, ...] = ()

    @classmethod
    def over(cls, mesh: MeshSpec, case: Case) -> SymbolicMesh:
        """A mesh with symbols for the sizes of its axes and of those that a case names."""
        declared = {value.axis: 1 for value in case.statics.values() if isinstance(value, AxisSize)}
        axes = {**declared, **dict(mesh.axes)}
        return cls(axes=tuple(axes.items()), taken=tuple(case.sizes))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The axes whose sizes are symbols."""
        return tuple(name for name in self.names if name not in self.taken)

    def size(self, axis: str) -> int:
        """The size of an axis, as a symbol."""
        number = dict(self.axes).get(axis, 1)
        return SymbolicSize.made(number, variable(axis)) if axis in self.symbols else number
