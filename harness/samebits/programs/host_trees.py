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


# What a side writes into its arguments while it runs: an updated model, the statistics of a layer, a cache in a dict.
AFTER = " after the call"


@dataclass(frozen=True, slots=True)
class WithWrites:
    """What a side returned and what it wrote into its arguments; a pytree.

    Args:
        written: by name, the leaves of its arguments after the call that this side or another one writes.
        touched: the paths of these leaves, those included that are not there any more.
        changes: what it changed besides: leaves removed, contents that are not numbers, other structures; each with
            its path, as a short text and in full.
    """

    outputs: Any
    written: Mapping[str, Any]
    touched: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]


def _children(outcome: WithWrites) -> tuple[tuple[Any, ...], Any]:
    return (outcome.outputs, *outcome.written.values()), (tuple(outcome.written), outcome.touched, outcome.changes)


def _with_writes(auxiliary: Any, children: Sequence[Any]) -> WithWrites:
    names, touched, changes = auxiliary
    return WithWrites(children[0], dict(zip(names, children[1:], strict=True)), touched, changes)


jax.tree_util.register_pytree_node(WithWrites, _children, _with_writes)


def returned(outputs: Any) -> Any:
    """Return what a side returned, without what it wrote."""
    return outputs.outputs if isinstance(outputs, WithWrites) else outputs


def touched(outputs: Any) -> tuple[str, ...]:
    """Return the paths of the leaves of its arguments that a side writes; of its outputs or of their types."""
    return outputs.touched if isinstance(outputs, WithWrites) else ()


def fresh(value: Any) -> Any:
    """Copy a dict or list for one call: one without arrays, such as an empty cache, may be filled by it."""
    if type(value) is dict:
        return {key: fresh(entry) for key, entry in value.items()}
    return [fresh(entry) for entry in value] if type(value) is list else value


class Watched:
    """Remembers the arguments of a call as they were before it; those that are single arrays cannot be written into."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._before = {name: _flat(name, value) for name, value in arguments.items()}

    def outcome(self, outputs: Any, wanted: Sequence[str] = ()) -> Any:
        """Return what a side returned with what it wrote into the arguments; itself where nothing is written or wanted.

        Wanted are leaves that another side writes; where this one does not, they are as before.
        """
        paths: set[str] = set(wanted)
        changes: list[tuple[str, str, str]] = []
        leaves: dict[str, Any] = {}
        for name, (before, structure) in self._before.items():
            after, other = _flat(name, self._arguments[name])
            leaves |= after
            gone = [path for path in before if path not in after]
            new = [path for path in after if path not in before]
            changed = [path for path in after if path in before and not _same(before[path], after[path])]
            paths |= {*gone, *new, *changed}
            changes += [(path, f"removes {path}", "") for path in gone]
            changes += [(p, f"sets {p}", repr(after[p])) for p in (*new, *changed) if not _is_number(after[p])]
            if not (gone or new) and not are_equal(structure, other):
                changes.append((name, f"changes what is in '{name}' beside arrays", str(other)))
                paths.add(name)
        if not paths:
            return outputs
        order = tuple(sorted(paths))
        written = {f"{path}{AFTER}": leaves[path] for path in order if _is_number(leaves.get(path))}
        return WithWrites(outputs, written, order, tuple(changes))


def writes_apart(first: Any, second: Any) -> str | None:
    """Say how two sides differ in which leaves of their arguments they write; None where they do not."""
    sides = [_auxiliary(structure) for structure in (first, second)]
    if sides[0] == sides[1]:
        return None
    return f"reference {_writes(*sides)}; optimized {_writes(*reversed(sides))}"


def _writes(own: Any, other: Any) -> str:
    """Return what one side writes that the other does not; of leaves that the other removes, it has what was there."""
    kept = {text for _, text, _ in other[2]}
    paths = [name.removesuffix(AFTER) for name in own[0] if name not in other[0]]
    texts = [f"writes {path}" for path in paths if f"removes {path}" not in kept]
    return ", ".join([*texts, *(change[1] for change in own[2] if change not in other[2])]) or "does not"


def _auxiliary(structure: Any) -> Any:
    data = structure.node_data() if structure is not None else None
    return data[1] if data is not None and data[0] is WithWrites else ((), (), ())


def _flat(name: str, value: Any) -> tuple[dict[str, Any], Any]:
    paths, structure = jax.tree_util.tree_flatten_with_path(value)
    return {name + jax.tree_util.keystr(path): leaf for path, leaf in paths}, structure


def _same(before: Any, after: Any) -> bool:
    """Return whether a leaf was not written: arrays are the very same, and other contents are equal."""
    if before is after:
        return True
    if hasattr(before, "shape") or hasattr(after, "shape"):
        return False
    return type(before) is type(after) and are_equal(before, after)


def are_equal(first: Any, second: Any) -> bool:
    """Compare two values; those that cannot be compared count as equal."""
    try:
        return bool(first == second)
    except Exception:  # of what a class of the user's says of equality, as of arrays
        return True


def _is_number(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)
