"""A compiled program run on the CPU, all partitions at once, beside the program as it was written.

The module that the target's compiler made becomes a JAX function (`samebits.hlo.as_jax`); arguments are cut into shards
as its input shardings say, and outputs joined. Where an output is replicated, every replica is returned, so that
partitions that disagree are seen. What was written, traced for one device, is the reference of a pair whose variant is
that function: everything that compares, proves and reports pairs works for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.errors import CouldNotRun
from samebits.hlo.module import HloModule

Array = Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Shards:
    """How one array lies on the partitions.

    Args:
        parts: into how many parts each dimension is cut.
        shard: of each partition, the number of its part, in row-major order.
    """

    parts: tuple[int, ...]
    shard: tuple[int, ...]

    @classmethod
    def of(cls, sharding: Any, shape: Sequence[int], devices: Sequence[Any]) -> Shards:
        """Return those of a JAX sharding, for devices in the order of the partitions.

        Raises:
            CouldNotRun: a dimension is not cut into equal parts.
        """
        pieces = sharding.devices_indices_map(tuple(shape))
        starts = [[part.start or 0 for part in pieces[device]] for device in devices]
        local = sharding.shard_shape(tuple(shape))
        if any(size and size % cut for size, cut in zip(shape, local, strict=True)):
            raise CouldNotRun(f"an array of shape {tuple(shape)} is cut into shards of {local}, which are not equal")
        parts = tuple(size // cut if cut else 1 for size, cut in zip(shape, local, strict=True))
        places = [[at // cut if cut else 0 for at, cut in zip(start, local, strict=True)] for start in starts]
        return cls(parts=parts, shard=tuple(int(np.ravel_multi_index(place, parts)) if place else 0 for place in places))

    @property
    def count(self) -> int:
        """Return how many different shards there are."""
        return math.prod(self.parts)

    @property
    def replicas(self) -> int:
        """Return on how many partitions each shard lies."""
        return len(self.shard) // self.count

    def cut(self, array: Array) -> Array:
        """Return the shards by partition; the array itself where all partitions have the whole of it."""
        import jax.numpy as jnp

        if self.count == 1:
            return array
        split = [part for size, parts in zip(array.shape, self.parts, strict=True) for part in (parts, size // parts)]
        rank = array.ndim
        order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
        shards = array.reshape(split).transpose(order).reshape(self.count, *split[1::2])
        return shards if self.shard == tuple(range(self.count)) else jnp.take(shards, np.array(self.shard), axis=0)

    def joined(self, by_partition: Array) -> Array:
        """Return the whole array once for each replica, which come first."""
        import jax.numpy as jnp

        holders: list[list[int]] = [[] for _ in range(self.count)]
        for partition, shard in enumerate(self.shard):
            holders[shard].append(partition)
        order = np.array(holders).T.reshape(-1)
        if order.tolist() != [*range(len(order))]:
            by_partition = jnp.take(by_partition, order, axis=0)
        local, rank = by_partition.shape[1:], len(self.parts)
        split = by_partition.reshape(self.replicas, *self.parts, *local)
        axes = [axis for dim in range(rank) for axis in (1 + dim, 1 + rank + dim)]
        whole = [part * size for part, size in zip(self.parts, local, strict=True)]
        return split.transpose(0, *axes).reshape(self.replicas, *whole)


@dataclass(frozen=True, kw_only=True, slots=True, weakref_slot=True, eq=False)
class RunnableProgram:
    """A compiled program, and how its arguments and outputs lie on its partitions.

    Args:
        module: what the compiler made.
        partitions: how many run it.
        taken: which flat arguments its parameters are.
        inputs: of those arguments.
        outputs: of the flat outputs.
    """

    module: HloModule
    partitions: int
    taken: tuple[int, ...]
    inputs: tuple[Shards, ...]
    outputs: tuple[Shards, ...]

    @classmethod
    def of(cls, compiled: Any, traced: Any, taken: tuple[int, ...], devices: Sequence[Any]) -> RunnableProgram:
        """Return a program that jax compiled ahead of time.

        Args:
            compiled, traced: as jax has them.
            taken: which flat arguments jit did not drop.
            devices: of the mesh, in its order, which is that of the partitions.
        """
        import jax

        module = HloModule(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
        # jit may keep arguments that no equation uses.
        count = module.parameter_count
        taken = taken if count == len(taken) else tuple(range(count))
        given = jax.tree.leaves(compiled.input_shardings)
        if len(given) not in (count, len(traced.jaxpr.in_avals)) or count > len(traced.jaxpr.in_avals):
            raise CouldNotRun(f"the compiled program has {count} parameters, and jax states {len(given)} shardings")
        shardings = given if len(given) == count else [given[number] for number in taken]
        types = [traced.jaxpr.in_avals[number] for number in taken]
        results = jax.tree.leaves(compiled.output_shardings)
        return cls(
            module=module,
            partitions=len(devices),
            taken=taken,
            inputs=tuple(Shards.of(s, t.shape, devices) for s, t in zip(shardings, types, strict=True)),
            outputs=tuple(
                Shards.of(s, t.shape, devices) for s, t in zip(results, traced.jaxpr.out_avals, strict=True)
            ),
        )

    def __call__(self, *flat: Array) -> list[Array]:
        """Return the outputs for flat arguments of the whole function, replicas first."""
        import jax

        from samebits.hlo.as_jax import PARTITIONS, PartitionProgram

        args = [shards.cut(flat[number]) for number, shards in zip(self.taken, self.inputs, strict=True)]
        axes = tuple(None if shards.count == 1 else 0 for shards in self.inputs)
        run = PartitionProgram(self.module, self.partitions)
        by_partition = jax.vmap(
            run, in_axes=axes, out_axes=0, axis_name=PARTITIONS, axis_size=self.partitions
        )(*args)
        return [shards.joined(part) for shards, part in zip(self.outputs, by_partition, strict=True)]
