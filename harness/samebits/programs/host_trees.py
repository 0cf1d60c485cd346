"""Outputs of programs on the host: fetched, named by path, and compared leaf by leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from samebits.errors import CheckerBroken, CouldNotRun
from samebits.numerics.bits import Comparison, Leaf, compare_leaf
from samebits.programs.argument_writes import WithWrites, are_equal, returned, writes_apart
from samebits.programs.placement import on_host
from samebits.programs.program_cache import Program

LISTED = 4
"""Leaves that are named of each side where only one has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostTree:
    """An output on the host.

    Args:
        structure: how jax prints it.
        leaves: by path, in order.
        tree: as jax has it; None where only what is printed counts.
    """

    structure: str
    leaves: Mapping[str, Leaf]
    tree: Any = None


def named_leaves(tree: Any, direction: str) -> dict[str, Any]:
    """Return the leaves of an output by path: `out...` forward; a gradient's leaf is its argument's name.

    What a side writes into its arguments is named by these.
    """
    if isinstance(tree, WithWrites):
        return named_leaves(tree.outputs, direction) | dict(tree.written)
    paths = jax.tree_util.tree_leaves_with_path(tree)
    if direction == "gradient":
        return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in paths}
    return {"out" + jax.tree_util.keystr(path): leaf for path, leaf in paths}


def inexact_leaves(outputs: Any, has_aux: bool) -> dict[str, Any]:
    """Return the leaves of a side's outputs that cotangents are pulled back from; with `has_aux` of the first."""
    first = "out" + jax.tree_util.keystr((jax.tree_util.SequenceKey(0),))
    return {
        path: leaf
        for path, leaf in named_leaves(returned(outputs), "forward").items()
        if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact) and (not has_aux or path.startswith(first))
    }


def to_host(
    outputs: Any, program: Program, direction: str, fetched: Mapping[str, Any] = MappingProxyType({})
) -> HostTree:
    """Fetch an output; its weak types are read from the trace. What is on the host already is `fetched`, by path."""
    info = named_leaves(program.traced.out_info, direction)
    leaves = {
        path: Leaf(
            array=fetched[path] if path in fetched else on_host(value),
            weak_type=bool(getattr(info[path], "weak_type", False)),
        )
        for path, value in named_leaves(outputs, direction).items()
    }
    tree = jax.tree_util.tree_structure(outputs)
    return HostTree(structure=str(tree), leaves=leaves, tree=tree)


def declared_tree(program: Program, direction: str, written: bool = True) -> HostTree:
    """Return the output of a traced program as `to_host` would fetch it, zeros for its numbers."""
    info = program.traced.out_info if written else returned(program.traced.out_info)
    leaves = {}
    for path, leaf in named_leaves(info, direction).items():
        try:
            zero = np.zeros((), leaf.dtype)
        except TypeError:
            raise CouldNotRun(
                f"{program.label} '{path}' has dtype {leaf.dtype}, which is not an array of numbers"
            ) from None
        leaves[path] = Leaf(array=np.broadcast_to(zero, leaf.shape), weak_type=bool(getattr(leaf, "weak_type", False)))
    tree = jax.tree_util.tree_structure(info)
    return HostTree(structure=str(tree), leaves=leaves, tree=tree)


def compare_trees(reference: HostTree, optimized: HostTree, name: str) -> list[Comparison]:
    """Compare two outputs: structure first, then leaf by leaf."""
    writes = writes_apart(reference.tree, optimized.tree)
    if writes is not None:
        return [_of_structure(name, f"{writes}: the sides do not write the same leaves of their arguments")]
    if reference.structure != optimized.structure:
        detail = (
            f"reference={reference.structure}, variant={optimized.structure}; return one tree from both sides, or "
            f"map the variant's outputs by adapt; {_leaves_apart(reference.leaves, optimized.leaves)}"
        )
        return [_of_structure(name, detail)]
    if not same_structure(reference, optimized):
        detail = f"both print as {reference.structure}, but their static data is not equal; return equal trees"
        return [_of_structure(name, detail)]
    return [compare_leaf(path, leaf, optimized.leaves[path]) for path, leaf in reference.leaves.items()]


def _of_structure(name: str, detail: str) -> Comparison:
    return Comparison(path=name, elements=0, mismatches=1, max_ulp=None, kinds={"structure": 1}, detail=detail)


def _leaves_apart(reference: Mapping[str, Leaf], optimized: Mapping[str, Leaf]) -> str:
    """Return which leaves only one side has, with their shapes."""
    sides = ("the reference", reference, optimized), ("the variant", optimized, reference)
    texts = [
        f"only {side} has {_listed([f'{path} {_type(leaf)}' for path, leaf in own.items() if path not in other])}"
        for side, own, other in sides
        if not own.keys() <= other.keys()
    ]
    texts += [f"{side} has no leaves" for side, own, _ in sides if not own]
    return "; ".join(texts) or "the leaves have the same paths, in other containers"


def _listed(leaves: Sequence[str]) -> str:
    more = f" and {len(leaves) - LISTED} more" if len(leaves) > LISTED else ""
    return ", ".join(leaves[:LISTED]) + more


def _type(leaf: Leaf) -> str:
    return f"{leaf.array.dtype.name}[{','.join(map(str, leaf.array.shape))}]"


def same_structure(reference: HostTree, optimized: HostTree) -> bool:
    """Return whether two outputs are one tree, as `compare_trees` decides it: containers and static data count.

    Where jax cannot compare static data, what is printed counts.
    """
    if reference.tree is None or optimized.tree is None:
        return reference.structure == optimized.structure
    return reference.structure == optimized.structure and are_equal(reference.tree, optimized.tree)


def check_comparator() -> None:
    """Check that the comparison finds three planted differences: a flipped bit, the sign of a zero, and a wider dtype.

    It runs before the first pair of every run, so that a broken comparison is detected in the run that uses it.
    """
    honest = np.array([[1.5, -2.25], [0.0, 3.0]], np.float32)
    flipped, signed = honest.copy(), honest.copy()
    flipped.view(np.uint32)[0, 1] ^= 1
    signed[1, 0] = -0.0
    planted = {"one bit": (flipped, 1), "the sign of zero": (signed, 1), "the dtype": (honest.astype(np.float64), 4)}
    for what, (array, expected) in planted.items():
        trees = [HostTree(structure="*", leaves={"out": Leaf.of(a)}) for a in (honest, array)]
        mismatches = [comparison.mismatches for comparison in compare_trees(trees[0], trees[1], "out")]
        if mismatches != [expected]:
            raise CheckerBroken(
                f"the comparison saw {sum(mismatches)} differing elements where {expected} was planted ({what}); "
                "no verdict can be trusted"
            )
