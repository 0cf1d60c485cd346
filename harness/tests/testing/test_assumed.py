"""The line at the end of pytest about comparisons that passed under assumptions, of one process and of workers."""

from pathlib import Path

import pytest

from tests.testing.test_plugin import run_pytest

TESTS = """
import jax.numpy as jnp
import numpy as np

import samebits

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)


def test_gate():
    samebits.assert_same(
        lambda x: jnp.where(x > 0, x, 0.0) * 2, lambda x: 2 * jnp.maximum(x, 0.0), X, gradients=False, name="gate"
    )


def test_flip():
    assert samebits.check(lambda x: x[::-1], lambda x: jnp.flip(x, 0), X).ok


def test_sum():
    samebits.assert_same(
        lambda x: jnp.sum(x, -1), lambda x: jnp.sum(x[:, ::-1], -1), np.exp(3 * np.sin(X)), gradients=False, name="sum"
    )


def test_fails():
    samebits.assert_same(lambda x: x * 2, lambda x: x * 3, X, gradients=False)
"""

LINE = "samebits: 2 of 4 comparisons passed under assumptions that other values could break ("


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "test_theirs.py").write_text(TESTS)
    return tmp_path


def test_one_line_and_the_list_by_test(tree: Path) -> None:
    """The option that the line names prints the list."""
    done = run_pytest(tree)
    assert LINE in done.stdout and "): `pytest --samebits-assumptions` lists them" in done.stdout
    assert "1 failed, 3 passed" in done.stdout
    listed = run_pytest(tree, "--samebits-assumptions").stdout
    assert "samebits: assumptions ===" in listed
    assert "test_theirs.py::test_gate: gate\n  assumes comparisons come out as at the inputs of the case" in listed
    assert "test_theirs.py::test_sum: sum\n  assumes no number leaves the range of float32" in listed
    assert "test_flip" not in listed and "`pytest --samebits-no-assumptions` accepts none" in listed


@pytest.mark.slow
def test_workers_send_what_they_compared(tree: Path) -> None:
    assert LINE in run_pytest(tree, "-n", "2").stdout


@pytest.mark.slow
def test_none_are_accepted(tree: Path) -> None:
    """What rests on equal bits or needs none holds; the replay of what fails has the option."""
    done = run_pytest(tree, "--samebits-no-assumptions")
    assert "passed under assumptions" not in done.stdout
    assert "could not tell without assumptions (range)" in done.stdout
    assert "test_theirs.py::test_sum' --samebits-no-assumptions" in done.stdout
