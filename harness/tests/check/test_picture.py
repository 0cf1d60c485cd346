"""Pictures of differing elements, held against a plain recomputation; and in the results of small pairs."""

import math
from collections import Counter
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.check import picture as module
from samebits.check.picture import BRIEF, FULL, Detail, LeafArrays, picture
from samebits.numerics import floats
from samebits.programs.placement import Index
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from samebits.schema.picture import HeatMap, Picture
from tests.support.toys import alone, of, run, toy

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "uint8", "bool", "complex64", "int4", "float8_e4m3fn")


def dtype_of(name: str) -> np.dtype[Any]:
    """A dtype by its name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def from_random_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array of any bits: NaN, infinities, zeros of both signs and subnormal numbers among them."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        return rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype).reshape(shape)
    bits = rng.integers(0, 1 << min(floats.width(dtype), 63), shape, dtype=np.uint64)
    return floats.from_bits(bits, dtype)


def cells(heat: HeatMap) -> list[list[int]]:
    """The counts of a heat map."""
    runs = [
        [(text.partition("*")[0], text.partition("*")[2] or "1") for text in row.split()]
        for row in heat.counts.splitlines()
    ]
    return [[int(count) for count, times in row for _ in range(int(times))] for row in runs]


def differing_places(left: Any, right: Any) -> list[tuple[int, ...]]:
    """The elements whose bits differ, one by one."""

    def bits(value: Any) -> bytes:
        array = np.asarray(value)
        return array.tobytes() if array.dtype.kind in "c" else floats.raw_bits(array).tobytes()

    return [at for at in np.ndindex(left.shape) if bits(left[at]) != bits(right[at])]


def distance(left: Any, right: Any) -> int | None:
    """How far two elements are apart, by counting in Python's integers."""
    if np.iscomplexobj(left):
        both = [distance(a, b) for a, b in ((left.real, right.real), (left.imag, right.imag))]
        known = [gap for gap in both if gap is not None]
        return max(known) if known else None
    if not floats.is_float(left.dtype):
        return abs(int(left) - int(right))
    if not (np.isfinite(np.float64(left)) and np.isfinite(np.float64(right))):
        return None
    places = []
    for value in (left, right):
        bits, sign = int(floats.raw_bits(np.asarray(value))), 1 << (floats.width(value.dtype) - 1)
        places.append(-(bits - sign) if bits & sign else bits)
    return abs(places[0] - places[1])


def name_of(gap: int | None) -> str:
    """The bin of a distance."""
    return "none" if gap is None else "0" if gap == 0 else f"2^{gap.bit_length() - 1}"


def recomputed(pairs: list[tuple[Any, Any]], bins: int) -> tuple[list[list[int]], Counter[str]]:
    """The heat map and the histogram of some arrays, element by element."""
    shape = pairs[0][0].shape
    axes = [axis for axis, size in enumerate(shape) if size > 1][:2]
    counts = [min(shape[axis], bins) for axis in axes]
    grid = np.zeros([1] * (2 - len(axes)) + counts, np.int64)
    ulps: Counter[str] = Counter()
    for left, right in pairs:
        for at in differing_places(left, right):
            # The bin of an element is the last one that begins at or before it.
            place = [
                max(part for part in range(count) if math.ceil(part * shape[axis] / count) <= at[axis])
                for axis, count in zip(axes, counts, strict=True)
            ]
            grid[(0,) * (2 - len(axes)) + tuple(place)] += 1
            ulps[name_of(distance(left[at], right[at]))] += 1
    return grid.tolist(), ulps


shapes = (
    st.lists(st.sampled_from((1, 2, 3, 5, 7, 33, 40)), max_size=4).map(tuple).filter(lambda s: math.prod(s) <= 3000)
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DTYPES), shapes, st.integers(0, 2**32), st.integers(1, 3), st.sampled_from((FULL, BRIEF)))
def test_counts_are_those_of_a_plain_loop(
    dtype: str, shape: tuple[int, ...], seed: int, inputs: int, detail: Detail
) -> None:
    rng, pairs = np.random.default_rng(seed), []
    for _ in range(inputs):
        left = from_random_bits(rng, shape, dtype_of(dtype))
        other = rng.random(shape) < rng.choice([0.0, 0.02, 0.5])
        pairs.append((left, np.where(other, from_random_bits(rng, shape, dtype_of(dtype)), left).astype(left.dtype)))
    drawn = picture(LeafArrays({str(n): both for n, both in enumerate(pairs)}, {}), detail, None)
    grid, ulps = recomputed(pairs, detail.bins)
    if not ulps:
        assert drawn is None
        return
    assert drawn is not None
    assert cells(drawn.heat) == grid
    assert drawn.ulps == ulps
    assert sum(map(sum, cells(drawn.heat))) == sum(drawn.ulps.values()) == ulps.total()
    if detail is FULL:
        assert list(drawn.inputs.values()) == [len(differing_places(*both)) for both in pairs]


@pytest.mark.parametrize("mutant", ["first bin", "rows for columns", "zero is one", "power above"])
def test_a_wrong_count_is_seen(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain loop disagrees with pictures whose binning is wrong in one place."""
    rng = np.random.default_rng(3)
    left = rng.standard_normal((40, 70)).astype(np.float32)
    right = floats.from_ordinals(floats.ordinals(left) + rng.integers(0, 9, left.shape), left.dtype)
    left[0, 0], right[0, 0] = 0.0, -0.0
    heat, exponents = module._heat, module._exponents
    changed: dict[str, tuple[str, Any]] = {
        "first bin": ("_heat", lambda masks, *rest: heat([np.roll(mask, -1, 1) for mask in masks], *rest)),
        "rows for columns": ("_heat", lambda masks, *rest: heat([mask.T for mask in masks], *rest)),
        "zero is one": ("_exponents", lambda ulps: np.maximum(exponents(ulps), 0)),
        "power above": ("_exponents", lambda ulps: exponents(ulps + 1)),
    }
    monkeypatch.setattr(module, *changed[mutant])
    drawn = picture(LeafArrays({"ordinary": (left, right)}, {}), FULL, None)
    grid, ulps = recomputed([(left, right)], FULL.bins)
    assert drawn is not None
    assert cells(drawn.heat) != grid or drawn.ulps != ulps


def test_distances_up_to_the_largest() -> None:
    """The distance of the ends of float64 and int64 does not fit a signed integer, and is counted all the same."""
    ends = np.array([-np.finfo(np.float64).max]), np.array([np.finfo(np.float64).max])
    whole = np.array([np.iinfo(np.int64).min]), np.array([np.iinfo(np.int64).max])
    for left, right in (ends, whole):
        drawn = picture(LeafArrays({"ordinary": (left, right)}, {}), FULL, None)
        assert drawn is not None and drawn.ulps == {"2^63": 1}


def test_nothing_to_draw() -> None:
    equal, empty = np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32)
    for left, right in ((equal, equal), (empty, empty), (equal, equal[:, :2]), (equal, equal.astype(np.float64))):
        assert picture(LeafArrays({"ordinary": (left, right)}, {}), FULL, None) is None
    float0 = np.zeros(3, np.dtype([("float0", "V")]))
    assert picture(LeafArrays({"ordinary": (float0, float0)}, {}), FULL, None) is None
    assert picture(LeafArrays({}, {}), FULL, None) is None


def drawn_at(left: Any, right: Any, at: tuple[int, ...], ideal: Any = None, detail: Detail = FULL) -> Picture:
    """A picture with a window."""
    drawn = picture(LeafArrays({"ordinary": (left, right)}, {}), detail, ("ordinary", at), ideal)
    assert drawn is not None and drawn.window is not None
    return drawn


@settings(max_examples=60, deadline=None)
@given(shapes.filter(bool), st.data(), st.sampled_from((FULL, BRIEF)))
def test_a_window_shows_the_values_at_its_place(shape: tuple[int, ...], data: st.DataObject, detail: Detail) -> None:
    left = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    right = -left - 1
    at = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    window = drawn_at(left, right, at, left.astype(np.float64), detail).window
    assert window is not None
    axes = [axis for axis, size in enumerate(shape) if size > 1][-2:]
    limits = dict(zip(axes[::-1], (detail.columns, detail.rows), strict=False))
    ranges = [[int(end) for end in text.split(":")] for text in window.elements.strip("[]").split(", ")]
    assert [axis for axis, ends in enumerate(ranges) if len(ends) == 2] == axes
    box = tuple(range(ends[0], ends[1] if len(ends) == 2 else ends[0] + 1) for ends in ranges)
    assert [len(places) for places in box] == [min(limits.get(axis, 1), size) for axis, size in enumerate(shape)]
    assert all(place in places and places.stop <= size for place, places, size in zip(at, box, shape, strict=True))
    shown = left[np.ix_(*box)]
    rows = shown.reshape(-1, shown.shape[axes[-1]] if axes else 1)
    assert window.reference == "\n".join(" ".join(f"{value:.9g}" for value in row) for row in rows)
    assert window.optimized == "\n".join(" ".join(f"{-value - 1:.9g}" for value in row) for row in rows)
    assert window.ideal == "\n".join(" ".join(f"{value:.12g}" for value in row) for row in rows)
    hexes = "\n".join(" ".join(f"0x{int(bits):08x}" for bits in row) for row in rows.view(np.uint32))
    assert window.reference_hex == hexes


def test_a_window_of_single_and_complex_elements() -> None:
    window = drawn_at(np.full((), 1.5, np.float32), np.zeros((), np.float32), ()).window
    assert window is not None
    assert (window.reference, window.optimized, window.elements) == ("1.5", "0", "[]")
    left = np.array([1 + 2j, 3 - 1j], np.complex64)
    window = drawn_at(left, left * 2, (1,), np.stack([left.real, left.imag], -1).astype(np.float64)).window
    assert window is not None
    assert window.reference == "(1+2j) (3-1j)" and window.ideal == "1+2j 3-1j"
    assert window.reference_hex == "0x3f800000,0x40000000 0x40400000,0xbf800000"


def test_the_parts_of_devices_are_counted() -> None:
    left = np.zeros((4, 6), np.int32)
    right = left.copy()
    right[2:, 3:] = 1
    right[0, 0] = 1
    parts: dict[Index, tuple[int, ...]] = {((0, 4), (0, 3)): (0, 2), ((0, 4), (3, 6)): (1, 3)}
    drawn = picture(LeafArrays({"ordinary": (left, right)}, parts), FULL, None)
    assert drawn is not None
    assert drawn.devices == {"0, 2": 1, "1, 3": 6}
    assert drawn.heat.edges == {"0": "0 4", "1": "0 3 6"}
    brief = picture(LeafArrays({"ordinary": (left, right)}, parts), BRIEF, None)
    assert brief is not None and (brief.devices, brief.inputs) == ({}, {})


def off_on_one_device(x: Any, *, factor: float = 2.0) -> Any:
    """Wrong in the rows of the third of four devices."""
    rows = jnp.arange(x.shape[0])[:, None]
    return jnp.where((rows >= 4) & (rows < 6), x * factor + 0.5, x * factor)


def drawn_of(results: list[Finding]) -> list[Picture | None]:
    return [result.comparison.picture for result in results]


def test_a_failing_leaf_has_its_picture() -> None:
    results = run(toy(wrong=off_on_one_device), gradients=False)
    (failing,) = of(results, variant="wrong", direction="forward")
    assert (
        failing.ruling.verdict == "different"
        and failing.comparison.array == "float32[8,16]"
        and failing.run.device_order == ()
    )
    assert failing.comparison.picture is not None and failing.comparison.witness is not None
    assert (
        sum(map(sum, cells(failing.comparison.picture.heat)))
        == sum(failing.comparison.picture.ulps.values())
        == failing.comparison.mismatches
    )
    assert cells(failing.comparison.picture.heat) == [[int(4 <= row < 6)] * 16 for row in range(8)]
    assert failing.comparison.picture.heat.edges == {"0": "0 2 4 6 8", "1": "0 16"}
    assert failing.comparison.picture.devices == {"0": 0, "1": 0, "2": 32, "3": 0}
    assert failing.comparison.picture.inputs == {"ordinary": 32}
    window = failing.comparison.picture.window
    assert window is not None and window.input == failing.comparison.witness.input
    assert failing.comparison.witness.reference_hex in window.reference_hex.split()
    assert window.ideal, "the reference was evaluated in float64"
    assert [r for r in results if r.comparison.picture is not None and not r.comparison.mismatches] == []


def test_equal_leaves_have_no_picture() -> None:
    assert set(drawn_of(run(toy()))) == {None}


def test_an_accepted_difference_is_drawn_in_brief() -> None:
    def halves(x: Any, *, factor: float = 2.0) -> Any:
        return (x[:, ::2].sum(1) + x[:, 1::2].sum(1)) * factor

    def plain(x: Any, *, factor: float = 2.0) -> Any:
        return x.sum(1) * factor

    rounding = Contract(lowest="rounding", reason="another order of adding")
    (accepted,) = run(toy(plain, halves=halves), alone("halves"), contracts=(rounding,))
    assert accepted.ruling.ok and accepted.comparison.picture is not None
    assert accepted.comparison.picture.inputs == {} and accepted.comparison.picture.window is not None
