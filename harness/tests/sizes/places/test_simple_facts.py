"""Simple facts hold where the facts hold that they are made of, and what is shown of an index is looked at again."""

from hypothesis import given
from hypothesis import strategies as st

from samebits.sizes.places.facts import Fact, Facts, at_least, below, equal
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import SimpleFacts

M, N, ROW, COLUMN = map(variable, "mnij")
LOWEST = {"m": 1, "n": 1}


def _box() -> tuple[dict[str, Polynomial], SimpleFacts]:
    ranges = {"i": M, "j": N}
    return ranges, SimpleFacts(ranges, LOWEST)


def _holds(facts: Facts, numbers: dict[str, int]) -> bool:
    values = [(fact.kind, fact.polynomial.value(numbers)) for fact in facts]
    return all(value >= 0 if kind == "not_negative" else value == 0 for kind, value in values)


SMALL = st.integers(-3, 3)


@st.composite
def _facts(draw: st.DrawFn) -> Fact:
    polynomial = of(draw(SMALL))
    for part in (ROW * N + COLUMN, ROW * N, ROW, COLUMN, M * N, N):
        polynomial = polynomial + part * draw(SMALL)
    return draw(st.sampled_from((Fact("not_negative", polynomial), Fact("zero", polynomial))))


@given(st.lists(_facts(), max_size=3), st.integers(1, 4), st.integers(1, 4), st.data())
def test_simple_facts_say_the_same(facts: list[Fact], m: int, n: int, data: st.DataObject) -> None:
    numbers = {"m": m, "n": n, "i": data.draw(st.integers(0, m - 1)), "j": data.draw(st.integers(0, n - 1))}
    _, box = _box()
    for _ in range(2):  # the second time from memory
        simple = box.simplified(tuple(facts))
        assert _holds(tuple(facts), numbers) == (simple is not None and _holds(simple, numbers))


def test_weights_are_left_out() -> None:
    _, box = _box()
    whole = ROW * N + COLUMN
    assert box.simplified((at_least(whole, N * 2),)) == (at_least(ROW, 2),)
    assert box.simplified((equal(whole, N * 2 + 1 - 1),)) == (equal(ROW, 2), equal(COLUMN, 0))
    assert box.simplified((below(whole, M * N),)) == ()
    assert box.simplified((at_least(whole, M * N),)) is None


def test_a_range_that_is_promised_later_counts() -> None:
    ranges, box = _box()
    fact = at_least(variable("t"), 0)
    assert box.simplified((fact,)) == (fact,)
    ranges["t"] = N
    box.look_again()
    assert box.simplified((fact,)) == ()
    assert box.is_not_negative(N - 1 - variable("t"))
