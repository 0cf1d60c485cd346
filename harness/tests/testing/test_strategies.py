"""The strategies for users: everything drawn satisfies the request, and special values occur."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.numerics import floats
from samebits.programs.inputs import dtype_of
from samebits.testing import strategies

STEADY = settings(derandomize=True, max_examples=50, deadline=None)


@given(st.data())
@STEADY
def test_shapes_and_axes_fit_together(data: st.DataObject) -> None:
    shape = data.draw(strategies.shapes(max_rank=4, max_side=3))
    axis = data.draw(strategies.axes(len(shape)))
    assert 1 <= len(shape) <= 4
    assert all(1 <= side <= 3 for side in shape)
    assert shape[axis] >= 1


@given(strategies.shapes_with_axis(multiple_of=6))
@STEADY
def test_the_axis_is_a_multiple(drawn: tuple[tuple[int, ...], int]) -> None:
    shape, axis = drawn
    assert shape[axis] % 6 == 0


@given(strategies.meshes(("data", "tensor", "expert"), max_devices=8))
@STEADY
def test_meshes_fit(mesh: object) -> None:
    from samebits.schema.meshes import MeshSpec

    assert isinstance(mesh, MeshSpec)
    assert 1 <= mesh.devices <= 8
    assert set(mesh.names) <= {"data", "tensor", "expert"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int4", "bool", "int32"])
def test_arrays_have_dtype_and_shape_and_every_special_value(dtype: str) -> None:
    """Over the examples, NaN, infinity (where the format has one), -0.0 and subnormals all appear."""
    seen: set[str] = set()

    @given(strategies.arrays(dtype, (3, 4)))
    @STEADY
    def draw(array: np.ndarray) -> None:
        assert array.dtype == dtype_of(dtype)
        assert array.shape == (3, 4)
        if floats.is_float(array.dtype):
            seen.update(["nan"] * bool(floats.isnan(array).any()), ["inf"] * bool(floats.isinf(array).any()))
            seen.update(["subnormal"] * bool(floats.is_subnormal(array).any()))
            zero = array.astype(np.float64) == 0
            seen.update(["-0.0"] * any(math.copysign(1, v) < 0 for v in array.astype(np.float64)[zero]))

    draw()
    wanted = {"nan", "inf", "subnormal", "-0.0"} - ({"inf"} if dtype.startswith("float8") else set())
    assert seen == (wanted if floats.is_float(dtype_of(dtype)) else set())


@given(strategies.arrays("float32", (8,), special=("-0.0",)))
@STEADY
def test_what_is_not_asked_for_does_not_come(array: np.ndarray) -> None:
    assert np.isfinite(array).all()
