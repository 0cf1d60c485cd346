"""What a judgement asks is recorded where it is asked, and once more where an earlier conclusion is used again."""

from samebits.programs.asked import Asked, record, record_all, record_outside, recorded


def test_questions_are_of_the_innermost_record() -> None:
    outer, inner = Asked(), Asked()
    record(("nobody",), 0)
    with recorded(outer):
        record(("a",), 1)
        with recorded(inner):
            record(("b",), 2)
        record(("c",), 3)
    assert (outer.answers, inner.answers) == ({("a",): (1,), ("c",): (3,)}, {("b",): (2,)})


def test_what_is_used_again_is_asked_again() -> None:
    first, second = Asked(), Asked()
    with recorded(first):
        record(("a",), 1)
        record_outside("on another mesh")
    with recorded(second):
        record_all(first)
    assert second.answers == first.answers and second.outside == "on another mesh"


def test_a_record_ends_with_an_exception() -> None:
    ended = Asked()
    try:
        with recorded(ended):
            raise ValueError
    except ValueError:
        record(("later",), 1)
    assert not ended.answers
