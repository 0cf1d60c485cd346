"""What is not covered in one output, or in one element, turns off no comparison of the others."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import MissingRule, NotCovered
from samebits.interpret.field_proof.proof import MOST_PARTS, FieldIdentity, by_parts, identity, smaller_parts
from samebits.interpret.problem import Input, Question
from tests.interpret.executed import asked

Side = Callable[..., Any]

X = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
NU = np.random.default_rng(4).standard_normal((4, 6)).astype(np.float32)
ZERO = np.where(np.arange(24).reshape(4, 6) == 7, 0, NU).astype(np.float32)
NAN = "'out1' holds a NaN at these inputs, which no formula describes"


def proofs(reference: Side, variant: Side, *args: Any) -> dict[str, FieldIdentity]:
    return identity(asked(reference, variant, *args))


def at_any_magnitude(reference: Side, variant: Side) -> dict[str, FieldIdentity]:
    """Formulas of `x` and `nu`, whose magnitudes are not stated."""
    question = asked(reference, variant, X, NU)
    inputs = [Input(each.name, each.values, magnitudes="all") for each in question.inputs]
    return identity(Question(question.reference, question.variant, inputs, question.outputs))


def with_root(factor: float, limit: float = 20.0) -> Side:
    """A leaf that is clipped, and one with NaN."""
    return lambda x, nu: (factor * jnp.clip(x, -limit, limit), x / jnp.sqrt(nu))


def chosen(factor: float) -> Side:
    """The NaN is met on the way: no maximum of it is known."""
    return lambda x, nu: (factor * x, jnp.maximum(x / jnp.sqrt(nu), 0))


def infinite(factor: float) -> Side:
    return lambda x, nu: (factor * x, x / nu)


def tied(factor: float) -> Side:
    """Numbers that are too close to say which is larger, although they are not the same formula."""
    return lambda x, nu: (factor * x, jnp.sort(jnp.stack([nu, nu + 1e-30 * x]), 0))


def called_back(factor: float) -> Side:
    return lambda x, nu: (factor * x, jax.pure_callback(np.sin, jax.ShapeDtypeStruct((4, 6), jnp.float32), nu))


@pytest.mark.parametrize("sides", [with_root, chosen, infinite, tied, called_back])
def test_other_outputs_are_compared(sides: Callable[[float], Side]) -> None:
    nu = ZERO if sides is infinite else NU
    other, same = (proofs(sides(2.0), sides(factor), X, nu) for factor in (3.0, 2.0))
    assert not other["out"].equal and not other["out"].undecided and other["out"].not_covered is None
    assert same["out"].equal and same["out"].not_covered is None
    for proof in (other["out1"], same["out1"]):
        assert not proof.equal and proof.undecided and proof.not_covered is not None


def test_other_outputs_are_compared_at_other_magnitudes() -> None:
    different = at_any_magnitude(with_root(2.0), with_root(2.0, 40.0))
    assert "64 times as large" in str(different["out"].witness)
    assert different["out1"].not_covered == NAN


def elements(below: float = 20.0, factor: Any = 1.0, of_roots: float = 1.0) -> Side:
    """Elements that are NaN where `x` is negative, beside others."""
    return lambda x, nu: (x, jnp.concatenate([of_roots * jnp.sqrt(x), factor * jnp.clip(nu, -below, below)]))


def test_other_elements_of_an_output_are_compared() -> None:
    different = proofs(elements(), elements(factor=1.5), X, NU)["out1"]
    assert (
        not different.undecided
        and different.witness is not None
        and different.witness[:6] in ("out1[4", "out1[5", "out1[6", "out1[7")
    )


def test_elements_that_differ_are_not_those_that_are_nan() -> None:
    different = proofs(elements(), elements(of_roots=2.0), X, NU)["out1"]
    assert not different.undecided and "nan" not in str(different.witness)


def test_other_elements_are_compared_at_other_magnitudes() -> None:
    different = at_any_magnitude(elements(), elements(below=40.0))["out1"]
    assert not different.undecided and "64 times as large" in str(different.witness)
    assert at_any_magnitude(elements(), elements())["out1"].not_covered == NAN


def test_equal_elements_are_no_proof_of_an_output_with_nan() -> None:
    same = proofs(elements(), elements(), X, NU)
    assert same["out"].equal
    assert not same["out1"].equal and same["out1"].undecided and same["out1"].not_covered == NAN


def test_rounded_constants_beside_nan_are_not_a_difference() -> None:
    def divided(x: Any, nu: Any) -> Any:
        return x, jnp.concatenate([jnp.sqrt(x), nu * 0.3]).astype(jnp.bfloat16)

    def multiplied(x: Any, nu: Any) -> Any:
        return x, jnp.concatenate([jnp.sqrt(x).astype(jnp.bfloat16), nu.astype(jnp.bfloat16) * 0.3])

    assert proofs(divided, multiplied, X, NU)["out1"].not_covered == NAN


def rooted(of: float = 1.0, *, law: bool = False) -> Side:
    """NaN in one output, and in the other what is the same formula by a law of roots."""
    return lambda x, nu: (jnp.sqrt(jnp.abs(x)) ** 2 if law else jnp.abs(of * x), jnp.sqrt(nu))


def test_roots_beside_nan_keep_their_law() -> None:
    assert proofs(rooted(), rooted(law=True), X, NU)["out"].equal
    different = proofs(rooted(1 + 1e-7), rooted(law=True), X, NU)["out"]
    assert not different.equal and not different.undecided


def nearly(epsilon: float) -> Side:
    return lambda x, nu: (x * (1.0 + epsilon * x), jnp.sqrt(nu))


def test_small_differences_beside_nan_are_seen() -> None:
    different = proofs(nearly(0.0), nearly(2.0**-60), X, NU)["out"]
    assert not different.equal and different.witness is not None and different.not_covered is None


def test_what_is_covered_nowhere_is_an_error() -> None:
    with pytest.raises(NotCovered, match="holds a NaN"):
        proofs(lambda x, nu: jnp.sqrt(x), lambda x, nu: jnp.sqrt(x), X, NU)
    with pytest.raises(MissingRule, match="pure_callback"):
        proofs(called_back(1.0), lambda x, nu: tuple(map(jnp.sin, called_back(1.0)(nu, x)))[::-1], X, NU)


def many(x: Any, nu: Any) -> Any:
    return tuple((number + 1) * x for number in range(64))


def test_parts_are_asked_so_many_times_at_most() -> None:
    """All but one of many outputs are covered; or every second one, which would take a question each."""
    question = asked(many, many, X, NU)
    asked_for: list[int] = []

    def answers(bad: set[str]) -> dict[str, str]:
        asked_for.clear()

        def ask(part: Question) -> dict[str, str]:
            asked_for.append(len(part.outputs))
            if bad & set(part.outputs):
                raise NotCovered("here")
            return dict.fromkeys(part.outputs, "fine")

        return by_parts(question, ask, str)

    assert [name for name, answer in answers({"out7"}).items() if answer == "here"] == ["out7"]
    with pytest.raises(NotCovered):
        answers({f"out{number}" for number in range(1, 64, 2)})
    assert len(asked_for) <= 1 + MOST_PARTS


def test_an_output_alone_has_no_parts() -> None:
    assert smaller_parts(asked(lambda x, nu: x, lambda x, nu: x, X, NU), NotCovered("here")) == []
