"""What is known of a place is known of that place alone, and bits are promised where no rounded number decides."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.schema.contract import Direction
from samebits.sizes.places import space as space_module
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import Integer, MapPiece
from samebits.sizes.places.linear_questions import LimitReached
from samebits.sizes.places.polynomial import of
from samebits.sizes.places.space import Space
from samebits.sizes.proofs import family_proof
from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.family_proof import SizesProof, prove_all_sizes


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


ROWS = Family(
    symbols={"n": 1, "m": 1}, args={"x": Shaped(("n", "m")), "numbers": Shaped(("n",), "int32")}, differentiable=("x",)
)

Function = Callable[[Any, Any], Any]

ROUNDED: dict[str, Function] = {
    "the largest sum": lambda x, _: x[jnp.argmax(x.sum(1))],
    "a sum above 0": lambda x, _: jnp.where(x.sum() > 0, x, 0.0),
    "sorted by products": lambda x, _: x[jnp.argsort(x[:, 0] * 0.3)],
    "above 0.1 in bfloat16": lambda x, _: jnp.where(x.astype(jnp.bfloat16) > 0.1, x, 0.0),
    "a product as an index": lambda x, _: x[(x[:, 0] * 3).astype(jnp.int32)],
    "an unstable order": lambda x, _: x[jnp.argsort(x[:, 0], stable=False)],
}
EXACT: dict[str, Function] = {
    "the largest element": lambda x, _: x[jnp.argmax(x[:, 0])],
    "elements above 0": lambda x, _: jnp.where(x > 0, x, 0.0),
    "sorted by elements": lambda x, _: x[jnp.argsort(x[:, 0])],
    "sorted by whole numbers": lambda x, numbers: x[jnp.argsort(2 * numbers + 1)],
    "counted": lambda x, numbers: x[jnp.cumsum(numbers) - 1],
}


def _verdict(function: Function) -> str:
    (proof,) = prove_all_sizes(function, lambda x, numbers: function(x, numbers), ROWS)
    return proof.verdict


@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounding_decides_is_the_same_formula(name: str) -> None:
    assert _verdict(ROUNDED[name]) == "rounding"


@pytest.mark.parametrize("name", EXACT)
def test_what_no_rounding_decides_is_proved(name: str) -> None:
    assert _verdict(EXACT[name]) == "proved"


NAMES = tuple("ijklmnop")
"""What the indices of the first axes are called, too."""


def at_size(x: Any, size: Any) -> Any:
    """The last axis where its place is a size, and 0 elsewhere."""
    return jnp.where(jnp.arange(x.shape[-1]) == size, x, 0)


@pytest.mark.parametrize("axes", [1, 3, 8], ids="of {} axes".format)
def test_an_index_is_no_size_of_the_same_name(axes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: ({}, {}))  # concrete sizes would catch a wrong proof
    name = NAMES[axes - 1]
    shape = (*["2"] * (axes - 1), "d")
    family = Family(symbols={name: 1, "d": 1}, args={"x": Shaped(shape)}, statics={"size": SizeOf(name)})
    (proof,) = prove_all_sizes(lambda x, size: x, at_size, family)
    assert proof.verdict == "different" and set(proof.sizes) == {name, "d"}
    (proof,) = prove_all_sizes(at_size, lambda x, size: at_size(x, size), family)
    assert proof.verdict == "proved", proof.reason


@pytest.mark.parametrize("name", NAMES)
def test_an_axis_may_have_a_size_of_the_name_of_its_index(name: str) -> None:
    shape = tuple(f"2*{each}" if each == name else each for each in NAMES[: NAMES.index(name) + 1])
    family = Family(symbols=dict.fromkeys(NAMES[: NAMES.index(name) + 1], 1), args={"x": Shaped(shape)})
    (proof,) = prove_all_sizes(lambda x: x, lambda x: jnp.flip(jnp.flip(x)), family)
    assert proof.verdict == "proved", proof.reason
    (proof,) = prove_all_sizes(lambda x: x, lambda x: jnp.roll(x, 1, -1), family)
    assert proof.verdict == "different", proof.reason


FLOATS = Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "f"))})
COLUMN = Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "1"))})
INTEGERS = Family(
    symbols={"n": 1, "m": 1, "k": 1}, args={"x": Shaped(("n",)), "t": Shaped(("m", "k"), dtype="int32", below="n")}
)


def _column(t: Any) -> Any:
    return t[:, 0][:, None]


HONEST: dict[str, tuple[Function, Function, Family]] = {
    "first column": (lambda x, t: t[:, 0:1] * x, lambda x, t: _column(t) * x, FLOATS),
    "last column": (lambda x, t: t[:, -1:] + x, lambda x, t: t[:, -1][:, None] + x, FLOATS),
    "first row": (lambda x, t: x - t[:1], lambda x, t: x - t[0], FLOATS),
    "an argument": (lambda x, t: t * x, lambda x, t: _column(t) * x, COLUMN),
    "both ways": (lambda x, t: t[:, :1] * x[:1], lambda x, t: _column(t) * x[0], FLOATS),
    "experts": (
        lambda x, t: sum(t[:, e : e + 1] * x for e in range(3)),
        lambda x, t: jnp.einsum("ne,nf->nf", t, x),
        Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "3"))}),
    ),
    "integers": (
        lambda x, t: x[t[:, :1] + 0 * jnp.arange(t.shape[1])],
        lambda x, t: x[jnp.broadcast_to(t[:, :1], t.shape)],
        INTEGERS,
    ),
}

FAULTS: dict[str, tuple[Function, Function, Family]] = {
    "every column": (lambda x, t: t[:, 0:1] * x, lambda x, t: t * x, FLOATS),
    "every row": (lambda x, t: x - t[:1], lambda x, t: x - t, FLOATS),
    "every integer": (lambda x, t: x[t[:, :1] + 0 * jnp.arange(t.shape[1])], lambda x, t: x[t], INTEGERS),
    "every condition": (
        lambda x, t: jnp.where(t[:, :1] > 0, x, 0),
        lambda x, t: jnp.where(t > 0, x, 0),
        Family(symbols={"n": 1, "f": 1}, args={"x": Shaped(("n", "f")), "t": Shaped(("n", "f"), dtype="int32")}),
    ),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", HONEST)
def test_one_element_is_at_every_place(name: str, direction: str) -> None:
    for proof in prove_all_sizes(*HONEST[name], direction):
        assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.parametrize("name", FAULTS)
def test_another_element_there_is_refuted(name: str) -> None:
    (proof,) = prove_all_sizes(*FAULTS[name])
    assert proof.verdict == "different", proof


@pytest.mark.parametrize("name", FAULTS)
def test_no_proof_needs_values_to_be_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: tuple[dict[str, int], dict[str, str]] = {}, {}
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: nothing)  # concrete sizes would catch a wrong proof
    (proof,) = prove_all_sizes(*FAULTS[name])
    assert not _is_shown(proof), proof


def _is_shown(proof: SizesProof) -> bool:
    return proof.verdict in ("proved", "rounding")


def test_such_programs_broadcast_in_the_equation() -> None:
    """Should jax write the broadcast out one day, nothing above would be tested."""
    closed = jax.make_jaxpr(lambda x, t: t * x)(jnp.ones((2, 3)), jnp.ones((2, 1)))
    assert [equation.primitive.name for equation in closed.jaxpr.eqns] == ["mul"]


@pytest.mark.parametrize("direction", ["forward", pytest.param("gradient", marks=pytest.mark.slow)])
def test_one_variable_twice_is_by_the_same_case(direction: Direction) -> None:
    """Of two sums of exponentials, `jnp.logaddexp` asks whether their difference is itself."""
    family = Family(symbols={"n": 1, "v": 1}, args={"x": Shaped(("n", "2*v"))})

    def merged(x: Any) -> Any:
        first, second = jnp.split(x, 2, 1)
        return jnp.logaddexp(jax.nn.logsumexp(first, 1), jax.nn.logsumexp(second, 1))

    (proof,) = prove_all_sizes(lambda x: jax.nn.logsumexp(x, 1), merged, family, direction)
    assert proof.verdict == "rounding", proof.reason


def test_another_half_is_not_shown() -> None:
    family = Family(symbols={"n": 1, "v": 1}, args={"x": Shaped(("n", "2*v"))})

    def merged(x: Any) -> Any:
        first, _ = jnp.split(x, 2, 1)
        return jnp.logaddexp(jax.nn.logsumexp(first, 1), jax.nn.logsumexp(first, 1))

    (proof,) = prove_all_sizes(lambda x: jax.nn.logsumexp(x, 1), merged, family)
    assert proof.verdict in ("different", "error"), proof
