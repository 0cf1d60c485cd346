"""Sizes as expressions: read, solved for their symbols; wrong ones give one line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import AxisSize, Case, Pair
from samebits.errors import DeclarationError
from samebits.schema.case import Arg
from samebits.schema.size_symbols import SizeSymbols, size_symbols, value_of
from samebits.sizes.proofs.attempts import SymbolicSize, with_symbols

KNOWN = {"length": 64, "cp": 4, "batch": 2, "axis": -1}


def test_expressions_of_sizes_become_expressions_of_symbols() -> None:
    symbols = size_symbols("case 'a'", {"length": "4*cp*g", "cp": "2*c"}, KNOWN)
    assert symbols.free(("length", "batch")) == ("c", "g", "batch")
    assert symbols.numbers(KNOWN) == {"c": 2, "g": 4, "batch": 2}


def test_a_size_in_an_expression_is_a_symbol_of_its_own() -> None:
    symbols = size_symbols("case 'a'", {"length": "4*cp*g"}, KNOWN)
    assert symbols.expressions["cp"] == "cp"
    assert symbols.numbers(KNOWN) == {"cp": 4, "g": 4, "batch": 2}


def test_without_expressions_sizes_are_symbols_as_they_are() -> None:
    assert size_symbols("case 'a'", {}, KNOWN) == SizeSymbols()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"lenght": "4*g"}, "'lenght' is not a size; the sizes are length, cp, batch, axis, each to be an expression"),
        ({"length": "n/2"}, "'length' is 'n/2', which divides; write the other size as a product instead"),
        ({"length": "n % 2"}, "'length' is 'n % 2', which divides"),
        ({"length": "n - m"}, "'length' is 'n - m', which subtracts a symbol"),
        (
            {"length": "max(n, 2)"},
            "'length' is 'max(n, 2)', which is not an expression of sizes; expected sums and products",
        ),
        ({"length": "4*é"}, "'length' is '4*é', which has letters beyond ASCII; expected sums and products"),
        ({"length": "4*mod"}, "'length' is '4*mod', and 'mod' cannot be the name of a symbol; give another"),
        ({"length": "n +"}, "'length' is 'n +', which is not an expression"),
        ({"length": 64}, "'length' is 64, of type int; expected an expression as a text"),
        ({"length": "3*n"}, "'length' is '3*n', which is never 64, its declared size"),
        ({"length": "2*n", "cp": "3*n + 1"}, "do not fit their expressions together: length=2*n (64), cp=3*n + 1 (4)"),
        ({"length": "8*cp", "cp": "2*length"}, "'length' is an expression of itself (length of cp of length)"),
        ({"length": "n - 1"}, "'length' is 'n - 1', which is or has a part below 1 at n=1"),
        ({"length": "(n-3)*(m-3)"}, "has a part below 1 at n=1, m=1"),
        ({"n": ">= 2"}, "'n' is not a free symbol; the free symbols are length, cp, batch, axis"),
        ({"length": "n", "n": ">= 0"}, "'n' is to be from 0 on; expected a smallest value from 1 on"),
    ],
)
def test_wrong_ones_say_what_is_expected(declared: dict[str, str], message: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        size_symbols("case 'a'", declared, KNOWN)
    assert str(raised.value).startswith("case 'a': ")
    assert message in str(raised.value)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(a=st.integers(1, 60), b=st.integers(1, 60), c=st.integers(2, 60))
def test_sizes_that_fit_are_solved(a: int, b: int, c: int) -> None:
    texts = {"x": "4*a*b + a", "y": "c*c - 1", "z": "a + b + c"}
    known = {name: value_of(text, {"a": a, "b": b, "c": c}) for name, text in texts.items()}
    symbols = size_symbols("here", {**texts, "c": ">= 2"}, known)
    numbers = symbols.numbers(known)
    assert numbers is not None
    assert {name: value_of(text, numbers) for name, text in symbols.expressions.items()} == known


def test_sizes_whose_names_are_no_symbols_stay_numbers() -> None:
    known = {"d model": 8, "lambda": 3, "max": 5, "n": 4}
    symbols = size_symbols("here", {}, known)
    assert (symbols.free(tuple(known)), symbols.numbers(known)) == (("n",), {"n": 4})
    sizes = with_symbols(Case(id="a", sizes=known), symbols, {}).sizes
    assert [type(size) for size in sizes.values()] == [int, int, int, SymbolicSize]


def test_a_static_of_the_name_of_another_size_stays_a_number() -> None:
    symbols = size_symbols("here", {"heads": "heads"}, {"heads": 2})
    same = with_symbols(Case(id="a", sizes={"heads": 2}, statics={"heads": 2}), symbols, {})
    other = with_symbols(Case(id="a", sizes={"heads": 2}, statics={"heads": 4}), symbols, {})
    assert (type(same.sizes["heads"]), type(same.statics["heads"])) == (SymbolicSize, SymbolicSize)
    assert (type(other.sizes["heads"]), type(other.statics["heads"])) == (SymbolicSize, int)


def test_large_sizes_are_solved_at_once() -> None:
    known = {"n": 2**31 - 1, "m": 10**12}
    assert size_symbols("here", {"n": "2*k + 1", "m": "10*a*b"}, known).numbers(known) is not None


def test_a_pair_rejects_symbols_of_what_it_lacks() -> None:
    case = Case(id="a", sizes={"n": 8}, statics={"cp": AxisSize(axis="context")}, symbols={"contxt": "2*c"})
    with pytest.raises(DeclarationError, match="pair 'p', case 'a': 'contxt' is not a size; the sizes are context, n"):
        Pair(
            name="p",
            reference=abs,
            variants={"v": abs},
            args={"x": Arg(shape=("n",))},
            cases=(case,),
            dtypes=("float32",),
            meshes=("context2",),
        )


def test_a_case_at_other_sizes_has_other_statics_too() -> None:
    case = Case(id="a", sizes={"n": 8, "m": 3}, statics={"cp": 2, "flag": True})
    moved = case.at_sizes({"n": 32, "cp": 16})
    assert (dict(moved.sizes), dict(moved.statics)) == ({"n": 32, "m": 3}, {"cp": 16, "flag": True})
