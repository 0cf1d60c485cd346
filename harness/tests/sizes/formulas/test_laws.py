"""What operations do to formulas: of numbers the numbers, and of unknown ones what mathematics says; nothing else."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export

from samebits.errors import SamebitsError
from samebits.sizes.formulas.formula import Formula, NoFormula, Size, atom, number
from samebits.sizes.formulas.normal_form import (
    LAWS,
    STANDING,
    NormalForms,
    Variances,
    constant,
    stands_for,
    sums_of_squares,
)
from samebits.sizes.formulas.ring import FormulaRing, by_sign, logarithm
from samebits.sizes.places.equality import same
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import Element, Number, Term
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs import family_proof
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

X, Y = (atom(Element(name, (of(0),))) for name in "xy")


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


def test_exponentials_come_out_of_any_multiple() -> None:
    ring = FormulaRing(Space({"n": 1}))
    whole = ring.add(ring.exponential(X), ring.exponential(Y))
    over_x = ring.add(number(1), ring.exponential(ring.subtract(Y, X)))
    over_y = ring.add(ring.exponential(ring.subtract(X, Y)), number(1))
    expected = ring.canonical(logarithm(ring, whole))
    for factor, sum_over in ((X, over_x), (Y, over_y)):
        assert ring.canonical(ring.add(factor, logarithm(ring, sum_over))) == expected
    assert ring.canonical(ring.add(Y, logarithm(ring, over_x))) != expected


def test_sizes_come_out_too() -> None:
    ring = FormulaRing(Space({"n": 1}))
    size = Size(variable("n"))
    mean = ring.multiply(ring.power(atom(size), Fraction(-1)), ring.add(X, Y))
    assert logarithm(ring, mean) == ring.subtract(logarithm(ring, ring.add(X, Y)), ring.function("log", atom(size)))


def test_there_is_no_logarithm_of_nothing() -> None:
    with pytest.raises(NoFormula, match="the logarithm of 0 or infinity"):
        logarithm(FormulaRing(Space({"n": 1})), Formula())
    assert not issubclass(NoFormula, SamebitsError), "it is a question without an answer, and no error of a user"


ROWS = Family(symbols={"n": 1, "m": 1}, args={"x": Shaped(("n", "m")), "z": Shaped(("n",))})


def with_sink(x: Any, z: Any) -> Any:
    largest = jnp.maximum(x.max(-1), z)
    return largest + jnp.log(jnp.exp(x - largest[:, None]).sum(-1) + jnp.exp(z - largest))


@pytest.mark.parametrize(
    ("variant", "verdict"),
    [
        (lambda x, z: z + jnp.log(1 + jnp.exp(x - z[:, None]).sum(-1)), "rounding"),
        (lambda x, z: jnp.log(jnp.exp(x).sum(-1) + jnp.exp(z)), "rounding"),
        (
            lambda x, z: jnp.log(jnp.exp(x).mean(-1) + jnp.exp(z) / x.shape[1]) + jnp.log(jnp.float32(x.shape[1])),
            "rounding",
        ),
        (lambda x, z: z + jnp.log(2 + jnp.exp(x - z[:, None]).sum(-1)), "different"),
        (lambda x, z: jnp.log(jnp.exp(x).mean(-1) + jnp.exp(z)), "different"),
    ],
)
def test_a_sink_is_one_more_exponential(variant: Any, verdict: str) -> None:
    (proof,) = prove_all_sizes(with_sink, variant, ROWS)
    assert proof.verdict == verdict, proof


Function = Callable[..., Any]
TWO = Family(symbols={"n": 1, "d": 1}, args={"p": Shaped(("n", "d")), "q": Shaped(("n", "d"))})
F = np.float32


def _gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


def _adam(decay: Any, rest: Any, epsilon: Any = 1e-8) -> Function:
    return lambda p, q: (decay * p + rest * q) / (jnp.sqrt(q * q) + epsilon)


ROUNDED: dict[str, tuple[Function, Function]] = {
    "a cap": (lambda p, q: 30 * jnp.tanh(p / 30), lambda p, q: jnp.tanh(p * (1 / 30)) * 30),
    "a moving average": (lambda p, q: 0.9 * p + (1 - 0.9) * q, lambda p, q: p + (1 - 0.9) * (q - p)),
    "a moving average of 0.999": (lambda p, q: 0.999 * p + 0.001 * q, lambda p, q: p + 0.001 * (q - p)),
    "a root": (lambda p, q: p / math.sqrt(128), lambda p, q: p * 128**-0.5),
    "a root of the program": (lambda p, q: p / jnp.sqrt(F(8)), lambda p, q: p * F(8**-0.5)),
    "the error function": (lambda p, q: _gelu(p), lambda p, q: 0.5 * p * (1 + jax.lax.erf(p / math.sqrt(2)))),
    "Adam": (_adam(0.9, 0.1), lambda p, q: (p + 0.1 * (q - p)) / (jnp.sqrt(q * q) + 1e-8)),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", ROUNDED)
def test_rewrites_of_rounded_constants_are_one_formula(name: str, direction: str) -> None:
    for proof in prove_all_sizes(*ROUNDED[name], TWO, direction):
        assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.parametrize("name", ["a cap", "a moving average", "a root of the program"])
def test_what_constants_stand_for_is_a_condition(name: str) -> None:
    (proof,) = prove_all_sizes(*ROUNDED[name], TWO)
    assert STANDING in proof.conditions


def test_it_is_none_where_formulas_are_equal_as_they_are() -> None:
    (proof,) = prove_all_sizes(lambda p, q: 0.9 * p + 0.9 * q, lambda p, q: 0.9 * (p + q), TWO)
    assert proof.verdict == "rounding" and STANDING not in proof.conditions


FAULTS: dict[str, tuple[Function, Function]] = {
    "one unit": (lambda p, q: F(0.9) * p, lambda p, q: np.nextafter(F(0.9), F(1)) * p),
    "few digits": (lambda p, q: p / 30, lambda p, q: 0.0333 * p),
    "few digits of a root": (lambda p, q: p / math.sqrt(2), lambda p, q: 0.7071 * p),
    "another decay": (_adam(0.9, 0.1), _adam(0.9, 0.1001)),
    "another epsilon": (_adam(0.9, 0.1), _adam(0.9, 0.1, 1e-7)),
    "a narrow constant": (lambda p, q: F(0.9) * p, lambda p, q: F(ml_dtypes.bfloat16(0.9)) * p),
    "a narrow root": (lambda p, q: F(2**0.5) * p, lambda p, q: F(ml_dtypes.bfloat16(2**0.5)) * p),
}


@pytest.mark.parametrize("name", FAULTS)
def test_other_constants_are_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: tuple[dict[str, int], dict[str, str]] = {}, {}
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: nothing)  # concrete sizes would catch a wrong proof
    (proof,) = prove_all_sizes(*FAULTS[name], TWO)
    assert proof.verdict in ("different", "error"), proof


@pytest.mark.parametrize(
    ("value", "stands"),
    [(F(0.5), None), (F(0.9), 0.9), (F(2**-0.5), 2**-0.5), (np.complex64(1), None), (F(np.nan), None), (F(3e38), None)],
)
def test_what_a_constant_stands_for(value: Any, stands: float | None) -> None:
    literal = stands_for(Number.of(value))
    assert (None if literal is None else float(literal)) == stands


def test_no_number_is_no_formula() -> None:
    with pytest.raises(NoFormula, match="the constant nan"):
        constant(Number.of(F(np.nan)))


ZERO = Number.of(np.float32(0))


def mean(x: Any) -> Any:
    return jnp.mean(x, -1)


def larger(function: Any) -> int | None:
    """Which of a number, computed of a row of n floats, and 0 is shown to be the larger one."""
    (n,) = export.symbolic_shape("n")
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((n,), np.float32))
    space = Space({"n": 1})
    (piece,) = Evaluation(space, closed, ("x",)).output(0, ())
    forms = NormalForms(space, same)
    return Variances(forms.ring, forms.formula, forms.vanishing.equal).larger((piece.source, ZERO), piece.facts)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sum(x * x),
        lambda x: jnp.sum(jnp.exp(x)) + x[0] ** 2,
        lambda x: mean(x * x) - mean(x) ** 2,
        lambda x: mean(jnp.square(3 * x + 1)) - jnp.square(mean(3 * x + 1)),
        lambda x: jnp.sum(x * x) - jnp.sum(x) ** 2 / x.shape[0],
    ],
    ids=["squares", "exponentials", "variance", "of another number", "times its count"],
)
def test_what_is_never_negative(function: Any) -> None:
    assert larger(function) == 0
    assert larger(lambda x: -function(x)) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sum(x),
        lambda x: jnp.sum(x**3),
        lambda x: mean(x * x) - mean(x),
        lambda x: mean(x * x) - 2 * mean(x) ** 2,
        lambda x: mean(x * x) - mean(2 * x) * mean(x),
        lambda x: jnp.sum(x * x) - jnp.sum(x) ** 2,
        lambda x: mean(x * x) - mean(x) ** 2 - 1e-6,
        lambda x: mean(x * x) - mean(x**3) ** 2,
        lambda x: mean(x * jnp.sin(9 * x)) - mean(x) * mean(jnp.sin(9 * x)),
    ],
    ids=["sum", "cubes", "mean", "twice", "of 2x", "without n", "less", "of cubes", "covariance"],
)
def test_what_may_be_negative(function: Any) -> None:
    """Each is negative for some numbers, and positive for others."""
    assert larger(function) is None
    drawn = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    signs = {bool(function(row) < 0) for row in [*drawn, np.full(4, 0.5, np.float32), np.zeros(4, np.float32)]}
    assert signs == {True, False}


def test_sums_of_squares_are_found_in_what_is_computed_of_them() -> None:
    (n,) = export.symbolic_shape("n")
    closed = jax.make_jaxpr(lambda x: jnp.sum(x**2) / 3 - jnp.sum(x) * jnp.sum(x * x))(
        jax.ShapeDtypeStruct((n,), np.float32)
    )
    (piece,) = Evaluation(Space({"n": 1}), closed, ("x",)).output(0, ())
    assert len(list(sums_of_squares(piece.source))) == 2
    assert list(sums_of_squares(Term("mul[]:float32", (ZERO, ZERO)))) == []


PAIR = Family(symbols={"n": 1}, args={"x": Shaped(("n",)), "y": Shaped(("n",))})


def _cases(ring: FormulaRing, formula: Formula) -> list[Formula]:
    cases = by_sign(ring, formula)
    assert cases is not None
    return [ring.canonical(case) for case in cases]


def test_each_case_has_one_operand() -> None:
    ring = _ring()
    larger, smaller = (ring.function(kind, X, Y) for kind in ("max", "min"))
    assert _cases(ring, ring.add(larger, smaller)) == [ring.canonical(ring.add(X, Y))] * 2
    distance = ring.function("abs", ring.subtract(Y, X))
    assert set(_cases(ring, ring.subtract(larger, distance))) == {X, Y}


def test_functions_inside_of_others_are_met() -> None:
    ring, half = _ring(), Fraction(1, 2)

    def inside(exponent: Formula) -> Formula:
        return ring.canonical(ring.power(ring.add(number(1), ring.exponential(exponent)), half))

    assert _cases(ring, inside(ring.function("abs", X))) == [inside(X), inside(ring.scaled(X, -1))]


def test_without_a_sign_there_are_no_cases() -> None:
    ring = _ring()
    assert by_sign(ring, ring.add(X, ring.function("sin", Y))) is None
    assert by_sign(ring, Formula()) is None


def test_a_function_of_a_summed_index_has_no_one_sign() -> None:
    space = Space({"n": 1})
    ring, index = FormulaRing(space), space.index("k", variable("n"))
    inside = ring.function("abs", atom(Element("x", (index,))))
    assert by_sign(ring, inside) is not None
    assert by_sign(ring, ring.summed(("k",), (), inside)) is None


def larger_and_smaller(x: Any, y: Any) -> Any:
    return jnp.maximum(x, y) * jnp.minimum(x, y)


def merged(x: Any, y: Any) -> Any:
    """The logarithm of a sum, as partial results of attention are merged."""
    first, second = jnp.log(1 + jnp.square(x)), jnp.log(2 + jnp.square(y))
    return jnp.logaddexp(first, second)


SIGNED = {
    "product": (larger_and_smaller, lambda x, y: x * y),
    "distance": (lambda x, y: jnp.abs(x - y), lambda x, y: jnp.maximum(x, y) - jnp.minimum(x, y)),
    "hinge": (lambda x, y: jax.nn.relu(x - y) - jax.nn.relu(y - x), lambda x, y: x - y),
    "logaddexp": (
        lambda x, y: jnp.logaddexp(jnp.sin(x), jnp.sin(y)),
        lambda x, y: jnp.log(jnp.exp(jnp.sin(x)) + jnp.exp(jnp.sin(y))),
    ),
    "merged": (merged, lambda x, y: jnp.log(3 + x * x + y * y)),
}
WRONG_SIGNS = {
    "product": lambda x, y: x * jnp.abs(y),
    "distance": lambda x, y: jnp.maximum(x, y) + jnp.minimum(x, y),
    "hinge": lambda x, y: jnp.abs(x - y),
    "logaddexp": lambda x, y: jnp.log(jnp.exp(jnp.sin(x)) + jnp.exp(jnp.sin(x))),
    "merged": lambda x, y: jnp.log(3 + x * x - y * y),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SIGNED)
def test_what_is_equal_in_both_cases_is_equal(name: str) -> None:
    (proof,) = prove_all_sizes(*SIGNED[name], PAIR)
    assert proof.verdict == "rounding", proof.reason


@pytest.mark.parametrize("name", WRONG_SIGNS)
def test_what_is_equal_in_one_case_alone_is_refuted(name: str) -> None:
    (proof,) = prove_all_sizes(SIGNED[name][0], WRONG_SIGNS[name], PAIR)
    assert proof.verdict == "different", proof


def test_a_sign_at_each_place_of_a_sum_is_no_case_of_the_sum() -> None:
    """The sums agree where all signs are one, and nowhere else."""
    (proof,) = prove_all_sizes(lambda x, y: jnp.abs(x).sum() + 0 * y, lambda x, y: jnp.abs(x.sum()) + 0 * y, PAIR)
    assert proof.verdict == "different", proof
