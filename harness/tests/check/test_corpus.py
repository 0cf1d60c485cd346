"""Standard formulas: an honest rewrite never fails its check, and an unequal twin always does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest

from samebits.host import environment
from samebits.schema.contract import DIRECTIONS
from tests.check.corpus import FORMULAS
from tests.check.corpus.formula import DTYPES, SEEDS, Formula
from tests.check.corpus.judged import Asked, alarms, greens, proofs
from tests.check.corpus.known import ALARMS, REFUTED

environment.prepare()

# The tests of a formula share its programs; those of all formulas take one worker of xdist most of an hour.
EVERY = pytest.mark.parametrize(
    "formula", [pytest.param(f, id=f.name, marks=pytest.mark.xdist_group(f"corpus, {f.name}")) for f in FORMULAS]
)
WHOLE = Asked(dtypes=DTYPES, seeds=SEEDS)


def one_point(formula: Formula) -> Asked:
    """One dtype and one direction of the first seed, spread evenly over the formulas."""
    number = FORMULAS.index(formula)
    direction = DIRECTIONS[number // 2 % 2 if formula.gradients else 0]
    return Asked(dtypes=(formula.dtypes[number % len(formula.dtypes)],), directions=(direction,))


def held(formula: Formula, found: Iterable[tuple[str, str]], known: dict[str, str], ran: Iterable[str] = ()) -> None:
    """Fail on a wrong verdict that is not known, and on a known one that has become right.

    Args:
        formula: whose sides were judged.
        found: the wrong verdicts.
        known: the wrong verdicts on record.
        ran: ends of the names that were run; a known entry with another one is left alone.
    """
    wrong = {f"{formula.name}/{where}": said for where, said in found}
    new = [f"{where}: {said}" for where, said in wrong.items() if where not in known]
    assert not new, "\n".join(["wrongly judged:", *new])
    listed = [where for where in known if where.startswith(f"{formula.name}/") and where.endswith(tuple(ran) or "")]
    right = [where for where in listed if where not in wrong]
    assert not right, f"these are judged rightly now; remove them from known.py: {right}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("formula", FORMULAS[::2], ids=lambda formula: formula.name)
def test_a_rewrite_holds_at_one_point(formula: Formula) -> None:
    """One rewrite of every second formula: another one for each; the slow tests try them all."""
    asked, names = one_point(formula), list(formula.honest)
    name = names[FORMULAS.index(formula) // 4 % len(names)]
    held(formula, alarms(formula, asked, [name]), ALARMS, [f"/{name} {asked.dtypes[0]} {asked.directions[0]}"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("formula", FORMULAS[::3], ids=lambda formula: formula.name)
def test_a_twin_is_different_at_one_dtype(formula: Formula) -> None:
    """One twin of every third formula; the slow tests plant them all."""
    number = FORMULAS.index(formula)
    asked = dataclasses.replace(one_point(formula), directions=DIRECTIONS)
    assert dict(greens(formula, asked, [list(formula.twins)[number % len(formula.twins)]])) == {}


@pytest.mark.slow
@EVERY
def test_rewrites_hold_over_all_seeds(formula: Formula) -> None:
    held(formula, alarms(formula, WHOLE), ALARMS)


@pytest.mark.slow
@EVERY
def test_every_twin_is_different_over_all_seeds(formula: Formula) -> None:
    assert dict(greens(formula, WHOLE)) == {}


@pytest.mark.slow
@EVERY
def test_no_proof_is_wrong(formula: Formula) -> None:
    held(formula, proofs(formula, dataclasses.replace(WHOLE, seeds=2)), REFUTED)


# --- the corpus itself -----------------------------------------------------------------------------------------------


def test_there_are_sixty_rewrites_and_sixty_twins() -> None:
    assert sum(len(formula.honest) for formula in FORMULAS) >= 60
    assert sum(len(formula.twins) for formula in FORMULAS) >= 60
    assert len({formula.name for formula in FORMULAS}) == len(FORMULAS)
    for formula in FORMULAS:
        assert formula.honest and formula.twins, formula.name
        sides = [formula.reference, *(side for _, side in formula.sides())]
        assert len({id(side) for side in sides}) == len(sides), formula.name
        assert not set(formula.honest) & set(formula.twins), formula.name


def test_a_twin_and_a_rewrite_that_are_swapped_are_found() -> None:
    """The judging itself can fail, in both directions."""
    formula = next(one for one in FORMULAS if one.name == "rms_norm")
    asked = Asked(dtypes=("float32",), directions=("forward",))
    mistaken = dataclasses.replace(formula, honest={"twin": formula.twins["epsilon_ten_times"]})
    ((where, said),) = alarms(mistaken, asked)
    assert where == "twin float32 forward" and "different" in said
    mistaken = dataclasses.replace(formula, twins={"rewrite": formula.honest["quotient"]})
    ((where, _),) = greens(mistaken, asked)
    assert where == "rewrite float32"
    with pytest.raises(AssertionError, match="rms_norm/rewrite float32: seed0"):
        held(formula, greens(mistaken, asked), {})
    with pytest.raises(AssertionError, match="these are judged rightly now"):
        held(formula, [], {"rms_norm/quotient float32 forward": "was red"}, [" float32 forward"])


def test_known_mistakes_name_entries_of_the_corpus() -> None:
    sides = {f"{formula.name}/{name}" for formula in FORMULAS for name, _ in formula.sides()}
    for where, reason in {**ALARMS, **REFUTED}.items():
        assert where.split()[0] in sides and reason.strip(), where
