"""Programs that XLA:CPU compiled, run by it and as their translation, so that the two can be compared by partition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from samebits.hlo.as_jax import PartitionProgram
from samebits.hlo.module import HloModule

Array = np.ndarray[Any, Any]

QUICK = {"xla_backend_optimization_level": 0}
"""Options for the translation alone, whose machine code nobody needs to be fast."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program with arguments, and what it returned for them.

    Args:
        serialised: its module.
        arguments: flat, with a leading axis of partitions.
        outputs: the same.
    """

    serialised: bytes
    arguments: list[Array]
    outputs: list[Array]
    names: list[str]

    def translated(self, serialised: bytes | None = None, filler: float = 0.0) -> list[Array]:
        """Run the translation of the module, or of an edited one."""
        partitions = len(self.outputs[0])
        program = PartitionProgram(HloModule(serialised or self.serialised), [partitions], filler)
        return [np.asarray(output) for output in jax.jit(program.on_all, compiler_options=QUICK)(*self.arguments)]

    def differences(self, outputs: Sequence[Array], ulps: int = 0) -> list[str]:
        """Name the outputs that differ from the program's own by more than units in the last place of the largest."""
        assert len(outputs) == len(self.outputs)
        pairs = zip(self.names, self.outputs, outputs, strict=True)
        return [name for name, own, other in pairs if not same(own, other, ulps)]


def same(first: Array, second: Array, ulps: int) -> bool:
    """Tell whether arrays have the same bits but for those of NaN, or are close by the magnitude of the largest."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if not jnp.issubdtype(first.dtype, jnp.inexact):
        return bool(np.array_equal(first, second))
    if np.iscomplexobj(first):
        return same(first.real, second.real, ulps) and same(first.imag, second.imag, ulps)
    nan = np.isnan(first)
    if not np.array_equal(nan, np.isnan(second)):
        return False
    if ulps:
        first, second = (np.where(nan, 0, array).astype(np.float64) for array in (first, second))
        finite = np.isfinite(first)
        size = np.max(np.abs(first[finite]), initial=0)
        eps = 2.0**-23
        apart = np.abs(np.where(finite, first, 0) - np.where(finite, second, 0))
        return bool((first == second)[~finite].all() and (apart <= ulps * eps * size).all())
    bits = np.dtype(f"u{first.dtype.itemsize}")
    return bool((nan | (first.view(bits) == second.view(bits))).all())


def compiled(
    function: Callable[..., Any], *arguments: Any, specs: Sequence[Any] | None = None, mesh: Any = None
) -> Compiled:
    """Compile a function, and run it on one device, or on those of a mesh with arguments that `specs` cut."""
    devices = [jax.devices()[0]] if mesh is None else list(mesh.devices.flat)
    if mesh is None:
        placed = [np.asarray(argument) for argument in arguments]
    else:
        specs = specs or [PartitionSpec()] * len(arguments)
        placed = [
            jax.device_put(argument, NamedSharding(mesh, spec)) for argument, spec in zip(arguments, specs, strict=True)
        ]
    program = jax.jit(function, keep_unused=True).lower(*placed).compile()
    (module,) = program.runtime_executable().hlo_modules()  # type: ignore[union-attr]
    results = jax.tree_util.tree_flatten_with_path(program(*placed))[0]
    return Compiled(
        module.as_serialized_hlo_module_proto(),
        [by_partition(value, devices) for value in placed],
        [by_partition(value, devices) for _, value in results],
        [jax.tree_util.keystr(path) for path, _ in results],
    )


def by_partition(value: Any, devices: Sequence[Any]) -> Array:
    """Stack what each device has of an array."""
    if isinstance(value, np.ndarray):
        return value[None]
    shards = {shard.device: shard.data for shard in value.addressable_shards}
    return np.stack([np.asarray(shards[device]) for device in devices])
