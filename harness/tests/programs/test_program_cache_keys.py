"""The keys of the caches are complete: every point gets the verdict that it gets alone."""

import gc
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.schema.case import Case
from samebits.schema.contract import Direction
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from tests.support import adversarial
from tests.support.adversarial import SIZES, pair_of, points_of, results_of
from tests.support.child import value_of


@pytest.fixture
def programs() -> Iterator[Programs]:
    store = Programs(threads=1)
    yield store
    store.close()


@pytest.fixture
def empty_heap() -> None:
    """A collection looks at what the test itself makes: the rest of a test process takes half a second."""
    gc.collect()
    gc.freeze()


def _verdicts(pair: Pair, direction: Direction = "forward") -> dict[tuple[str, ...], set[str]]:
    """The verdicts of a pair's variants in one direction and one sweep, by variant, case and direction."""
    found: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    points = [point for point in points_of(pair) if point.direction == direction and point.variant in pair.variants]
    for one in results_of(pair, points):
        found[one.place.variant, one.place.case, one.place.direction].add(one.ruling.verdict)
    return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize("pair", adversarial.pairs(), ids=lambda pair: pair.name)
def test_each_point_gets_what_it_gets_alone(pair: Pair) -> None:
    points = points_of(pair)
    alone = {point: results_of(pair, [point]) for point in points}
    for ordered in (points, points[::-1]):
        assert results_of(pair, ordered) == [result for point in ordered for result in alone[point]]


def test_a_callback_is_its_function_and_not_its_text() -> None:
    found = _verdicts(adversarial.callbacks())
    for case in ("by2", "by3"):
        assert found["in_jax", case, "forward"] == {"bitwise"}
        assert found["one_more", case, "forward"] == {"different"}
    found = _verdicts(adversarial.other_callbacks())
    assert found["tripled", "small", "forward"] == {"different"}
    assert found["watched", "small", "forward"] == {"bitwise"}


def test_a_proof_is_for_the_inputs_that_it_compared() -> None:
    found = _verdicts(adversarial.ties(), "gradient")
    assert "different" in found["first", "tied", "gradient"]
    assert "different" not in found["first", "plain", "gradient"]


@pytest.mark.parametrize("pair", [adversarial.tables(), adversarial.silent_objects()], ids=lambda pair: pair.name)
def test_static_arguments_count_by_value(pair: Pair) -> None:
    found = _verdicts(pair)
    one, two = (case.id for case in pair.cases)
    assert found["squared", one, "forward"] <= {"proved", "bitwise"}
    assert found["squared", two, "forward"] == {"different"}


def test_values_may_depend_on_the_mesh() -> None:
    pair = replace(adversarial.by_mesh(), gradients=False)
    assert all(result.ruling.ok for result in results_of(pair, points_of(pair)))


def test_the_tree_of_outputs_is_part_of_a_program() -> None:
    found = _verdicts(adversarial.containers())
    assert set().union(*found.values()) == {"different"}


CAPTURED = """
import jax.numpy as jnp
from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator
from samebits.programs.program_cache import Programs
from samebits.schema.point import Effort
from tests.support.adversarial import pair_of, points_of

two, three = jnp.full((8, 16), 2.0), jnp.full((8, 16), 3.0)
pair = pair_of("captured", lambda x: x * two, {"by_three": lambda x: x * three}, gradients=False)
effort = Effort(selftest=False)
results = run_points(pair, Locator(name=pair.name), points_of(pair), Programs(threads=1), effort)
print({one.place.variant: one.ruling.verdict for one in results})
"""


def test_captured_arrays_that_become_arguments_count() -> None:
    """With jax's simplified constants the text of a program has no captured arrays in it."""
    settings = {"JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1", "JAX_EMBEDDED_CONSTANTS_MAX_BYTES": "16"}
    assert value_of(CAPTURED, variables=settings) == "{'<lambda>': 'proved', 'by_three': 'different'}"


@pytest.mark.usefixtures("empty_heap")
def test_a_function_at_a_reused_address_is_another_function(programs: Programs) -> None:
    """CPython gives the address of a collected function to the next one of its size."""

    def constant_of(number: int) -> Any:
        def times(x: Any) -> Any:
            return x * float(number)

        pair = pair_of("reused", times, {"other": lambda x: float(number) * x})
        site = Site(case=pair.cases[0], dtype="float32", mesh=MeshSpec.parse("data1"), mode="auto", built=None)
        traced = TracedSides(pair, programs).forward("times", site).traced
        return [literal.val for eqn in traced.jaxpr.eqns for literal in eqn.invars if hasattr(literal, "val")]

    seen = []
    for number in range(2, 12):
        seen += constant_of(number)
        gc.collect()
    assert seen == [float(number) for number in range(2, 12)]


@pytest.mark.usefixtures("empty_heap")
def test_an_object_at_a_reused_address_is_another_object(programs: Programs) -> None:
    """As above, for a callable static argument: its `repr` has nothing in it but a name and an address."""

    def by(x: Any, scale: Any) -> Any:
        return scale(x)

    def also(x: Any, scale: Any) -> Any:
        return scale(x) + 0

    def constants(number: int) -> Any:
        statics = {"scale": lambda x: x * float(number)}
        pair = pair_of("scaled", by, {"also": also}, cases=(Case(id="small", sizes=SIZES, statics=statics),))
        site = Site(case=pair.cases[0], dtype="float32", mesh=MeshSpec.parse("data1"), mode="auto", built=None)
        traced = TracedSides(pair, programs).forward("by", site).traced
        return [literal.val for eqn in traced.jaxpr.eqns for literal in eqn.invars if hasattr(literal, "val")]

    seen = []
    for number in range(2, 12):
        seen += constants(number)
        gc.collect()
    assert seen == [float(number) for number in range(2, 12)]
