"""Casts through memory against a map of memory: each element's address, computed from its index."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from samebits.errors import CouldNotRun
from samebits.hlo import layouts
from samebits.hlo.layouts import Placement
from samebits.hlo.module import parse_module

COMBINED = -(2**63)
FILLER = -7
Array = np.ndarray[Any, Any]


class Kept(NamedTuple):
    """An array as memory keeps it: its dimensions, from minor to major, and tiles."""

    dims: tuple[int, ...]
    order: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...] = ()

    def placement(self) -> Placement | None:
        shape = shape_of(self.dims)
        shape.layout.minor_to_major.extend(self.order)
        for tile in self.tiles:
            shape.layout.tiles.add(dimensions=tile)
        return Placement.of(shape)

    def addresses(self) -> tuple[Array, int]:
        """The address of each element in row-major order, and how much memory there is."""
        places = np.indices(self.dims).reshape(len(self.dims), math.prod(self.dims))
        index = [places[axis] for axis in reversed(self.order)]
        sizes = [self.dims[axis] for axis in reversed(self.order)]
        for tile in self.tiles:
            index, sizes = _tiled(index, sizes, tile, math.prod(self.dims))
        return np.ravel_multi_index(index, sizes) if sizes else np.zeros(1, int), math.prod(sizes)


def _tiled(index: list[Array], sizes: list[int], tile: Sequence[int], count: int) -> tuple[list[Array], list[int]]:
    missing = len(tile) - len(sizes)
    index, sizes = [np.zeros(count, int)] * missing + index, [1] * missing + sizes
    lead = len(sizes) - len(tile)
    outer: list[tuple[Array, int]] = []
    inner: list[tuple[Array, int]] = []
    carried, factor = np.zeros(count, int), 1
    for place, size, width in zip(index[lead:], sizes[lead:], tile, strict=True):
        place, size = carried * size + place, factor * size
        carried, factor = np.zeros(count, int), 1
        if width == COMBINED:
            carried, factor = place, size
        else:
            outer.append((place // width, -(-size // width)))
            inner.append((place % width, width))
    split = [*outer, *inner]
    return [*index[:lead], *(place for place, _ in split)], [*sizes[:lead], *(size for _, size in split)]


def shape_of(dimensions: Sequence[int]) -> Any:
    module = parse_module(b"\x1a\x00")  # a module of one empty computation
    return module.computations[0].instructions.add(shape={"dimensions": dimensions}).shape


def expected(value: Array, source: Kept, target: Kept) -> tuple[Array, bool]:
    """Write an array to memory, and read another from it; what nothing wrote is the filler."""
    wrote, size = source.addresses()
    read, other = target.addresses()
    memory, written = np.full(max(size, other), FILLER), np.zeros(max(size, other), bool)
    memory[wrote], written[wrote] = value.reshape(-1), True
    return memory[read].reshape(target.dims), not written[read].all()


class _NumPy:
    """What `layouts` takes of `jax.lax`, without a compilation for each shape."""

    reshape = staticmethod(np.reshape)
    transpose = staticmethod(np.transpose)
    concatenate = staticmethod(np.concatenate)
    full = staticmethod(np.full)

    @staticmethod
    def pad(value: Array, filler: Any, by: Sequence[tuple[int, int, int]]) -> Array:
        return np.pad(value, [(low, high) for low, high, _ in by], constant_values=filler)

    @staticmethod
    def slice(value: Array, starts: Sequence[int], limits: Sequence[int]) -> Array:
        return value[tuple(map(slice, starts, limits))]

    @staticmethod
    def bitcast_convert_type(value: Array, dtype: Any) -> Any:
        wide = value if value.dtype.itemsize <= np.dtype(dtype).itemsize else value[..., None]
        result = np.ascontiguousarray(wide).view(dtype)
        return result[..., 0] if np.dtype(dtype).itemsize > value.dtype.itemsize else result


@pytest.fixture(autouse=True, scope="module")
def _no_compilations() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "lax", _NumPy)
        yield


def cast(source: Kept, target: Kept) -> tuple[Array, bool]:
    """What `layouts` makes of consecutive numbers."""
    places = source.placement(), target.placement()
    assert places[0] is not None
    assert places[1] is not None
    value = np.arange(math.prod(source.dims)).reshape(source.dims)
    return layouts.cast(value, places[0], places[1], target.dims, np.array(FILLER))


def agree(source: Kept, target: Kept) -> None:
    value = np.arange(math.prod(source.dims)).reshape(source.dims)
    memory, exposed = cast(source, target)
    wanted, unwritten = expected(value, source, target)
    np.testing.assert_array_equal(memory, wanted)
    assert exposed == unwritten


T8 = (8, 128)
PAIRS = {
    "a reshape": (Kept((4, 6), (1, 0)), Kept((2, 12), (1, 0))),
    "a transposition": (Kept((4, 6), (0, 1)), Kept((6, 4), (1, 0))),
    "other digits": (Kept((4, 6), (0, 1)), Kept((3, 8), (0, 1))),
    "digits that do not divide each other": (Kept((4, 6), (1, 0), ((2, 3),)), Kept((6, 4), (1, 0), ((3, 2),))),
    "whole tiles": (Kept((16, 256), (1, 0), (T8,)), Kept((2, 2, 8, 128), (3, 1, 2, 0))),
    "padding is kept": (Kept((5, 130), (1, 0), (T8,)), Kept((1, 5, 130), (2, 1, 0), (T8,))),
    "padding is exposed": (Kept((5, 130), (1, 0), (T8,)), Kept((2, 8, 128), (2, 1, 0), (T8,))),
    "padding is cut": (Kept((8, 256), (1, 0), (T8,)), Kept((8, 200), (1, 0), (T8,))),
    "two levels": (Kept((16, 128), (1, 0), (T8, (2, 1))), Kept((2, 4, 128, 2), (3, 2, 1, 0))),
    "two levels with padding": (Kept((13, 130), (1, 0), (T8, (2, 1))), Kept((13, 130, 1), (1, 0, 2), (T8, (2, 1)))),
    "two levels to one": (Kept((13, 130), (1, 0), (T8, (2, 1))), Kept((13, 130), (1, 0), (T8,))),
    "a flat one of three levels": (Kept((7,), (0,), ((1024,), (128,), (8, 1))), Kept((1, 7), (1, 0), ((1, 1024),))),
    "less memory": (Kept((8, 128), (1, 0), (T8,)), Kept((3, 128), (1, 0))),
    "more memory": (Kept((3, 128), (1, 0)), Kept((3, 128), (1, 0), (T8,))),
    "more than was written": (Kept((3,), (0,)), Kept((5,), (0,))),
    "a number": (Kept((), ()), Kept((1, 1), (1, 0), (T8,))),
    "joined dimensions": (Kept((4, 6, 8), (2, 1, 0), ((COMBINED, 12, 4),)), Kept((24, 8), (1, 0))),
    "nothing": (Kept((0, 4), (1, 0)), Kept((4, 0), (1, 0))),
    "something of nothing": (Kept((0, 4), (1, 0)), Kept((2,), (0,))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_cast_is_what_memory_says(name: str) -> None:
    agree(*PAIRS[name])


TILES = (), ((4,),), ((2, 4),), ((4, 4), (2, 1)), ((4, 4), (1, 2)), ((2, 2, 4),), ((8,), (4,), (2, 1))


@st.composite
def placements(draw: st.DrawFn) -> Kept:
    dims = draw(st.lists(st.sampled_from((1, 2, 3, 4, 6, 8)), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(dims))))
    tiles = draw(st.sampled_from(TILES))
    return Kept(tuple(dims), tuple(order), tiles)


@given(placements(), placements())
@settings(derandomize=True, deadline=None, max_examples=400)
def test_casts_of_any_layouts(source: Kept, target: Kept) -> None:
    assume(source.placement() is not None and target.placement() is not None)
    agree(source, target)


@given(placements())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_memory_and_back(kept: Kept) -> None:
    placement = kept.placement()
    assume(placement is not None)
    assert placement is not None
    value = np.arange(math.prod(placement.padded)).reshape(placement.padded)
    memory = layouts.to_memory(value, placement.digits)
    np.testing.assert_array_equal(layouts.from_memory(memory, placement), value)
    addresses, size = kept.addresses()
    assert memory.size == size
    inside = value[tuple(map(slice, placement.dims))].reshape(-1)
    np.testing.assert_array_equal(memory[addresses], inside)


def test_tiles_that_pad_tiles_have_no_place() -> None:
    assert Kept((4, 6), (1, 0), ((2, 6), (2, 4))).placement() is None
    assert Kept((4, 6), (1, 0), ((2, 6), (2, 3))).placement() is not None
    assert Kept((4, 6), (0, 1), ((COMBINED, 8),)).placement() is None


SIZES = {
    "to smaller elements": ("int32", Kept((2, 128), (1, 0)), "int16", Kept((2, 256), (1, 0))),
    "to larger elements": ("int16", Kept((256, 2), (1, 0)), "int32", Kept((256,), (0,))),
    "through tiles": ("int32", Kept((8, 128), (1, 0), (T8,)), "uint8", Kept((8, 128, 4), (2, 1, 0))),
    "from another order": ("int32", Kept((8, 16), (0, 1)), "int16", Kept((16, 8, 2), (2, 1, 0))),
}


@pytest.mark.parametrize("name", SIZES)
def test_elements_of_another_size(name: str) -> None:
    kind, source, other, target = SIZES[name]
    value = np.random.default_rng(0).integers(-(2**14), 2**14, source.dims).astype(kind)
    places = source.placement(), target.placement()
    assert places[0] is not None
    assert places[1] is not None
    result = layouts.cast_memory([(value, places[0])], places[1], target.dims, np.dtype(other))
    wrote, size = source.addresses()
    memory = np.zeros(size, kind)
    memory[wrote] = value.reshape(-1)
    np.testing.assert_array_equal(result, memory.view(other)[target.addresses()[0]].reshape(target.dims))


def test_arrays_one_after_the_other() -> None:
    first, second = Kept((2, 3), (0, 1)), Kept((4,), (0,))
    target = Kept((2, 5), (1, 0))
    parts = [(np.arange(6).reshape(2, 3), first.placement()), (np.arange(6, 10), second.placement())]
    result = layouts.cast_memory(parts, target.placement(), (2, 5), np.dtype(int))  # type: ignore[arg-type]
    np.testing.assert_array_equal(result, [[0, 3, 1, 4, 2], [5, 6, 7, 8, 9]])


def test_padded_arrays_of_another_size_are_refused() -> None:
    source, target = Kept((5, 128), (1, 0), (T8,)).placement(), Kept((5, 256), (1, 0)).placement()
    assert source is not None
    assert target is not None
    with pytest.raises(CouldNotRun, match="elements have another size"):
        layouts.cast_memory([(np.zeros((5, 128), np.int32), source)], target, (5, 256), np.dtype(np.int16))
