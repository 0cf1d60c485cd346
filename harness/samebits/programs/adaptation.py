"""The check that a map between two argument or output trees loses nothing: numbered elements are moved through it.

A map may split, join, reshape, transpose and rename. Then every number arrives, each once, and no other value does. The
numbers are random and distinct, so that arithmetic does not give another one of them by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.numerics.seeds import generator
from samebits.programs.inputs import key_implementation

Array = NDArray[Any]


def check_bijection(where: str, leaves: Mapping[str, Any], mapped: Callable[[dict[str, Any]], Any]) -> None:
    """Reject a map of which an element does not arrive, arrives twice, or is computed.

    Args:
        where: the pair, the variant and the map, for the message.
        leaves: what the map takes, by path: anything with a shape, in elements. Typed random keys have a dtype of keys.
        mapped: applies the map to concrete arrays by path, and gives the tree that it returns.

    Raises:
        DeclarationError: the map is not one to one; the message names a leaf.
    """
    import jax

    numbered = _numbered({path: _shape(leaf) for path, leaf in leaves.items()})
    with jax.ensure_compile_time_eval():  # a side is being traced
        concrete = {path: _like(array, leaves[path]) for path, array in numbered.items()}
        arrived = jax.tree_util.tree_leaves_with_path(mapped(concrete))
        moved = [(jax.tree_util.keystr(path), _numbers(leaf)) for path, leaf in arrived if hasattr(leaf, "dtype")]
    owners = {int(number): path for path, array in numbered.items() for number in array.reshape(-1)}
    counts = dict.fromkeys(owners, 0)
    for name, numbers in moved:
        for number in numbers:
            if number not in counts:
                raise DeclarationError(
                    f"{where}: leaf '{name}' holds a value that no leaf brought; a map may only "
                    "rename, split, join, reshape and transpose"
                )
            counts[number] += 1
    for number, count in counts.items():
        if count != 1:
            happened = "is lost" if count == 0 else f"arrives {count} times"
            elements = sum(owners[other] == owners[number] and counts[other] == count for other in counts)
            raise DeclarationError(
                f"{where}: {elements} of {numbered[owners[number]].size} elements of leaf '{owners[number]}' "
                f"{'are lost' if count == 0 else happened.replace('arrives', 'arrive')}; every element must arrive "
                "exactly once"
            )


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
    sizes = {path: int(np.prod(shape, dtype=np.int64)) for path, shape in shapes.items()}
    drawn = generator("adapt").choice(1 << 31, 2 * sum(sizes.values()) + 1, replace=True)
    numbers = np.unique(drawn[drawn > 0])
    numbers = generator("adapt", "order").permutation(numbers)[: sum(sizes.values())].astype(np.int32)
    if numbers.size < sum(sizes.values()):
        numbers = (1 + generator("adapt", "order").permutation(sum(sizes.values()))).astype(np.int32)
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


def _numbers(leaf: Any) -> list[int]:
    """The numbers in a leaf that arrived; a leaf of another dtype was computed, and brings none of them."""
    import jax

    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return [int(n) if array.dtype.kind in "iu" else -1 for n in array.reshape(-1)]
