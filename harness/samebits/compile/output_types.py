"""What a side returns besides numbers: its tree, and the dtypes and weak types of its leaves, which no HLO shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samebits.programs.host_trees import HostTree


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputTypes:
    """The output of a traced program.

    Args:
        tree: its structure, without leaves.
        leaves: path, dtype and whether the type is weak, in order.
    """

    tree: HostTree
    leaves: tuple[tuple[str, str, bool], ...]

    @classmethod
    def of(cls, traced: Any) -> OutputTypes:
        """Return those of a traced program, as jax has it."""
        import jax

        from samebits.programs.host_trees import HostTree

        info = traced.out_info
        structure = jax.tree_util.tree_structure(info)
        leaves = tuple(
            ("out" + jax.tree_util.keystr(path), str(leaf.dtype), bool(getattr(leaf, "weak_type", False)))
            for path, leaf in jax.tree_util.tree_leaves_with_path(info)
        )
        return cls(tree=HostTree(structure=str(structure), leaves={}, tree=structure), leaves=leaves)

    def difference(self, variant: OutputTypes) -> str | None:
        """Say what a variant returns otherwise than this reference; None where it returns the same types."""
        from samebits.programs.host_trees import same_structure

        if not same_structure(self.tree, variant.tree):
            first, second = self.tree.structure, variant.tree.structure
            return "another output tree: " + (
                f"{first} -> {second}" if first != second else f"both print as {first}, but their static data differs"
            )
        for (path, dtype, weak), (_, other_dtype, other_weak) in zip(self.leaves, variant.leaves, strict=True):
            if dtype != other_dtype:
                return f"another output dtype: {path} {dtype} -> {other_dtype}"
            if weak != other_weak:
                return f"another output weak type: {path} weak_type={weak} -> {other_weak}"
        return None
