"""What is known of a place is known of that place alone, with all that it assumes and promises."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.sizes.places import space as space_module
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import Integer, MapPiece
from samebits.sizes.places.linear_questions import LimitReached
from samebits.sizes.places.polynomial import of
from samebits.sizes.places.space import Space


def _program(function: Any, dtype: Any) -> tuple[Evaluation, Any]:
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((3,), dtype))
    return Evaluation(Space({}), closed, ["x"]), closed


def test_a_frame_is_never_taken_for_one_that_is_gone() -> None:
    evaluation, closed = _program(lambda x: x[::-1], jnp.int32)
    (taken,), (given,) = closed.jaxpr.outvars, closed.jaxpr.invars
    for number in range(50):
        # Python gives the frame of this number the address of the one before.
        frame = evaluation.frame_of(closed, {given: lambda *_, n=number: [MapPiece((), Integer(of(n)))]})
        (piece,) = evaluation.value(frame, taken, (of(0),), (), {})
        assert piece.source == Integer(of(number))


def test_a_limit_names_the_equation_at_which_it_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The innermost one, and in the words of undecided proofs."""
    monkeypatch.setattr(space_module, "MOST_CONJUNCTIONS", 0)
    function = jax.jit(lambda x: jnp.concatenate([x, x * 2])[::-1])
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((3,), jnp.float32))
    space = Space({})
    with pytest.raises(LimitReached, match=r"0 conditions on .* reached at concatenate\(.* at \S*test_evaluation\.py:"):
        Evaluation(space, closed, ["x"]).output(0, (space.index("i", of(6)),))


def test_what_is_known_promises_again_whenever_it_is_asked() -> None:
    evaluation, closed = _program(lambda x: x + 0.0, jnp.float32)
    frame = evaluation.frame_of(closed, {closed.jaxpr.invars[0]: "x"})
    for _ in range(2):
        evaluation.promised.clear()
        evaluation.value(frame, closed.jaxpr.outvars[0], (of(0),), (), {})
        assert {str(fact.fact) for fact in evaluation.promised} >= {"no_negative_zero"}
