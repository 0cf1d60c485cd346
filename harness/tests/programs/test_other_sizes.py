"""Cases at other sizes than the declared ones: read, applied to the cases that have them, and rejected in one line."""

from dataclasses import replace
from pathlib import Path

import jax
import pytest

import samebits
from samebits import Arg, Case, Pair, Request
from samebits.errors import DeclarationError, RequestError
from samebits.programs.catalogue import Locator, load
from samebits.programs.other_sizes import at_sizes, read_sizes, sizes_text
from samebits.programs.plan import plan
from samebits.programs.replay import replay
from tests.support.invoke import samebits as command


def plain(x: jax.Array, *, by: int) -> jax.Array:
    return x * by


def wrong_from_nine(x: jax.Array, *, by: int) -> jax.Array:
    return x * by if x.shape[0] < 9 else x


PAIR = Pair(
    name="scaled",
    reference=plain,
    variants={"wrong_from_nine": wrong_from_nine},
    args=lambda case, mesh: {"x": Arg(shape=(*case.sizes,))},
    cases=(
        Case(id="small", sizes={"rows": 4, "width": 3}, statics={"by": 2}),
        Case(id="even", sizes={"rows": 4, "width": 3}, statics={"by": 2}, symbols={"rows": "2*n"}),
        Case(id="flat", sizes={"all": 12}, statics={"by": 2}),
    ),
    dtypes=("float32",),
    gradients=False,
)


def test_sizes_are_read_as_they_are_written() -> None:
    assert read_sizes(("rows=9, width=3", "by=4")) == {"rows": 9, "width": 3, "by": 4}
    assert sizes_text({"rows": 9, "by": 4}) == "rows=9,by=4"


@pytest.mark.parametrize("text", ["rows", "rows=", "rows=-1", "rows=a", "=3", "rows=4,rows=5", "rows=4;width=3"])
def test_what_is_no_size_is_rejected(text: str) -> None:
    with pytest.raises(RequestError, match="--sizes"):
        read_sizes((text,))


def test_cases_that_have_them_get_them() -> None:
    small, even, flat = at_sizes(PAIR, {"rows": 10, "by": 7}).cases
    assert (dict(small.sizes), dict(small.statics)) == ({"rows": 10, "width": 3}, {"by": 7})
    assert even.sizes["rows"] == 10
    assert flat == PAIR.case("flat")


def test_cases_that_lack_them_do_not_run() -> None:
    request = Request(sizes=("rows=10",))
    points = plan(at_sizes(PAIR, {"rows": 10}), request, devices=1).points
    assert {point.case for point in points} == {"small", "even"}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"row": 3}, "pair 'scaled' has no size 'row'; its sizes are by, rows, width, all"),
        ({"rows": 3, "all": 9}, "pair 'scaled' has no case with all of the sizes rows, all"),
    ],
)
def test_sizes_of_no_case_are_rejected(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        at_sizes(PAIR, sizes)


def test_sizes_have_to_fit_the_symbols_of_a_case() -> None:
    small, even, _ = at_sizes(PAIR, {"rows": 9}).cases
    assert (small.sizes["rows"], even.sizes["rows"]) == (9, 4)
    alone = replace(PAIR, cases=(PAIR.case("even"),))
    with pytest.raises(DeclarationError, match=r"case 'even': 'rows' is '2\*n', which is never 9"):
        at_sizes(alone, {"rows": 9})


def test_a_locator_carries_sizes_to_every_process() -> None:
    locator = Locator(name=f"{__name__}:PAIR", sizes="rows=10")
    assert load(locator).case("small").sizes["rows"] == 10
    (point, *_) = plan(load(locator), Request(sizes=("rows=10",)), devices=1).points
    assert replay(locator, point).endswith("--sizes rows=10")


def test_a_pair_is_checked_at_the_sizes_of_a_request() -> None:
    assert samebits.check(PAIR, Request(cases=("small",))).ok
    assert samebits.check(PAIR, Request(cases=("small",), sizes=("rows=9",))).verdict == "different"


DECLARED = """
from samebits import Arg, Case, Pair

def plain(x, *, by):
    return x * by

def wrong_from_nine(x, *, by):
    return x * by if x.shape[0] < 9 else x

PAIR = Pair(
    name="scaled",
    reference=plain,
    variants={"wrong_from_nine": wrong_from_nine},
    args={"x": Arg(shape=("rows", "width"))},
    cases=(Case(id="small", sizes={"rows": 4, "width": 3}, statics={"by": 2}),),
    dtypes=("float32",),
    gradients=False,
)
"""


def test_the_command_runs_at_other_sizes(tmp_path: Path) -> None:
    """Of a file of its own: what this one imports would be read for its key."""
    (tmp_path / "scaled.py").write_text(DECLARED, encoding="utf-8")
    words = ("check", f"{tmp_path / 'scaled.py'}:PAIR", "--case", "small")
    assert command(*words).code == 0
    assert command(*words, "--sizes", "rows=8").code == 0
    failed = command(*words, "--sizes", "rows=9", "--json", tmp_path / "c.json")
    assert failed.code == 1
    assert "--sizes rows=9" in failed.out
    wrong = command(*words, "--sizes", "row=9")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
