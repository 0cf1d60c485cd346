"""The time left, against runs whose costs are known: it is the work that counts, and not the number of items."""

import pytest

from samebits.report.progress import SOON, WorkLeft, time_in_words


def test_classes_that_differ_are_not_averaged() -> None:
    """Ten expensive items first, then a thousand cheap ones: by counts alone the rest would take 1000 s."""
    work = WorkLeft({"train": 10, "move": 1000})
    for _ in range(10):
        work.add("train", 10.0)
    work.add("move", 0.01)
    assert work.left(100.0) == pytest.approx(999 * 0.01, rel=0.01)
    assert work.share == pytest.approx(100 / 110, rel=0.01)


def test_expensive_items_that_come_last_are_expected() -> None:
    work = WorkLeft({"train": 10, "move": 100})
    for _ in range(50):
        work.add("move", 0.1)
    work.add("train", 20.0)
    assert work.left(25.0) == pytest.approx(9 * 20 + 50 * 0.1)
    assert work.share < 0.2 < work.done / work.total


def test_several_processes_are_accounted_for() -> None:
    work = WorkLeft({"a": 40})
    for _ in range(20):
        work.add("a", 4.0)
    assert work.left(20.0) == pytest.approx(20.0)  # four at a time


def test_what_is_remembered_costs_nothing() -> None:
    work = WorkLeft({"a": 100})
    for _ in range(90):
        work.add("a", None)
    assert (work.left(10.0), work.share) == (None, 0.9)
    for _ in range(5):
        work.add("a", 2.0)
    assert work.left(10.0) == pytest.approx(10.0)


def test_a_class_of_which_none_is_done_costs_the_mean_of_all() -> None:
    work = WorkLeft({"a": 2, "b": 2, "c": 3})
    work.add("a", 1.0)
    work.add("b", 3.0)
    assert work.left(4.0) == pytest.approx(1 + 3 + 3 * 2)


def test_nothing_is_said_too_early_nor_of_nothing() -> None:
    work = WorkLeft({"a": 2})
    assert (work.left(10.0), work.share) == (None, 0.0)
    work.add("a", 1.0)
    assert work.left(SOON / 2) is None
    work.add("a", 1.0)
    assert (work.left(10.0), work.share) == (0.0, 1.0)


def test_a_search_learns_on_its_way_how_much_is_left() -> None:
    work = WorkLeft({})
    for left in (3, 1):
        work.add("point", 5.0)
        work.expect("point", left)
    assert (work.done, work.total, work.left(10.0)) == (2, 3, 5.0)
    work.add("another", 5.0)  # of a class that was not announced
    assert (work.done, work.total) == (3, 4)


def test_a_large_item_stands_for_several() -> None:
    work = WorkLeft({"points": 40})
    work.add("points", 5.0, units=10)
    assert (work.done, work.left(5.0)) == (10, 15.0)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (99, "99 s"), (100, "2 min"), (5900, "98 min"), (7800, "2 h 10 min")]
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert time_in_words(seconds) == words
