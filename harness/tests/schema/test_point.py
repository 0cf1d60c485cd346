"""Points of a sweep by name, and how hard each is tried."""

from samebits.schema.point import USUAL, Effort, Point

POINT = Point(variant="fast", case="small", dtype="float32", mesh="data2", mode="auto", direction="forward")


def test_a_point_is_written_in_the_order_of_the_command_line() -> None:
    assert str(POINT) == "fast-small-float32-data2-auto-forward"


def test_equal_names_are_one_point() -> None:
    again = Point(variant="fast", case="small", dtype="float32", mesh="data2", mode="auto", direction="forward")
    assert {POINT, again} == {POINT}


def test_every_program_runs_twice_where_nothing_is_asked() -> None:
    assert Effort(repeats=2, shake=False, assuming=True) == USUAL
