"""`--repeat N`: a side whose bits change occasionally is found with enough runs, and the probability is printed."""

import itertools
from typing import Any

import jax
import numpy as np
import pytest

from samebits.cli.check_run import repeats_note
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from tests.support.toys import alone, run, toy


def flaky_pair() -> Pair:
    """A toy whose variant flips the last bit of one element in every twentieth call."""
    calls = itertools.count(1)

    def produced(x: Any) -> Any:
        found = np.array(x)
        if next(calls) % 20 == 0:
            found.reshape(-1).view(np.uint32)[0] ^= 1
        return found

    def flaky(x: Any, *, factor: float = 2.0) -> Any:
        return jax.pure_callback(produced, jax.ShapeDtypeStruct(x.shape, x.dtype), x * factor)

    return toy(flaky=flaky)


def found(repeats: int) -> Finding:
    rounding = Contract(lowest="rounding", reason="for this test")
    effort = Effort(repeats=repeats)
    (result,) = run(flaky_pair(), alone("flaky"), effort=effort, meshes=("data1",), contracts=(rounding,))
    return result


def test_one_in_twenty_is_found_with_enough_repeats() -> None:
    assert found(2).ruling.verdict != "unstable"
    often = found(24)
    assert (often.ruling.verdict, often.ruling.ok) == ("unstable", False)
    assert often.ruling.evidence == "'flaky' gave other bits when run again on the same input"


def test_every_repeat_is_compared_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference in the middle is not forgotten where the last run agrees again."""
    assert found(21).ruling.verdict == found(30).ruling.verdict == "unstable"


@pytest.mark.parametrize(("repeats", "percent"), [(3, "14.3%"), (20, "64.2%"), (60, "95.4%")])
def test_the_probability_is_printed(repeats: int, percent: str) -> None:
    (note,) = repeats_note(repeats)
    assert note.startswith(f"--repeat {repeats}: each program ran {repeats} times on its first input; ")
    assert note.endswith(f"in 1 of 20 runs is seen with probability {percent}")


def test_two_runs_are_usual_and_need_no_words() -> None:
    assert repeats_note(2) == []
