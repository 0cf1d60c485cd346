"""Outputs on the host: their leaves by path, and a comparison that checks itself before it is used."""

from __future__ import annotations

from typing import Any

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


def test_a_blind_comparison_is_found_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    check_comparator()

    def blind(path: str, reference: Leaf, optimized: Leaf) -> Comparison:
        return Comparison(path=path, elements=reference.array.size)

    monkeypatch.setattr(host_trees, "compare_leaf", blind)
    with pytest.raises(
        CheckerBroken, match=r"^the comparison saw 0 differing elements where 1 was planted \(one bit\)"
    ):
        check_comparator()
