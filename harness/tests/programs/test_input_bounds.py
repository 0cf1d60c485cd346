"""What is declared of integers, a bound or what each of them equals: in a case, and values that break it."""

from typing import Any

import numpy as np
import pytest

from samebits import Arg, Case, Integers
from samebits.errors import DeclarationError
from samebits.programs.inputs import arg_below, arg_equals, check_values, drawn_values, equal_array

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
            DeclarationError, match=f"below '{below}', which is neither a size nor a static integer"
        ) as caught:
            arg_below(ids(below), "ids", CASE)
        assert "expected one of experts, rows" in str(caught.value)


def test_an_expression_that_cannot_be_is_rejected() -> None:
    with pytest.raises(DeclarationError, match=r"below 'rows\+columns', and 'columns' is neither a size nor a static"):
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
    check_values(arg, "ids", drawn, CASE)
    assert drawn.dtype == np.int32 and expected <= set(drawn.tolist())


@pytest.mark.parametrize("values", [[0, 6], [-1, 5]])
def test_values_outside_of_a_bound_are_rejected(values: list[int]) -> None:
    check_values(ids("experts"), "ids", np.array([0, 5]), CASE)
    check_values(ids(None), "ids", np.array(values), CASE)
    with pytest.raises(
        DeclarationError, match=r"its values are -?\d to \d; expected them in \[0, 6\), as below='experts'"
    ):
        check_values(ids("experts"), "ids", np.array(values), CASE)


def placed(equals: Any, shape: tuple[int | str, ...] = ("rows", 3), **more: Any) -> Arg:
    return Arg(shape=shape, dtype="int32", equals=equals, **more)


@pytest.mark.parametrize(
    ("equals", "expected"),
    [
        (4, [[4, 4, 4], [4, 4, 4]]),
        ("index1", [[0, 1, 2], [0, 1, 2]]),
        ("3*index0 + index1", [[0, 1, 2], [3, 4, 5]]),
        ("rows - 1 - index0", [[7, 7, 7], [6, 6, 6]]),
        ("2 - index1*index1", [[2, 1, -2], [2, 1, -2]]),
        ("experts", [[6, 6, 6], [6, 6, 6]]),
    ],
)
def test_integers_without_a_choice_are_what_their_formula_says(equals: Any, expected: list[list[int]]) -> None:
    array = equal_array(placed(equals), "ids", (2, 3), np.dtype(np.int32), CASE)
    assert array.dtype == np.int32 and array.tolist() == expected
    drawn = drawn_values(placed(equals), "ids", np.random.default_rng(0), (2, 3), np.dtype(np.int32), CASE)
    assert drawn.tolist() == expected
    check_values(placed(equals), "ids", array, CASE)
    array[1, 2] += 1
    with pytest.raises(
        DeclarationError, match=rf"its element \[1, 2\] is {array[1, 2]}; expected {expected[1][2]}, as"
    ):
        check_values(placed(equals), "ids", array, CASE)


def test_copies_have_the_integers_of_one() -> None:
    arg = placed("3*index0 + index1", (2, 3)).stacked(2)
    assert (arg.shape, arg.equals) == ((2, 2, 3), "3*index1 + index2")
    assert placed(4).stacked(2).equals == 4


def test_a_formula_that_cannot_be_is_rejected() -> None:
    with pytest.raises(
        DeclarationError, match="equals 'columns', which is neither a size nor a static integer; expected one of"
    ):
        arg_equals(placed("columns"), "ids", CASE, {})
    sizes = Case(id="small", sizes={"rows": 8, "index1": 3})
    with pytest.raises(DeclarationError, match="and 'index1' is a size; give the size another name"):
        arg_equals(placed("index1"), "ids", sizes, {})
    with pytest.raises(DeclarationError, match="equals '40000', which is 40000 to 40000 and does not fit into int16"):
        equal_array(placed("40000"), "ids", (2, 3), np.dtype(np.int16), CASE)
    named = r"name the quotient, as in equals='part' with Case\(sizes={'n': 8, 'part': 4}, symbols={'n': '2\*part'}\)"
    with pytest.raises(DeclarationError, match=rf"equals is 'index0/2', which divides; {named}"):
        placed("index0/2")
