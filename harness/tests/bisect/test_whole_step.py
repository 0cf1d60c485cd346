"""A wrong tensor is blamed only where what computed it changes the outputs of the step: simulated steps."""

import numpy as np
import pytest

from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.bisect.search.trials import Trials
from samebits.bisect.tensors import BlockSearch, Point, judged_outputs, key, label

NAMES = ("harmless", "wrong", "later")


def searched(matters: set[str], names: tuple[str, ...] = NAMES, whole: bool = True) -> BlockSearch:
    """Every difference makes a tensor of its own wrong; those that matter also change the outputs."""

    def judge(point: Point) -> Judgement:
        form = point[0]
        if form.whole and not whole:
            return untestable("cannot be interpreted")
        if form.whole:
            moved = sorted(form.without & matters)
            return failed("loss", moved=moved) if form.taken & matters else passed(moved=moved)
        first = next((name for name in names if name in form.taken), None)
        return passed() if first is None else failed(f"output of {first}", names=[first])

    return BlockSearch(names, (), Trials(judge, key=key, label=label))


@pytest.mark.parametrize("matters", [{"wrong"}, {"later"}, {"wrong", "later"}, set(NAMES)])
def test_the_first_difference_that_reaches_the_outputs_is_blamed(matters: set[str]) -> None:
    search = searched(matters)
    outcome = search.run(False)
    first = next(name for name in NAMES if name in matters)
    assert outcome.point is not None and (outcome.reaches, outcome.remarks()) == (True, [])
    assert search.trials.known(outcome.point).signature == f"output of {first}"
    assert len(search.idle) == NAMES.index(first)


def test_a_step_that_cannot_be_judged_says_so() -> None:
    search = searched({"wrong"}, whole=False)
    outcome = search.run(False)
    assert outcome.point is not None and search.trials.known(outcome.point).signature == "output of harmless"
    assert outcome.remarks() == ["whether the difference reaches loss, gradients and new state was not tried"]


def test_the_only_difference_is_not_tried_against_nothing() -> None:
    search = searched({"wrong"}, ("wrong",))
    assert search.run(False).reaches and search.trials.runs == 2


@pytest.mark.parametrize(
    ("value", "before", "outcome", "moved"),
    [(1.0, None, "pass", []), (2.0, None, "fail", []), (1.0, 2.0, "pass", ["loss"]), (2.0, 2.0, "fail", [])],
)
def test_outputs_are_held_to_their_bounds(value: float, before: float | None, outcome: str, moved: list[str]) -> None:
    good, other = {"loss": np.float64(1)}, None if before is None else {"loss": np.float64(before)}
    judgement = judged_outputs(
        good, {"loss": 0.5}, {"loss": np.float64(value)}, other, lambda _, a, b: float(abs(a - b))
    )
    assert (judgement.outcome, judgement.numbers["moved"]) == (outcome, moved)


def test_outputs_of_other_sizes_cannot_be_judged() -> None:
    judged = judged_outputs({"x": np.ones(2)}, {"x": 1.0}, {"x": np.ones(3)}, None, lambda *_: 0.0)
    assert judged.outcome == "untestable"
