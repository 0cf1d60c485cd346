"""The bar in a terminal, and the silence elsewhere."""

import io
import threading
from collections.abc import Iterator

import pytest
from rich.console import Console

from samebits.report.progress import ProgressBar, tracked


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
