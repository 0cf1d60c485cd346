"""Which unknown carries of a loop stand in what a step writes, and which decide where."""

import pytest

from samebits.sizes.places.facts import Carried, Element, Facts, Source, Term, at_least
from samebits.sizes.places.loops import CARRY, depth_of_loops, is_carried, mentions
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.space import Space

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
