"""What a side writes into its arguments while it runs: an updated model, the statistics of a layer, a cache in a dict.

A trace keeps only what a function returns. So the arguments are flattened again after the call, and every array in them
that is another one than before is an output of the side as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

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
