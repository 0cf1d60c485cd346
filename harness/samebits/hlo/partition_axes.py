"""The partitions of a compiled module as a grid of `vmap` axes, of which a collective goes along some.

What is the same on all partitions along an axis has no dimension for it, so that it is computed once: weights that are
gathered over one axis of a mesh, or activations that no axis divides. A `vmap` knows that by itself: only what comes
from arguments that differ along an axis, or from the number of the partition, has its dimension.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PartitionAxes:
    """A grid of partitions, numbered in row-major order.

    Args:
        sizes: of its axes.
    """

    sizes: tuple[int, ...]

    @classmethod
    def dividing(cls, mesh: Sequence[int], tables: Iterable[Numbers]) -> PartitionAxes:
        """Return the grid with the fewest axes along which tables can be told apart.

        Args:
            mesh: the sizes of the axes of the mesh, or the number of partitions alone.
            tables: `[partitions]` or `[groups, members]`: numbers by partition, or the partitions of each group.
        """
        digits = cls(tuple(factor for size in mesh for factor in _factors(size)) or (1,))
        sets = {frozenset(digits.varying(table)) for table in tables}
        sizes = [digits.sizes[0]]
        for number in range(1, len(digits.sizes)):
            if any((number in varying) != (number - 1 in varying) for varying in sets):
                sizes.append(1)
            sizes[-1] *= digits.sizes[number]
        return cls(tuple(sizes))

    @property
    def count(self) -> int:
        """Return the number of partitions."""
        return math.prod(self.sizes)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the `vmap` axes."""
        return tuple(f"partitions{number}" for number in range(len(self.sizes)))

    def varying(self, table: Numbers) -> tuple[int, ...]:
        """Return the axes along which numbers by partition vary, or on which the members of a group differ."""
        if table.ndim == 2:
            places = np.unravel_index(table, self.sizes)
            return tuple(axis for axis, place in enumerate(places) if (place != place[:, :1]).any())
        return self.reduced(table)[0]

    def reduced(self, table: Numbers) -> tuple[tuple[int, ...], Numbers]:
        """Return the axes along which entries by partition, `[partitions, ...]`, vary, and the entries along these."""
        grid = table.reshape(*self.sizes, *table.shape[1:])
        varying = tuple(axis for axis in range(len(self.sizes)) if (grid != grid.take([0], axis)).any())
        fixed = tuple(0 if axis not in varying else slice(None) for axis in range(len(self.sizes)))
        return varying, grid[fixed]

    def along(self, partitions: Numbers, axes: Sequence[int]) -> Numbers:
        """Return the places of partitions in the part of the grid that some axes span."""
        places = np.unravel_index(partitions, self.sizes)
        sizes = [self.sizes[axis] for axis in axes]
        return np.ravel_multi_index([places[axis] for axis in axes], sizes) if axes else np.zeros_like(partitions)

    def gathered(self, value: Any, axes: Sequence[int]) -> Any:
        """Return the values along some axes, inside of `mapped`: one leading dimension, in the order of `along`."""
        everything = value
        for axis in reversed(axes):
            everything = lax.all_gather(everything, self.names[axis])
        return jnp.reshape(everything, (math.prod(self.sizes[axis] for axis in axes), *value.shape))

    def own(self, table: Numbers) -> Any:
        """Return the entry of the own partition in a table `[partitions, ...]`, inside of `mapped`."""
        varying, entries = self.reduced(table)
        return jnp.asarray(entries)[tuple(lax.axis_index(self.names[axis]) for axis in varying)] if varying else entries

    def anywhere(self, predicate: Any) -> Any:
        """Tell whether a predicate holds on some partition, inside of `mapped`."""
        return self.gathered(predicate, range(len(self.sizes))).any()

    def mapped(self, function: Callable[..., Any], varying: Sequence[Sequence[int]]) -> Callable[..., Any]:
        """Return a function of all partitions.

        Args:
            function: of one partition.
            varying: of each argument, the axes along which it differs, which are its leading dimensions.

        Returns:
            The function, whose outputs have a leading axis of partitions.
        """
        for axis in reversed(range(len(self.sizes))):
            function = jax.vmap(
                function,
                in_axes=tuple(0 if axis in axes else None for axes in varying),
                axis_name=self.names[axis],
                axis_size=self.sizes[axis],
            )

        def on_all(*args: Any) -> Any:
            outputs = function(*args)
            return jax.tree.map(
                lambda array: jnp.reshape(array, (self.count, *array.shape[len(self.sizes) :])), outputs
            )

        return on_all


def _factors(size: int) -> Iterable[int]:
    for prime in itertools.count(2):
        while size % prime == 0:
            size //= prime
            yield prime
        if size == 1:
            return
