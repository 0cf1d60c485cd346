"""Outputs on the host: their leaves by path, and a comparison that checks itself before it is used."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from samebits.errors import CheckerBroken
from samebits.numerics.bits import Comparison, Leaf
from samebits.programs import host_trees
from samebits.programs.host_trees import HostTree, check_comparator, compare_trees, named_leaves

ONE = np.ones(3, np.float32)


def tree(structure: str = "{'a': *, 'b': *}", **leaves: Any) -> HostTree:
    return HostTree(structure=structure, leaves={name: Leaf.of(array) for name, array in leaves.items()})


def test_leaves_are_named_by_path_and_gradients_by_argument() -> None:
    assert list(named_leaves({"rows": (ONE, ONE)}, "forward")) == ["out['rows'][0]", "out['rows'][1]"]
    assert list(named_leaves({"x": ONE, "state": {"mu": ONE}}, "gradient")) == ["state.mu", "x"]
    assert list(named_leaves(ONE, "forward")) == ["out"]


def test_leaves_are_compared_one_by_one() -> None:
    found = compare_trees(tree(a=ONE, b=ONE), tree(a=ONE, b=-ONE), "out")
    assert [(comparison.path, comparison.mismatches) for comparison in found] == [("a", 0), ("b", 3)]


def test_another_structure_is_one_difference() -> None:
    (found,) = compare_trees(tree(a=ONE), tree("[*]", a=ONE), "out")
    assert (found.path, found.kind) == ("out", "structure")
    assert str(found.detail).endswith("; the leaves have the same paths, in other containers")


@pytest.mark.parametrize(
    ("leaves", "said"),
    [
        ({"a": ONE}, "only the reference has b float32[3]"),
        ({"a": ONE, "b": ONE, "c": np.zeros((2, 4), bool)}, "only the variant has c bool[2,4]"),
        ({"a": ONE, "t": ONE}, "only the reference has b float32[3]; only the variant has t float32[3]"),
        ({}, "only the reference has a float32[3], b float32[3]; the variant has no leaves"),
        ({f"x{n}": ONE for n in range(6)}, "x0 float32[3], x1 float32[3], x2 float32[3], x3 float32[3] and 2 more"),
    ],
)
def test_leaves_that_one_side_has_are_named(leaves: dict[str, Any], said: str) -> None:
    (found,) = compare_trees(tree(a=ONE, b=ONE), tree("another", **leaves), "out")
    assert str(found.detail).endswith(f"; {said}") or ("more" in said and str(found.detail).endswith(said))


def test_a_blind_comparison_is_found_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    check_comparator()

    def blind(path: str, reference: Leaf, optimized: Leaf) -> Comparison:
        return Comparison(path=path, elements=reference.array.size)

    monkeypatch.setattr(host_trees, "compare_leaf", blind)
    with pytest.raises(
        CheckerBroken, match=r"^the comparison saw 0 differing elements where 1 was planted \(one bit\)"
    ):
        check_comparator()


class _Mode:
    """Static data that prints alike whatever it holds."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return "Mode"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mode) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)


@dataclass
class _Node:
    leaf: Any
    mode: _Mode


jax.tree_util.register_dataclass(_Node, data_fields=["leaf"], meta_fields=["mode"])


@pytest.mark.parametrize(("number", "kinds"), [(1, {}), (2, {"structure": 1})])
def test_static_data_that_prints_alike_is_compared(number: int, kinds: dict[str, int]) -> None:
    leaf = {"out": Leaf.of(np.ones(2, np.float32))}
    trees = [
        HostTree(structure=str(tree), leaves=leaf, tree=tree)
        for tree in (jax.tree.structure(_Node(0.0, _Mode(each))) for each in (1, number))
    ]
    assert trees[0].structure == trees[1].structure
    (comparison,) = compare_trees(trees[0], trees[1], "out")
    assert dict(comparison.kinds) == kinds
