"""Square roots in GF(p) and GF(p^2): of each square one, of nothing else one."""

import numpy as np
import pytest

from samebits.interpret.equation import Array
from samebits.interpret.field import residues
from samebits.interpret.field.ring import Ring

P = residues.PRIMES[0]
POINTS = 3


def drawn(seed: int, rows: int, elements: int = 200) -> Array:
    """Residues, with small numbers and 0 among them."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, elements)) < 0.2, rng.integers(0, 3, elements), rng.integers(0, P, elements))


@pytest.mark.parametrize("extended", [False, True])
def test_squares_have_roots(extended: bool) -> None:
    ring = Ring(POINTS, extended)
    values = drawn(1, ring.rows)
    squares = ring.multiply(values, values, P)
    roots, known = ring.root(squares)
    assert known.all()
    assert np.array_equal(ring.multiply(roots, roots, P), squares)


def test_a_number_of_the_field_has_a_root_in_the_extension() -> None:
    ring = Ring(POINTS, True)
    values = ring.real(drawn(2, POINTS))
    roots, known = ring.root(values)
    assert known.all() and np.array_equal(ring.multiply(roots, roots, P), values)


@pytest.mark.parametrize("extended", [False, True])
def test_a_root_is_known_where_there_is_one_at_every_point(extended: bool) -> None:
    ring = Ring(POINTS, extended)
    values = drawn(3, ring.rows) | 1
    squares = ring.multiply(values, values, P)
    factor = ring.real(np.ones((POINTS, values.shape[1]), np.int64))
    factor[::POINTS, ::2] = _no_square()[:, None] if extended else P - 1  # at the first point alone
    roots, known = ring.root(ring.multiply(squares, factor, P))
    assert not known[::2].any() and known[1::2].all()
    assert np.array_equal(ring.multiply(roots, roots, P)[:, 1::2], squares[:, 1::2])


def _no_square() -> Array:
    """A number without a root in GF(p^2): its norm has none in GF(p)."""
    for second in range(1, 50):
        if pow(1 + second**2, (P - 1) // 2, P) != 1:
            return np.array([1, second])
    raise AssertionError("no such number")


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_roots_have_the_shape_of_the_numbers(shape: tuple[int, ...]) -> None:
    ring = Ring(POINTS, True)
    roots, known = ring.root(np.ones((ring.rows, *shape), np.int64))
    assert roots.shape == (ring.rows, *shape) and known.shape == shape
