"""How many lines a text takes in a terminal, and how it is cut."""

from rich.console import Console

from samebits.report.terminal import cut, height, height_of, line, tall


def test_a_long_line_takes_several() -> None:
    assert [height("x" * n, 10) for n in (0, 10, 11, 21)] == [1, 1, 2, 3]
    assert tall([("x" * 25, ""), ("", "")], 10) == 4

    def two(to: Console) -> None:
        line(to, "x" * 25)
        line(to, "x" * 25)

    assert height_of(two, 10) == 6


def test_a_cut_text_says_so() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"
