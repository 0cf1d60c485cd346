"""Declared bounds of integers: what they are in a case, and values that break them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from samebits import Arg, Case, Integers
from samebits.errors import DeclarationError
from samebits.programs.input_bounds import arg_below, check_bound
from samebits.programs.inputs import drawn_values

CASE = Case(id="small", sizes={"rows": 8}, statics={"experts": 6, "name": "x"})


def ids(below: Any) -> Arg:
    return Arg(shape=("rows",), dtype="int32", values=Integers(high=6), below=below)


@pytest.mark.parametrize(
    ("below", "number"), [(None, None), (3, 3), ("rows", 8), ("experts", 6), ("rows+1", 9), ("2*experts - 3", 9)]
)
def test_a_bound_is_a_number_or_made_of_names(below: Any, number: int | None) -> None:
    assert arg_below(ids(below), "ids", CASE) == number


def test_a_name_that_there_is_not_is_rejected() -> None:
    for below in ("name", "columns"):
        with pytest.raises(
            DeclarationError, match=f"below '{below}', which is no size and no static integer"
        ) as caught:
            arg_below(ids(below), "ids", CASE)
        assert "expected one of experts, rows" in str(caught.value)


def test_an_expression_that_cannot_be_is_rejected() -> None:
    with pytest.raises(DeclarationError, match=r"below 'rows\+columns', and 'columns' is no size and no static"):
        arg_below(ids("rows+columns"), "ids", CASE)
    with pytest.raises(DeclarationError, match="below 'experts-6', which is 0; expected at least 1"):
        arg_below(ids("experts-6"), "ids", CASE)
    named = r"name the bound, as in below='half' with Case\(sizes={'n': 8, 'half': 4}, symbols={'n': '2\*half'}\)"
    with pytest.raises(DeclarationError, match=rf"shape \('rows',\): below is 'rows/2', which divides; {named}"):
        ids("rows/2")
    named = (
        r"name the bound, as in below='rest' with Case\(sizes={'n': 8, 'rest': 5, ...}, symbols={'n': 'own\+rest'}\)"
    )
    with pytest.raises(DeclarationError, match=rf"below is 'rows-own', which subtracts a symbol; {named}"):
        ids("rows-own")


@pytest.mark.parametrize(("rows", "expected"), [(8, {0, 5}), (2, {0, 5}), (1, set()), (0, set())])
def test_values_by_default_keep_the_bound_and_reach_both_ends(rows: int, expected: set[int]) -> None:
    """So that `Arg(dtype="int32", below=6)` is enough; without it they range over all of int32."""
    arg = Arg(shape=(rows,), dtype="int32", below=6)
    drawn = drawn_values(arg, "ids", np.random.default_rng(0), (rows,), np.dtype(np.int32), CASE)
    check_bound(arg, "ids", drawn, CASE)
    assert drawn.dtype == np.int32 and expected <= set(drawn.tolist())


@pytest.mark.parametrize("values", [[0, 6], [-1, 5]])
def test_values_outside_of_a_bound_are_rejected(values: list[int]) -> None:
    check_bound(ids("experts"), "ids", np.array([0, 5]), CASE)
    check_bound(ids(None), "ids", np.array(values), CASE)
    with pytest.raises(
        DeclarationError, match=r"its values are -?\d to \d; expected them in \[0, 6\), as below='experts'"
    ):
        check_bound(ids("experts"), "ids", np.array(values), CASE)
