"""Exchanges between threads that stand for processes: who is missing, gone or elsewhere is named in time."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from samebits.cluster.process_group import CLOSED, Board, Gathered, Post, is_gone, own_place


def both(*calls: Callable[[], Any]) -> list[Any]:
    """What calls give that run beside each other."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(call) for call in calls]]


def test_all_get_what_all_bring_in_the_order_of_processes() -> None:
    board = Board(3)
    for number in range(3):
        calls = [lambda n=n, t=number: board.exchange(n, (1, f"step {t}"), Post(n * 10), 60) for n in (2, 0, 1)]
        for gathered in both(*calls):
            assert [post.payload for post in gathered.posts] == [0, 10, 20]


def test_many_exchanges_in_a_row_lose_nobody() -> None:
    board, count = Board(4), 200

    def process(number: int) -> list[Gathered]:
        return [board.exchange(number, (1, str(step)), Post(step), 60) for step in range(count)]

    for gathered in both(*(lambda n=n: process(n) for n in range(4))):
        assert [g.ended for g in gathered] == [None] * count
        assert [g.posts[3].payload for g in gathered] == list(range(count))


def test_a_process_that_does_not_come_is_named_with_its_stage() -> None:
    board = Board(2)
    board.sign(1, None, "rope: running")
    gathered = board.exchange(0, (1, "rope: judged"), Post(), 0.5)
    assert gathered.ended == "process 1 (last at 'rope: running') did not come to 'rope: judged' within 0.5 s"
    assert board.exchange(1, (1, "rope: judged later"), Post(), 60).ended == gathered.ended
    assert board.ended() == gathered.ended


def test_processes_at_two_places_are_named_at_once() -> None:
    board = Board(2)
    first, second = both(
        lambda: board.exchange(0, (1, "rope: a"), Post(), 60), lambda: board.exchange(1, (1, "rope: b"), Post(), 60)
    )
    assert first.ended == second.ended
    assert first.ended in (
        "process 1 is at 'rope: b' while others are at 'rope: a'",
        "process 0 is at 'rope: a' while others are at 'rope: b'",
    )


def test_a_process_that_left_the_point_is_met_at_its_end() -> None:
    board = Board(2)

    def leaves() -> Gathered:
        board.leave(1, 7, "no kernel")
        return board.exchange(1, (7, "rope (end)"), Post(), 60, last=True)

    def waits() -> tuple[Gathered, Gathered]:
        return board.exchange(0, (7, "rope: ran"), Post(), 60), board.exchange(0, (7, "rope (end)"), Post(), 60, True)

    end, (inside, end_too) = both(leaves, waits)
    assert inside.failed == (1, "no kernel")
    assert len(end.posts) == len(end_too.posts) == 2


def test_where_a_process_failed_the_others_have_little_time() -> None:
    board = Board(2, grace=0.3)
    gathered = board.exchange(0, (1, "rope: ran"), Post(failed="out of memory"), 60)
    assert gathered.ended is not None
    assert gathered.ended.startswith("process 0 failed at 'rope: ran' (out of memory), and process 1 (last at ")


def test_a_process_that_has_ended_is_seen_from_the_same_system() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    place = own_place()
    assert place is not None and place[1] == os.getpid() and not is_gone(place)
    child.wait(60)
    assert is_gone((place[0], child.pid))
    assert not is_gone(("another system", child.pid)), "nothing is known of it"
    board = Board(2)
    board.sign(1, (place[0], child.pid), "rope: running")
    assert board.sign(0, place, "rope: judged") == "process 1 has ended; it was last at 'rope: running'"


def test_silence_counts_as_an_end_and_leave_taking_does_not() -> None:
    board = Board(2, silence=0.0)
    assert board.sign(1, None, CLOSED) is not None, "process 0 gave no sign"
    board = Board(2, silence=0.0)
    board.sign(0, None, CLOSED)
    board = Board(1)
    assert board.sign(0, None, CLOSED) is None
