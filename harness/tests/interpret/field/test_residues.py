"""Arithmetic in the prime fields against Python's integers, and faults planted in it that these checks catch."""

import hashlib
import itertools
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from samebits.interpret.field import residues
from samebits.interpret.field.residues import BASES, PRIMES
from samebits.numerics import floats

Array = NDArray[Any]

few = settings(max_examples=60, derandomize=True, deadline=None, database=None)
primes = st.sampled_from(PRIMES)
seeds = st.integers(0, 2**32 - 1)
blocks = st.sampled_from((4, 1 << 14))  # so that small arrays go through blocks too
sides = st.integers(0, 5)


def some(shape: tuple[int, ...], p: int, seed: int) -> Array:
    """Read-only residues in one of several layouts, every third at an edge of the field."""
    rng = np.random.default_rng([seed, p])
    found = rng.integers(0, p, shape)
    edges = rng.choice(np.array([0, 1, 2, p // 2, p - 2, p - 1]), shape)
    found = np.asarray(np.where(rng.integers(0, 3, shape) == 0, edges, found))
    found = [found, np.array(found, order="F"), np.flip(np.array(np.flip(found)))][seed % 3]
    found.setflags(write=False)
    return found


def big(array: Array) -> Array:
    return array.astype(object)


def assert_is(found: Array, expected: Any, p: int) -> None:
    """`found` are residues, and those of the integers expected."""
    expected = np.asarray(np.asarray(expected, object) % p, object)
    assert found.dtype == np.int64 and found.shape == expected.shape
    assert np.array_equal(big(found), expected)


def is_prime(n: int) -> bool:
    """Miller and Rabin's test; these bases decide it below 3.3 * 10^24 (Sorenson and Webster 2015)."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if n < 2 or any(n % base == 0 for base in bases):
        return n in bases
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    for base in bases:
        powers = [pow(base, (n - 1) >> twos << k, n) for k in range(twos)]
        if powers[0] != 1 and n - 1 not in powers:
            return False
    return True


def test_the_primality_test_knows_primes_from_pseudoprimes() -> None:
    assert all(map(is_prime, (2, 41, 43, 2**31 - 1, 2**61 - 1)))
    assert not any(map(is_prime, (0, 1, 561, 3215031751, 341550071728321, (2**31 - 1) ** 2, PRIMES[0] + 2)))


def test_the_primes_form_a_chain_with_bases_of_the_right_order() -> None:
    assert all(2**45 < p < 2**50 and is_prime(p) for p in PRIMES)
    for level, base in enumerate(BASES):
        p, order = PRIMES[level : level + 2]
        assert (p - 1) % order == 0 and base != 1 and pow(base, order, p) == 1
        assert base == int.from_bytes(hashlib.sha256(f"samebits exponential {level}".encode()).digest()) ** 2 % p


@few
@given(p=primes, shape=st.lists(sides, max_size=3), cut=st.integers(0, 3), ones=seeds, seed=seeds, block=blocks)
def test_element_by_element_as_python(p: int, shape: list[int], cut: int, ones: int, seed: int, block: int) -> None:
    other = tuple(1 if ones >> k & 1 else size for k, size in enumerate(shape))[cut:]  # broadcasts against shape
    a, b = some(tuple(shape), p, seed), some(other, p, seed + 1)
    with mock.patch.object(residues, "_BLOCK", block):
        assert_is(residues.add(a, b, p), big(a) + big(b), p)
        assert_is(residues.subtract(a, b, p), big(a) - big(b), p)
        assert_is(residues.multiply(b, a, p), big(b) * big(a), p)
        assert_is(residues.negate(a, p), -big(a), p)
        for n in (-3, -1, 0, 1, 2, 7, p - 1):
            as_python = [pow(x, n, p) if x or n >= 0 else 0 for x in a.reshape(-1).tolist()]
            assert_is(residues.power(a, n, p), np.array(as_python, object).reshape(a.shape), p)
        nonzero = a != 0
        assert_is(residues.multiply(a, residues.inverse(a, p), p), nonzero.astype(int), p)


@few
@given(p=primes, sizes=st.tuples(sides, sides, sides), seed=seeds, block=blocks, reverse=st.booleans())
def test_sums_and_products_along_axes_as_python(
    p: int, sizes: tuple[int, int, int], seed: int, block: int, reverse: bool
) -> None:
    a = some(sizes, p, seed)
    step = -1 if reverse else 1
    with mock.patch.object(residues, "_BLOCK", block), mock.patch.object(residues, "_SHORT", (2, 1 << 13)[seed % 2]):
        for axis in (0, 1, -1, (0, 2), (1, -1), (), (0, 1, 2)):
            assert_is(residues.total(a, axis, p), np.asarray(big(a).sum(axis)), p)
        for axis in (0, 1, -1):
            turned = np.moveaxis(big(a), axis, 0)[::step]
            sums = np.moveaxis(np.cumsum(turned, 0)[::step], 0, axis)
            products = np.moveaxis(np.multiply.accumulate(turned, 0)[::step], 0, axis)
            assert_is(residues.cumulative(a, axis, p, reverse=reverse), sums, p)
            assert_is(residues.cumulative_product(a, axis, p, reverse=reverse), products, p)


@few
@given(p=primes, rows=st.integers(1, 3), n=st.integers(1, 6), m=st.integers(0, 30), seed=seeds)
def test_additions_at_repeated_indices_as_python(p: int, rows: int, n: int, m: int, seed: int) -> None:
    target, updates = some((rows, n), p, seed), some((rows, m), p, seed + 1)
    index = np.random.default_rng(seed).integers(0, n, m)
    expected = big(target).copy()
    for place, update in zip(index, big(updates).T, strict=True):
        expected[:, place] += update
    assert_is(residues.add_at(target, index, updates, p), expected, p)


MATMULS = (((2, -1), (-1, 3)), ((-1,), (-1,)), ((-1,), (2, -1, 1)), ((3, 2, -1), (-1,)), ((2, 1, 2, -1), (3, -1, 2)))


@few
@given(p=primes, seed=seeds, k=st.sampled_from((0, 1, 2, 17, 1000)), shapes=st.sampled_from(MATMULS))
def test_matrix_products_as_python(p: int, seed: int, k: int, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (some(tuple(k if size < 0 else size for size in shape), p, seed + len(shape)) for shape in shapes)
    expected = big(a) @ big(b) if k else np.zeros((a @ b).shape, object)
    assert_is(residues.matmul(a, b, p), expected, p)
    if a.ndim > 1 < b.ndim:  # the layouts that a transposition leaves
        turned = residues.matmul(np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2), p)
        assert_is(turned, np.swapaxes(expected, -1, -2), p)


@few
@given(level=st.integers(0, len(BASES) - 1), seed=seeds, block=blocks)
def test_the_exponential_as_python_and_its_law(level: int, seed: int, block: int) -> None:
    p, order = PRIMES[level : level + 2]
    a, b = some((3, 4), order, seed), some((4,), order, seed + 1)
    with mock.patch.object(residues, "_BLOCK", block):
        image = residues.exponential(a, level)
        as_python = [pow(BASES[level], x, p) for x in a.reshape(-1).tolist()]
        assert_is(image, np.array(as_python, object).reshape(a.shape), p)
        together = residues.exponential(residues.add(a, b, order), level)
        assert np.array_equal(residues.multiply(image, residues.exponential(b, level), p), together)


@few
@given(p=primes, seed=seeds, name=st.sampled_from(("float64", "float32", "bfloat16", "float16", "float8_e5m2")))
def test_every_finite_float_is_its_dyadic_rational(p: int, seed: int, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    info = ml_dtypes.finfo(dtype)
    array = np.frombuffer(np.random.default_rng(seed).bytes(64 * dtype.itemsize), dtype).copy()
    array[:8] = [0.0, -0.0, 1.0, -1.5, info.max, -info.max, info.tiny, info.smallest_subnormal]
    array = array[~floats.isnan(array) & ~floats.isinf(array)]
    exact = [Fraction(float(x)) for x in array]
    assert_is(residues.from_floats(array, p), [x.numerator * pow(x.denominator, -1, p) for x in exact], p)


def test_the_float_nearest_to_a_tenth_is_a_dyadic_fraction() -> None:
    for p in PRIMES:
        scale = residues.from_integers(np.array(2**55), p)
        assert_is(residues.multiply(residues.from_floats(np.array(0.1), p), scale, p), 3602879701896397, p)


@pytest.mark.parametrize("name", ["bool", "int4", "uint4", "int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_every_integer_is_its_residue(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    low, high = (0, 1) if name == "bool" else (int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max))
    for p in PRIMES:
        values = sorted({low, low + 1, 0, 1, high - 1, high, *(x for x in (-p, p - 1, p, 5 * p) if low <= x <= high)})
        array = np.array(values, np.uint64 if high >> 63 else np.int64).astype(dtype)
        assert_is(residues.from_integers(array, p), values, p)


ONES = np.ones((1, 2**17 + 5), np.int64)
ONE = ONES[:, :1]
P = PRIMES[0]
SIGNALLING_NAN = np.array([0x7F81], np.uint16).view(ml_dtypes.bfloat16)
REJECTED: dict[str, tuple[type[Exception], Callable[..., Any], list[tuple[Any, ...]]]] = {
    "not between": (ValueError, residues.multiply, [(ONE, ONE, p) for p in (3, 2**45 - 55, 2**50 + 51, 2**61 - 1)]),
    "no exp": (ValueError, residues.exponential, [(ONE * PRIMES[1], 0), (ONE * PRIMES[2], 1), (ONE, -1), (ONE, 4)]),
    "an index": (ValueError, residues.add_at, [(ONES[:, :3], ONE[0] * k, ONE, P) for k in (-1, 3, 4)]),
    "[0, 0)": (ValueError, residues.add_at, [(ONES[:, :0], ONE[0] * 0, ONE, P)]),
    "mismatch": (ValueError, residues.matmul, [(ONES[:, k:], ONES[:, n:].T, P) for k, n in ((-2, -3), (0, 5), (1, 0))]),
    "no finite": (ValueError, residues.from_floats, [(np.array([1, x]), P) for x in (np.nan, np.inf, -np.inf)]),
    "no finite field": (ValueError, residues.from_floats, [(SIGNALLING_NAN, P)]),
    "real float": (TypeError, residues.from_floats, [(ONE, P), (ONE * 1j, P), (ONE.astype(np.longdouble), P)]),
    "rule 'safe'": (TypeError, residues.from_integers, [(ONE * 1.5, P), (ONE * 1j, P)]),
    "to dtype('int64')": (TypeError, residues.digest, [("tanh", [ONE * 1.5], P, 0)]),
}


@pytest.mark.parametrize("text", REJECTED)
def test_what_would_go_wrong_is_refused(text: str) -> None:
    error, function, calls = REJECTED[text]
    for arguments in calls:
        with pytest.raises(error, match=re.escape(text)):
            function(*arguments)


def test_draws_depend_on_every_seed_and_on_the_prime() -> None:
    sets = [("a",), ("b",), ("a", "b"), ("a/b",), ("a', 'b",), ()]
    drawn = {(p, names): residues.draw((3, 50), p, *names) for p in PRIMES for names in sets}
    for (p, names), found in drawn.items():
        assert found.shape == (3, 50) and found.min() >= 0 and found.max() < p
        assert np.array_equal(found, residues.draw((3, 50), p, *names))
    ratios = {key: found / key[0] for key, found in drawn.items()}  # of one stream these would agree for all primes
    for one, other in itertools.combinations(ratios, 2):
        assert np.mean(np.abs(ratios[one] - ratios[other]) < 1e-3) < 0.1, (one, other)


def test_a_digest_depends_on_keys_order_name_salt_and_prime() -> None:
    p = PRIMES[0]
    a, b, c = (residues.draw((2, 700), p, name) for name in "abc")
    first = residues.digest("tanh", [a, b], p, 0)
    assert np.array_equal(first, residues.digest("tanh", [a.copy(), np.array(b, order="F")], p, 0))
    with mock.patch.object(residues, "_BLOCK", 64):
        assert np.array_equal(first, residues.digest("tanh", [a, b], p, 0))
    others = [
        residues.digest(name, keys, prime, salt)
        for name, keys, prime, salt in (
            ("tanh", [c, b], p, 0),
            ("tanh", [a, c], p, 0),
            ("tanh", [b, a], p, 0),
            ("tanh", [a], p, 0),
            ("tanh", [a, b, b], p, 0),
            ("erf", [a, b], p, 0),
            ("tanh", [a, b], p, 1),
            ("tanh", [a, b], PRIMES[1], 0),
        )
    ]
    for one, other in itertools.combinations([first, *others], 2):
        assert not np.any(one == other) and np.abs(np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1]) < 0.15


# --- checks that the planted faults below must fail ------------------------------------------------------------------


def check_products_at_the_edges() -> None:
    """Products just above and below multiples of p, where a wrong quotient shows."""
    for p in PRIMES:
        b = np.random.default_rng(p).integers(p - p // 8, p, 3000)
        for remainder in (0, 1, 2, p // 2, p - 2, p - 1):
            a = np.array([remainder * pow(int(x), -1, p) % p for x in b])
            assert_is(residues.multiply(a, b, p), np.full(b.shape, remainder), p)


def check_long_sums() -> None:
    for p, count in itertools.product(PRIMES, (2**13, 2**14, 20_000)):
        full = np.full((2, count), p - 1)
        assert_is(residues.total(full, 1, p), [-count] * 2, p)
        assert_is(residues.cumulative(full, 1, p)[0], -np.arange(1, count + 1), p)
        there = residues.add_at(np.full((2, 3), p - 1), np.full(count, 1), full, p)
        assert_is(there, [[-1, -count - 1, -1]] * 2, p)


def check_deep_matrix_products() -> None:
    for p, k in itertools.product(PRIMES, (1, 1000, 2**17, 2**20 - 3)):
        rows, columns = np.full((1, k), p - 1), np.full((k, 1), p - 1)
        assert_is(residues.matmul(rows, columns, p), [[k]], p)


def check_the_law_of_the_exponential() -> None:
    for level in (0, 1):
        a, b = (residues.draw((100,), PRIMES[level + 1], "law", name) for name in "ab")
        x, y, z = (residues.exponential(v, level) for v in (a, b, residues.add(a, b, PRIMES[level + 1])))
        assert np.array_equal(residues.multiply(x, y, PRIMES[level]), z)


def check_digests_look_random() -> None:
    """Of keys in a row: the ends of the digests, each bit, and what one bit of a key changes; 6 standard deviations."""
    p, count = PRIMES[0], 1 << 16
    keys = np.arange(count)
    found = residues.digest("tanh", [keys], p, 0)
    for ends in (found % 256, found // (p // 256 + 1)):
        squares = (np.bincount(ends, minlength=256) - count / 256) ** 2 / (count / 256)
        assert abs(squares.sum() - 255) < 6 * (2 * 255) ** 0.5
    places = np.arange(50)
    assert np.all(np.abs((found[:, None] >> places & 1).mean(0) - 0.5) < 6 * 0.5 / count**0.5)
    for place in range(63):
        changed = residues.digest("tanh", [keys[:4096] ^ (1 << place)], p, 0) ^ found[:4096]
        assert np.all(np.abs((changed[:, None] >> places & 1).mean(0) - 0.5) < 6 * 0.5 / 4096**0.5)


FAULTS: dict[str, tuple[str, Any, Callable[[], None]]] = {
    "the product overflows": ("multiply", lambda a, b, p: a * b % p, check_products_at_the_edges),
    "the quotient can be too large": ("_reciprocal", lambda p: 1 / p, check_products_at_the_edges),
    "the quotient can be two too small": ("_reciprocal", lambda p: (1 - 2**-49) / p, check_products_at_the_edges),
    "no correction": ("_lower", lambda p, out, spare: None, check_products_at_the_edges),
    "sums overflow": ("_SHORT", 1 << 14, check_long_sums),
    "limbs too wide": ("_LIMB", 25, check_deep_matrix_products),
    "products too deep": ("_DEPTH", 1 << 20, check_deep_matrix_products),
    "a base of twice the order": ("BASES", (PRIMES[0] - BASES[0], *BASES[1:]), check_the_law_of_the_exponential),
    "bases exchanged": ("BASES", BASES[::-1], check_the_law_of_the_exponential),
    "keys not mixed": ("_mix", lambda state, scratch: None, check_digests_look_random),
}


@pytest.mark.parametrize("check", dict.fromkeys(check for _, _, check in FAULTS.values()))
def test_the_honest_arithmetic_passes(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, planted, check = FAULTS[fault]
    monkeypatch.setattr(residues, "_tables", residues._tables.__wrapped__)  # neither from before the fault nor kept
    monkeypatch.setattr(residues, name, planted)
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        check()
