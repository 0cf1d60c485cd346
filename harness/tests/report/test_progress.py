"""The bar in a terminal, and the silence elsewhere."""

import io
import threading
from collections.abc import Iterator

import pytest
from rich.console import Console

from samebits.report.progress import SOON, ProgressBar, WorkLeft, time_in_words, tracked


def clock(*times: float) -> Iterator[float]:
    yield from times
    while True:
        yield times[-1]


def terminal() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=160, color_system=None), file


def test_the_bar_has_counts_failures_and_the_time_left() -> None:
    to, file = terminal()
    times = clock(0, 0, 10.0)
    with ProgressBar(to, "check", {"norm": 4}, clock=lambda: next(times)) as bar:
        bar.add("norm", 10.0, words="norm/multiply", failed=True)
        assert bar.state() == "1 of 4, 1 failed, about 30 s left, norm/multiply"
    assert "check" in file.getvalue() and "1 of 4, 1 failed, about 30 s left, norm/multiply" in file.getvalue()


def test_without_a_terminal_there_is_neither_text_nor_thread() -> None:
    file, before = io.StringIO(), threading.active_count()
    with ProgressBar(Console(file=file), "check", {"norm": 4}) as bar:
        bar.add("norm", 1.0, words="[red]x")
        bar.say("y")
        bar.expect("norm", 3)
        assert threading.active_count() == before
    assert file.getvalue() == ""


def test_work_between_two_items_is_measured_unless_recalled() -> None:
    to, _ = terminal()
    now = [0.0]
    with ProgressBar(to, "prove", {"a": 3}, clock=lambda: now[0]) as bar:
        bar.add_next("a", recalled=True)
        now[0] = 4.0
        bar.add_next("a")
        assert bar.state() == "2 of 3, about 4 s left"


def test_a_search_without_a_known_end_says_no_time() -> None:
    to, _ = terminal()
    with ProgressBar(to, "bisect") as bar:
        bar.say("commit 0123")
        assert bar.state() == "commit 0123"
        bar.add("point", 5.0)
        assert bar.state() == "1 done, commit 0123"
        bar.expect("point", 3)
        assert bar.state().startswith("1 of 4")


def test_names_are_not_markup() -> None:
    to, file = terminal()
    with ProgressBar(to, "check", {"a": 2}) as bar:
        bar.add("a", 1.0, words="[bold]case[/bold] :smile:")
    assert "[bold]case[/bold] :smile:" in file.getvalue()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_exception_leaves_a_clean_terminal(error: type[BaseException]) -> None:
    to, file = terminal()
    before = set(threading.enumerate())
    with pytest.raises(error), ProgressBar(to, "check", {"a": 2}):
        raise error
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()
    assert "\x1b[?25h" in file.getvalue()  # the cursor is back


def test_a_loop_is_tracked_on_stderr_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the loop prints stays on standard output, so that `bench > file` has it."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal
    seen = []
    for size in tracked((1, 3), "benchmark", lambda size: size):
        print(f"result {size}")
        seen.append(size)
    out, err = capsys.readouterr()
    assert (seen, out) == ([1, 3], "result 1\nresult 3\n")
    assert "benchmark" in err and " of 4" in err


# --- the time left ---------------------------------------------------------------------------------------------------


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
