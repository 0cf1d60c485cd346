"""Places arrays on a mesh; checks that the devices and layouts of the mesh were used and that replicas are equal."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from samebits.errors import DeclarationError, MeshNotUsed
from samebits.numerics.bits import Comparison, Leaf, compare_leaf
from samebits.numerics.floats import width
from samebits.programs.inputs import Array, Record
from samebits.schema.case import Arg, Spec
from samebits.schema.meshes import MeshSpec

Index = tuple[tuple[int, int], ...]
"""A part of an array: the first element and the end of every dimension."""


def partition(spec: Spec, mesh: MeshSpec) -> PartitionSpec:
    """Return a declaration's spec on a mesh: axes that the mesh lacks are left out."""
    entries: list[Any] = []
    for entry in spec:
        if entry is None or isinstance(entry, str):
            entries.append(entry if entry in mesh.names else None)
        else:
            kept = tuple(axis for axis in entry if axis in mesh.names)
            entries.append(kept if len(kept) > 1 else kept[0] if kept else None)
    return PartitionSpec(*entries)


def sharding(spec: Spec, shape: tuple[int, ...], name: str, mesh: MeshSpec, built: Mesh | AbstractMesh | None) -> Any:
    """Return the sharding of one array: over the mesh by its spec, or on the first device of this process alone."""
    if built is None:
        return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    for dimension, entry in enumerate(spec):
        axes = (entry,) if isinstance(entry, str) else entry or ()
        parts = math.prod([mesh.size(axis) for axis in axes])
        if dimension < len(shape) and shape[dimension] % parts:
            raise DeclarationError(
                f"argument '{name}': dimension {dimension} has size {shape[dimension]}, which does not divide by "
                f"{parts} ({'*'.join(axes)} on mesh '{mesh.id}'); change the size, or restrict the case by meshes=(...)"
            )
    return NamedSharding(built, partition(spec, mesh))


def settled(leaf: Any) -> Any:
    """Return an output as neighbours without sums see it: parts added up (unreduced axes), the whole left (reduced).

    The host cannot read parts of a sum, nor is the cotangent of such an output of its type. Of random keys it reads
    their words.
    """
    if not hasattr(leaf, "dtype"):  # a Python number
        return jnp.asarray(leaf)
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    where = getattr(jax.typeof(leaf), "sharding", None)
    if where is None or not (where.spec.reduced or where.spec.unreduced):
        return leaf
    return jax.reshard(leaf, PartitionSpec(*where.spec.partitions))


def as_taken(leaf: Any) -> Any:
    """Return an argument as a compiled program takes it: dtypes narrower than a byte from the host.

    jax compiles for arrays that pack them, and rejects its own, which do not (`lower().compile()` of jax 0.10.2).
    Arrays that span processes have to stay where they are.
    """
    packed = isinstance(leaf, jax.Array) and leaf.is_fully_addressable and _is_packed(leaf.dtype)
    return np.asarray(leaf) if packed else leaf


def _is_packed(dtype: Any) -> bool:
    return not jnp.issubdtype(dtype, jax.dtypes.extended) and width(dtype) < 8


def require_held(dtype: np.dtype[Any], where: str) -> None:
    """Reject a dtype that jax would shorten without a word."""
    shorter = jax.dtypes.canonicalize_dtype(dtype)
    if shorter != dtype:
        raise DeclarationError(
            f"{where} has dtype {dtype.name}, which jax holds as {shorter.name}; set JAX_ENABLE_X64=1, or declare "
            f"{shorter.name}"
        )


def cotangent_layout(output: Any, declared: PartitionSpec, mesh: Mesh | AbstractMesh) -> PartitionSpec:
    """Return how the cotangent of an output lies: as its type says over explicit axes, else as declared."""
    explicit = mesh.explicit_axes
    if not explicit:
        return declared
    own: PartitionSpec = output.sharding.spec
    if len(explicit) == len(mesh.axis_names):
        return own
    used = {axis for entry in own for axis in _axes_of(entry)}
    entries = []
    for dimension, size in enumerate(output.shape):
        split = _axes_of(own[dimension])
        wanted = declared[dimension] if dimension < len(declared) else None
        more = (*split, *(axis for axis in _axes_of(wanted) if axis not in explicit and axis not in used))
        entries.append(more if size % math.prod(mesh.shape[axis] for axis in more) == 0 else split)
    return PartitionSpec(*(axes or None for axes in entries))


def _axes_of(entry: Any) -> tuple[str, ...]:
    """Return the axes of one entry of a partition spec."""
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def place(
    record: Record, args: Mapping[str, Arg], mesh: MeshSpec, built: Mesh | AbstractMesh | None
) -> dict[str, jax.Array]:
    """Return the arguments of a record as jax arrays on the mesh, or on the first device alone."""
    return {
        name: put(array, sharding(args[name].spec, array.shape, name, mesh, built)) for name, array in record.items()
    }


def put(array: Array, where: Any) -> jax.Array:
    """Put one host array on its devices; of those of other processes, each process places its own part."""
    if not where.is_fully_addressable:
        # `jax.device_put` would have all processes compare the whole array, in a collective without a time limit.
        return jax.make_array_from_callback(np.shape(array), where, lambda index: np.asarray(array)[index])
    placed: jax.Array = jax.device_put(array, where)
    return placed


def put_tree(arrays: Any, places: Any) -> Any:
    """Return a tree of arrays on their devices, by a tree of shardings."""
    return jax.tree.map(put, arrays, places)


def describe(value: Any) -> str:
    """Return how an array lies on its devices, such as `(None, 'context')` or `one device`."""
    sharding = value.sharding
    if isinstance(sharding, NamedSharding):
        return str(tuple(sharding.spec))
    if len(sharding.device_set) == 1:
        return "one device"
    return "replicated" if sharding.is_fully_replicated else "split by the compiler"


@functools.cache
def device_number(device: jax.Device) -> int:
    """Return the place of a device among those of its backend: of several processes, ids have gaps (0 to 3, 2048 ...).

    The backend is asked itself: a plugin of jax may have another name than its devices' platform.
    """
    return int(device.client.devices().index(device))


def parts(sharding: Any, shape: tuple[int, ...]) -> dict[Index, list[int]]:
    """Map each part of an array of this shape to the devices that hold it, in the order of the mesh."""
    holders: dict[Index, list[int]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        part = tuple(piece.indices(size)[:2] for piece, size in zip(index, shape, strict=True))
        holders.setdefault(part, []).append(device_number(device))
    return holders


def check_mesh_used(
    placed: Mapping[str, Any], outputs: Mapping[str, Any], mesh: MeshSpec, built: Mesh | AbstractMesh
) -> None:
    """Hold the devices really used, and the mesh that was built, against the mesh's label."""
    if tuple(built.shape.items()) != mesh.axes:
        raise MeshNotUsed(f"mesh '{mesh.id}' was asked for, but the mesh that was built is {dict(built.shape)}")
    other = [axis for axis, kind in MeshSpec.of(built).fixed().items() if mesh.fixed().get(axis, kind) != kind]
    if other:
        raise MeshNotUsed(
            f"mesh '{mesh.id}' was asked for, but axis '{other[0]}' of the mesh that was built is of another type: "
            f"'{MeshSpec.of(built).id}'"
        )
    assert isinstance(built, Mesh), "an abstract mesh runs nothing"
    promised = {device.id for device in built.devices.flat}
    for name, value in (*placed.items(), *outputs.items()):
        devices_used = {device.id for device in value.sharding.device_set}
        if devices_used != promised:
            raise MeshNotUsed(
                f"mesh '{mesh.id}' promises {len(promised)} devices, "
                f"but '{name}' lies on {len(devices_used)}: {sorted(devices_used)[:8]}"
            )


def idle_axes(arrays: Iterable[Any], mesh: MeshSpec) -> list[str]:
    """Return the axes of size above 1 over which no array is split, in their order."""
    used: set[str] = set()
    for value in arrays:
        if isinstance(value.sharding, NamedSharding):
            for entry in value.sharding.spec:
                used.update((entry,) if isinstance(entry, str) else entry or ())
    return [axis for axis, size in mesh.axes if size > 1 and axis not in used]


def on_host(value: Any) -> Array:
    """Return one array on the host; asked for by name, so that a user's `jax_transfer_guard` lets it pass."""
    return np.asarray(jax.device_get(value))


def diverging_replicas(outputs: Mapping[str, Any]) -> list[Comparison]:
    """Find copies of one piece of an output that differ between devices although the sharding calls them replicas."""
    diverging = []
    for path, value in outputs.items():
        first: dict[str, Any] = {}
        for shard in value.addressable_shards:
            piece = on_host(shard.data)
            key = str(shard.index)
            if key not in first:
                first[key] = piece
                continue
            comparison = compare_leaf(
                f"{path} (replica on device {device_number(shard.device)})", Leaf.of(first[key]), Leaf.of(piece)
            )
            if not comparison.equal:
                diverging.append(comparison)
    return diverging
