"""Maps between the trees of two sides, as data."""

from typing import Any

import pytest

from samebits.errors import DeclarationError
from samebits.schema.case import Arg, Case
from samebits.schema.pair import Adapt, Pair


def _pair(**more: Any) -> Pair:
    return Pair(
        name="adapted",
        reference=lambda x: x,
        variants={"other": lambda x: x + 0},
        args={"x": Arg(shape=(2, 3))},
        cases=(Case(id="small"),),
        dtypes=("float32",),
        **more,
    )


def test_a_map_that_maps_nothing_is_rejected() -> None:
    with pytest.raises(DeclarationError, match=r"Adapt\(\) maps nothing; give arguments=\.\.\., outputs=\.\.\."):
        Adapt()


def test_an_unknown_variant_is_rejected() -> None:
    with pytest.raises(DeclarationError, match=r"adapt of .othr.; expected some of other; did you mean"):
        _pair(adapt={"othr": Adapt(outputs=lambda out: out)})


def test_auxiliary_outputs_have_no_second_derivative() -> None:
    with pytest.raises(DeclarationError, match="'second_derivative' does not support has_aux=True"):
        _pair(has_aux=True, transforms=("second_derivative",))
