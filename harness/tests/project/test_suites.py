"""A test of a suite that claims bits compares bits: `assert_same_bits`, and none of NumPy's asserts of equality."""

import ast
from pathlib import Path

import pytest

from tests.project.import_graph import ROOT, python_files

BLIND = ("assert_array_equal", "assert_equal", "assert_trees_all_equal")
"""They pass -0.0 for 0.0 and, but for the last, another dtype; see `harness/tests/testing/test_asserts.py`."""


def blind_asserts(root: Path) -> list[str]:
    """Where a file of `suites/` calls one of `BLIND`."""
    return [
        f"{path.relative_to(root)}:{node.lineno} calls {node.attr}: write samebits.assert_same_bits"
        for path in python_files(root, "suites")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in BLIND
    ]


def test_suites_compare_bits() -> None:
    if wrong := blind_asserts(ROOT):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("call", ["np.testing.assert_array_equal(a, b)", "chex.assert_trees_all_equal(a, b)"])
def test_an_assert_that_does_not_compare_bits_is_found(call: str, tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "test_planted.py").write_text(f"def test_it():\n    {call}\n")
    (wrong,) = blind_asserts(tmp_path)
    assert wrong.startswith("suites/test_planted.py:2 calls assert_") and wrong.endswith("assert_same_bits")
