"""Arguments declared by example: a pytree of arrays or shapes becomes a tree of `Arg`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.errors import DeclarationError
from samebits.schema.argument_trees import ArgTree, argument_tree, constant_tree, joined_tree
from samebits.schema.case import Arg, Spec
from samebits.schema.values import Given


def like(tree: Any, *, specs: Any = None, differentiable: bool = True, exactly: bool = False) -> ArgTree:
    """Return the declaration of an argument that is this pytree: parameters, a Flax or Equinox module, random keys.

    Arrays are what the first draw consists of, and further draws vary them; of shapes, values are drawn. Whatever else
    is in the tree (Python numbers, functions, None) is passed on as it is, to both sides.

    Args:
        tree: a pytree of jax or NumPy arrays of any shape, `jax.ShapeDtypeStruct` and typed random keys.
        specs: how the arrays lie on the mesh: a `PartitionSpec` for all, or a tree of them that is a prefix of `tree`;
            None, the default, takes each array's own sharding, and splits nothing where it has none.
        differentiable: whether gradients with respect to the float arrays are compared; True by default.
        exactly: whether the integers and booleans in it are all that there are. By default they are examples, and
            others like them are tried.

    Returns:
        A value for `Pair.args`.

    Raises:
        DeclarationError: there is no array in the tree, there is a `jax.Ref` in it, or `specs` is not a prefix of it.
    """
    import jax

    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    for path, leaf in paths:
        if isinstance(leaf, jax.Ref):
            raise DeclarationError(
                f"the argument{jax.tree_util.keystr(path)} is a jax.Ref, which is not compared; pass "
                "the array in it (ref[...]), and make the Ref inside the functions with jax.new_ref"
            )
    laid_out = _specs(tree, specs, [leaf for _, leaf in paths])
    parts = []
    for (path, leaf), spec in zip(paths, laid_out, strict=True):
        name = jax.tree_util.keystr(path)
        try:
            part = _arg(leaf, spec, differentiable, exactly) if is_array(leaf) else constant_tree(leaf)
        except DeclarationError as error:
            raise DeclarationError(f"leaf {name}: {error}" if path else str(error)) from None
        parts.append((name, argument_tree(name, part)))
    if not any(is_array(leaf) for _, leaf in paths):
        raise DeclarationError(f"like({_short(tree)}): no array in it; expected a pytree with arrays or shapes")
    return joined_tree(structure, parts)


def is_array(leaf: Any) -> bool:
    """Return whether a leaf is an array, or the shape of one; Python numbers are not."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, type)


def _arg(leaf: Any, spec: Spec, differentiable: bool, exactly: bool) -> Arg:
    """Return the declaration of one array."""
    import jax

    shape = tuple(int(size) for size in leaf.shape)
    key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    dtype = str(leaf.dtype) if key else np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype)).name
    weak = bool(getattr(leaf, "weak_type", False))
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return Arg(shape=shape, dtype=dtype, spec=spec, differentiable=differentiable, weak_type=weak)
    array = np.asarray(jax.device_get(jax.random.key_data(leaf) if key else leaf))
    return Arg(
        shape=shape,
        dtype=dtype,
        spec=spec,
        differentiable=differentiable,
        values=Given(array=array, exactly=exactly),
        weak_type=weak,
    )


def _specs(tree: Any, specs: Any, leaves: Sequence[Any]) -> list[Spec]:
    """Return how each leaf lies on the mesh."""
    import jax

    if specs is None:
        return [_own_spec(leaf) for leaf in leaves]
    whole = jax.sharding.PartitionSpec

    def is_spec(node: Any) -> bool:
        return node is None or isinstance(node, whole)

    spread: list[Spec] = []

    def add(spec: Any, part: Any) -> None:
        if not is_spec(spec):
            raise DeclarationError(f"specs {specs}: got {spec!r}, a {type(spec).__name__}; expected a PartitionSpec")
        spread.extend([() if spec is None else tuple(spec)] * len(jax.tree.leaves(part)))

    try:
        jax.tree.map(add, specs, tree, is_leaf=is_spec)
    except (ValueError, TypeError, AttributeError) as error:
        raise DeclarationError(
            f"specs {specs} do not fit the arguments: {str(error).splitlines()[0]}; expected a PartitionSpec, or a "
            "tree of them that is a prefix of the argument"
        ) from None
    if len(spread) != len(leaves):
        raise DeclarationError(
            f"specs {specs} do not fit the arguments: they cover {len(spread)} of {len(leaves)} leaves; expected a "
            "PartitionSpec, or a tree of them that is a prefix of the argument"
        )
    return spread


def _own_spec(leaf: Any) -> Spec:
    """Return how an array lies on its own mesh; nothing where it lies on one device."""
    spec = getattr(getattr(leaf, "sharding", None), "spec", None)
    return () if spec is None else tuple(spec)


def _short(tree: Any) -> str:
    text = repr(tree)
    return text if len(text) < 60 else f"{text[:57]}..."
