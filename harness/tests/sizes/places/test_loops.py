"""Loops of symbolic length: carries by induction, equal loops, their names, and which carries a step needs."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from samebits.sizes.places.facts import Carried, Element, Fact, Facts, Source, Term, at_least
from samebits.sizes.places.loops import CARRY, depth_of_loops, is_carried, mentions
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import KnownLoops, Space
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.moved_faults import ROWS


def _folded(x: Any, *, factor: float = 1.0) -> Any:
    return lax.scan(lambda held, row: (held * jnp.tanh(factor * row), None), jnp.ones_like(x[0]), x)[0]


def test_equal_loops_are_equal_formulas() -> None:
    def counting(x: Any) -> Any:
        def body(held: Any, row: Any) -> tuple[Any, None]:
            number, made = held
            return (number + 1, made * jnp.tanh(1.0 * row)), None

        return lax.scan(body, (0, jnp.ones_like(x[0])), x)[0][1]

    for variant in (jax.checkpoint(_folded), counting):
        (proof,) = prove_all_sizes(_folded, variant, ROWS)
        assert proof.verdict == "rounding", proof.reason


def test_other_loops_are_not_proved() -> None:
    for factor in (0.5, -1.0):
        (proof,) = prove_all_sizes(_folded, lambda x, factor=factor: _folded(x, factor=factor), ROWS)
        assert proof.verdict in ("different", "error")


def test_loops_that_start_otherwise_are_not_proved() -> None:
    def from_two(x: Any) -> Any:
        return lax.scan(lambda held, row: (held * jnp.tanh(row), None), 2 * jnp.ones_like(x[0]), x)[0]

    assert prove_all_sizes(_folded, from_two, ROWS)[0].verdict in ("different", "error")


def test_facts_of_an_outer_index_say_nothing_of_an_inner_one() -> None:
    """A sum inside of a sum has indices of its own, even where both are of one name."""

    def summed(x: Any, inner: Any) -> Any:
        return jnp.sum(jnp.where(jnp.arange(x.shape[0]) == 0, jnp.max(inner), 1.0))

    def honest(x: Any) -> Any:
        return summed(x[:, 0], x[:, 0])

    def equal_in_the_first_row_alone(x: Any) -> Any:
        row = x[:, 0]
        return summed(row, jnp.where(jnp.arange(x.shape[0]) == 0, row, 2 * row))

    assert prove_all_sizes(honest, honest, ROWS)[0].verdict == "rounding"
    assert prove_all_sizes(honest, equal_in_the_first_row_alone, ROWS)[0].verdict in ("different", "error")


def _stored(x: Any, *, later: bool = False, shift: int = 0, kept: bool = False) -> Any:
    """What a loop carries before each step, written into a buffer that it carries as well."""

    def step(state: Any, row: Any) -> tuple[Any, None]:
        number, held, buffer = state
        after = jnp.sin(held) + (buffer[0] * row if kept else row)
        return (number + 1, after, buffer.at[number - shift].set(after if later else held)), None

    return lax.scan(step, (0, jnp.ones_like(x[0]), jnp.zeros_like(x)), x)[0][2]


def test_what_is_written_once_may_be_of_another_carry() -> None:
    def stacked(x: Any) -> Any:
        return lax.scan(lambda held, row: (jnp.sin(held) + row, held), jnp.ones_like(x[0]), x)[1]

    (proof,) = prove_all_sizes(stacked, _stored, ROWS)
    assert proof.verdict == "rounding", proof.reason
    for wrong in ({"later": True}, {"shift": 1}, {"kept": True}):
        (proof,) = prove_all_sizes(stacked, lambda x, wrong=wrong: _stored(x, **wrong), ROWS)
        assert proof.verdict == "different", wrong


def test_a_carry_of_the_buffer_itself_is_no_other_one() -> None:
    (proof,) = prove_all_sizes(lambda x: _stored(x, kept=True), lambda x: _stored(x, kept=True, later=True), ROWS)
    assert proof.verdict == "different", proof
    (proof,) = prove_all_sizes(lambda x: _stored(x, kept=True), _stored, ROWS)
    assert proof.verdict == "different", proof


FITS = Fact("not_negative", of(9) - variable("n"))


def _scan(name: str, length: int = 3, depth: int = 0) -> Any:
    evaluator = SimpleNamespace(assumed={})
    demand = SimpleNamespace(evaluator=evaluator, frame=SimpleNamespace(depth=depth))
    return SimpleNamespace(name=name, length=of(length), carries=1, demand=demand)


def test_the_first_of_the_same_gives_its_name() -> None:
    loops = KnownLoops()
    first, second, other = _scan("a"), _scan("b"), _scan("c")
    assert loops.name_of(first) == "a"  # before anything is compared
    loops.begin(lambda one, two: two.name == "b")
    assert [loops.name_of(scan) for scan in (first, other, second, second)] == ["a", "c", "a", "a"]
    assert loops.shared
    loops.begin(lambda one, two: False)
    assert loops.name_of(second) == "b"
    assert not loops.shared


def test_loops_of_other_lengths_or_depths_are_not_compared() -> None:
    loops = KnownLoops()
    loops.begin(lambda one, two: pytest.fail("they are not of one form"))
    for scan in (_scan("a"), _scan("b", length=4), _scan("c", depth=1)):
        assert loops.name_of(scan) == scan.name


def test_what_is_assumed_for_it_is_noted_at_every_use() -> None:
    def alike(one: Any, two: Any) -> bool:
        two.demand.evaluator.assumed[FITS] = None
        return True

    loops, first, second = KnownLoops(), _scan("a"), _scan("b")
    loops.begin(alike)
    loops.name_of(first)
    for _ in range(2):
        assert loops.name_of(second) == "a"
        assert FITS in second.demand.evaluator.assumed
        second.demand.evaluator.assumed = {}


def test_a_loop_inside_of_its_own_comparison_keeps_its_name() -> None:
    loops, first, second = KnownLoops(), _scan("a"), _scan("b")
    seen: list[str] = []

    def alike(one: Any, two: Any) -> bool:
        seen.append(loops.name_of(two))
        return True

    loops.begin(alike)
    assert [loops.name_of(first), loops.name_of(second)] == ["a", "a"]
    assert seen == ["b"]


OWN, OTHER, LATER = (Element(f"{CARRY} 0.{number}", (of(0),)) for number in (0, 1, 10))
OF_X = Element("x", (of(0),))


def added(*operands: Source) -> Term:
    return Term("add[]:float32", operands)


@pytest.mark.parametrize(
    ("source", "own", "any_one"),
    [(OF_X, False, False), (added(OF_X, OTHER), False, True), (added(OWN, OF_X), True, True), (LATER, False, True)],
)
def test_a_carry_is_told_from_the_others(source: Source, own: bool, any_one: bool) -> None:
    space = Space({"n": 1})
    assert mentions(space, source, (), 0, OWN.name) is own
    assert mentions(space, source, (), 0, f"{CARRY} 0.") is any_one
    assert mentions(space, source, (), 1, f"{CARRY} 1.") is False


def test_what_a_carry_decides_is_made_of_it() -> None:
    space = Space({"n": 1})
    decided: Facts = (at_least(space.value_of(OTHER), 1),)
    assert mentions(space, OF_X, decided, 0, OWN.name)
    assert not mentions(space, OF_X, (at_least(space.value_of(OF_X), 1),), 0, OWN.name)
    of_index = Element("x", (space.value_of(OWN),))
    assert mentions(space, of_index, (), 0, OWN.name) and not mentions(space, of_index, (), 0, OTHER.name)
    inside = Element("x", (space.value_of(of_index),))
    assert mentions(space, inside, (), 0, OWN.name)


def test_loops_are_counted_by_the_names_inside_them() -> None:
    space = Space({"n": 1})
    assert depth_of_loops(space, ["n"]) == 0
    assert depth_of_loops(space, [OWN.name]) == 1
    assert depth_of_loops(space, ["turn 3 below n", "spot 1.0"]) == 4
    assert is_carried(OWN) and is_carried(Carried("scan 0", 0, variable("n"), ()))
    assert not is_carried(OF_X) and not is_carried(Element("carrying", ()))
