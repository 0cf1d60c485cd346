"""A point of a pair on another number of devices: its sizes there, as its symbols have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from samebits.errors import DeclarationError
from samebits.schema.meshes import MeshSpec
from samebits.schema.size_symbols import value_of
from samebits.sizes.proofs.attempts import PairPoint, mesh_axes, numbers_on, symbols_of

MOST_DEVICES = 16
"""Up to which number of devices on an axis a proof is asked for where code asks for the mesh."""


def in_order(most: int) -> Iterator[int]:
    """The numbers of devices up to the most, those on which most is run first.

    One device comes first, since the proof there often holds for others; then the largest and the powers of two.
    """
    first = [1, most, *(1 << power for power in range(most.bit_length() - 1, 0, -1))]
    yield from (number for number in dict.fromkeys([*first, *range(1, most + 1)]) if number <= most)


def few(most: int) -> Iterator[int]:
    """The numbers of devices on which a fault is looked for where nothing is shown: one, an odd one and the largest."""
    yield from (number for number in dict.fromkeys((1, most, 3)) if number <= most)


def point_on(point: PairPoint, mesh: MeshSpec, there: MeshSpec) -> PairPoint | None:
    """The point on another mesh of the same axes; None where its symbols do not allow that number of devices.

    Sizes that are made of the number of devices become other numbers, and all other symbols keep theirs.

    Args:
        point: as declared, on its mesh.
        mesh: of the point.
        there: the other one.
    """
    try:
        numbers, symbols = numbers_on(point, mesh), symbols_of(point, there)
        devices = symbols.numbers({name: there.size(name) for name in mesh_axes(point, there)})
        if numbers is None or devices is None:
            return None
        # A dimension that is not split on the mesh of the point has its own size for a symbol there.
        own = {f"{name}_shard": number for name, number in point.case.numbers.items()}
        values = {**own, **numbers, **devices}
        of_symbols = [name for name in point.case.numbers if name in symbols.expressions]
        sizes = {name: value_of(symbols.text(name), values) for name in of_symbols}
        moved = replace(point, case=point.case.at_sizes(sizes))
        return moved if numbers_on(moved, there) is not None else None
    except DeclarationError:  # the declaration does not allow these sizes together, or this mesh
        return None
