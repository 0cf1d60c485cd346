"""What operations do to formulas: of numbers the numbers, and of unknown ones what mathematics says."""

from fractions import Fraction

import pytest

from samebits.sizes.formulas.formula import Formula, NoFormula, atom, number
from samebits.sizes.formulas.normal_form import LAWS
from samebits.sizes.formulas.ring import FormulaRing
from samebits.sizes.places.facts import Element
from samebits.sizes.places.space import Space

X = atom(Element("x", ()))


def _ring() -> FormulaRing:
    return FormulaRing(Space({"n": 1}))


def _law(operation: str, *operands: Formula) -> Formula:
    return LAWS[operation.partition("[")[0]](_ring(), operation, list(operands))


@pytest.mark.parametrize(
    ("operation", "operands", "result"),
    [
        ("add[]:float32", (2, 3), 5),
        ("sub[]:float32", (2, 3), -1),
        ("mul[]:float32", (2, 3), 6),
        ("div[]:float32", (2, 3), Fraction(2, 3)),
        ("neg[]:float32", (2,), -2),
        ("square[]:float32", (3,), 9),
        ("integer_pow[y=3]:float32", (2,), 8),
        ("integer_pow[y=-1]:float32", (2,), Fraction(1, 2)),
        ("sqrt[]:float32", (Fraction(4, 9),), Fraction(2, 3)),
        ("rsqrt[]:float32", (4,), Fraction(1, 2)),
        ("pow[]:float32", (4, Fraction(1, 2)), 2),
        ("reduce_precision[]:float32", (3,), 3),
    ],
)
def test_numbers_are_computed(operation: str, operands: tuple[Fraction, ...], result: Fraction) -> None:
    assert _law(operation, *(number(Fraction(value)) for value in operands)) == number(Fraction(result))


def test_roots_of_numbers_have_one_form() -> None:
    ring = _ring()
    assert _law("sqrt[]", number(8)) == ring.scaled(_law("sqrt[]", number(2)), 2)
    assert _law("rsqrt[]", number(8)) == ring.scaled(_law("sqrt[]", number(2)), Fraction(1, 4))
    assert _law("sqrt[]", number(Fraction(1, 2))) == ring.scaled(_law("sqrt[]", number(2)), Fraction(1, 2))
    assert _law("sqrt[]", number(8)) != ring.scaled(_law("sqrt[]", number(3)), 2)


def test_functions_are_made_of_each_other() -> None:
    ring, one = _ring(), number(1)
    assert _law("erf[]", ring.scaled(X, -1)) == ring.scaled(_law("erf[]", X), -1)
    assert _law("erfc[]", X) == ring.subtract(one, _law("erf[]", X))
    assert _law("expm1[]", X) == ring.subtract(_law("exp[]", X), one)
    assert _law("log1p[]", X) == _law("log[]", ring.add(one, X))
    twice = _law("logistic[]", ring.scaled(X, 2))
    assert _law("tanh[]", X) == ring.subtract(ring.scaled(twice, 2), one)
    assert _law("max[]", X, number(2)) == _law("max[]", number(2), X) != _law("min[]", X, number(2))
    assert _law("erf[]", X) != _law("erf[]", ring.scaled(X, 2))


def test_what_is_missing_or_divided_by_zero_is_no_formula() -> None:
    with pytest.raises(NoFormula, match=r"integer_pow\[\] without y"):
        _law("integer_pow[]", X)
    with pytest.raises(NoFormula, match="a division by 0"):
        _law("div[]", X, number(0))
