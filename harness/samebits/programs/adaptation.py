"""The check that a map between two argument or output trees loses nothing: numbered elements are moved through it.

A map may split, join, reshape, transpose and rename. Then every number arrives, each once, and no other value does. The
numbers are random and distinct, so that arithmetic does not give another one of them by accident.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.numerics.seeds import generator
from samebits.programs.inputs import key_implementation

Array = NDArray[Any]


def check_bijection(
    where: str, leaves: Mapping[str, Any], mapped: Callable[[dict[str, Any]], Any], built: Any = None
) -> None:
    """Reject a map of which an element does not arrive, arrives twice, or is computed.

    Args:
        where: the pair, the variant and the map, for the message.
        leaves: what the map takes, by path: anything with a shape, in elements. Typed random keys have a dtype of keys.
        mapped: applies the map to concrete arrays by path, and gives the tree that it returns.
        built: the mesh under which the side is traced, if any.

    Raises:
        DeclarationError: the map is not one to one; the message names a leaf.
    """
    numbered = _numbered({path: _shape(leaf) for path, leaf in leaves.items()})
    moved = _moved(numbered, leaves, mapped, built)
    known = np.sort(np.concatenate([array.reshape(-1) for array in numbered.values()]))
    counts = np.zeros(known.size, np.int64)
    for name, numbers in moved.items():
        places = np.searchsorted(known, numbers)
        if not np.array_equal(
            np.append(known, -2)[places], numbers
        ):  # -2 is not a number of an element: beyond the largest nothing fits
            raise DeclarationError(
                f"{where}: leaf '{name}' holds a value that no leaf brought; a map may only rename, split, join, "
                "reshape and transpose"
            )
        counts += np.bincount(places, minlength=known.size)
    if np.all(counts == 1):
        return
    for path, array in numbered.items():
        times = counts[np.searchsorted(known, array.reshape(-1))]
        wrong = times[times != 1]
        if wrong.size:
            count = int(wrong[0])
            happened = "are lost" if count == 0 else f"arrive {count} times"
            raise DeclarationError(
                f"{where}: {np.sum(wrong == count)} of {array.size} elements of leaf '{path}' {happened}; every "
                "element must arrive exactly once"
            )


def _moved(
    numbered: Mapping[str, Array], leaves: Mapping[str, Any], mapped: Callable[[dict[str, Any]], Any], built: Any
) -> dict[str, Array]:
    """The numbers in each leaf that a map gives.

    The devices of a slice that is only compiled for run nothing, and a trace does not leave its mesh: then the map is
    called in a thread, in which nothing is being traced, under a mesh of this process.
    """
    import jax

    def moved() -> dict[str, Array]:
        concrete = {path: _like(array, leaves[path]) for path, array in numbered.items()}
        arrived = jax.tree_util.tree_leaves_with_path(mapped(concrete))
        return {jax.tree_util.keystr(path): _numbers(leaf) for path, leaf in arrived if hasattr(leaf, "dtype")}

    def moved_here() -> dict[str, Array]:
        devices = jax.devices()
        if len(devices) < built.size:
            return moved()
        here = np.array(devices[: built.size]).reshape(built.devices.shape)
        with jax.set_mesh(jax.sharding.Mesh(here, built.axis_names, axis_types=built.axis_types)):
            return moved()

    if isinstance(built, jax.sharding.Mesh) and built.devices.flat[0] not in jax.devices():
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(moved_here).result()
    with jax.ensure_compile_time_eval():  # a side is being traced
        return moved()


def _shape(leaf: Any) -> tuple[int, ...]:
    """The shape of a leaf; of random keys, that of their words."""
    import jax

    if _is_key(leaf):
        return tuple(jax.eval_shape(jax.random.key_data, leaf).shape)
    return tuple(leaf.shape)


def _is_key(leaf: Any) -> bool:
    import jax

    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _numbered(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Arrays of distinct positive 31-bit numbers."""
    sizes = {path: math.prod(shape) for path, shape in shapes.items()}
    total = sum(sizes.values())
    gaps = generator("adapt").integers(1, max((1 << 31) // (total + 1), 2), total)
    numbers = generator("adapt", "order").permutation(np.cumsum(gaps)).astype(np.int32)
    arrays, start = {}, 0
    for path, shape in shapes.items():
        arrays[path] = numbers[start : start + sizes[path]].reshape(shape)
        start += sizes[path]
    return arrays


def _like(array: Array, leaf: Any) -> Any:
    """The numbers as what the map takes: random keys where it takes keys."""
    import jax

    if _is_key(leaf):
        words = jax.numpy.asarray(array, np.uint32)
        return jax.random.wrap_key_data(words, impl=key_implementation(str(leaf.dtype)))
    return jax.numpy.asarray(array)


def _numbers(leaf: Any) -> Array:
    """The numbers in a leaf that arrived; a leaf of another dtype was computed, and brings none of them."""
    import jax

    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf).reshape(-1)
    return np.sort(array).astype(np.int64) if array.dtype.kind in "iu" else np.full(array.size, -1)
