"""What the printers make of blocks, whatever command they come from; a page with a bad row is planted."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from samebits.report.html.sections import Section
from samebits.report.markdown import LINES as MARKDOWN_LINES
from samebits.report.markdown import markdown_page
from samebits.report.page import (
    Badge,
    Block,
    Chart,
    Code,
    CommandLine,
    Failing,
    Fold,
    Line,
    Lines,
    Page,
    Table,
    ValueList,
    charts_of,
)
from samebits.report.terminal import LINES, NOTES, cut, height, height_of, line, show_page, show_table, tall
from samebits.report.terminal import ROW_WIDTH as WIDTH
from samebits.schema.result import Problem
from tests.support.pages import markdown, screen

GROUP = Failing(title="norm/multiply: 1 of 2 fail", likely="a sum in another order", next_command="samebits check norm")


@dataclass(frozen=True)
class Paper:
    """A document that is nothing but its page."""

    shown: Page

    def page(self) -> Page:
        return self.shown


def page(*blocks: Block, **more: object) -> Paper:
    return Paper(Page(command="check", state="failed", closing="2 results: 1 fails", blocks=blocks, **more))  # type: ignore[arg-type]


def table(rows: int, bad: int) -> Table:
    cells: list[list[str | Badge]] = [
        [f"row {number}", Badge(text="bitwise", sign="="), str(number)] for number in range(rows)
    ]
    detail = Fold(title="evidence", blocks=[Lines(lines=["the witness"])])
    return Table(
        heads=("name", "verdict", "count"), rows=cells, title="Rows", bad=[bad], right=["count"], details={bad: detail}
    )


def test_every_printer_shows_what_fails_and_what_to_type() -> None:
    paper = page(table(3, bad=2), failing=[GROUP], problems=[Problem(pair="rope", message="no file")])
    lines, text = screen(paper), markdown(paper)
    assert lines[-1] == "next: samebits check norm"
    assert "FAILED  norm/multiply: 1 of 2 fail" in lines and "the witness" in lines
    assert "### samebits check: failed" in text and "rope: no file" in text
    assert "```\nsamebits check norm\n```" in text and "- the witness" in text


def test_a_bad_row_is_kept_where_others_are_cut() -> None:
    text = markdown(page(table(200, bad=150)))
    assert len(text.splitlines()) <= MARKDOWN_LINES
    assert "| row 150 | bitwise | 150 |" in text and "| row 149 |" not in text
    whole = markdown(page(table(200, bad=150)), whole=True)
    assert "| row 149 |" in whole


def test_the_rest_is_one_screen_with_a_hint() -> None:
    long = Fold(title="", blocks=[Lines(lines=[f"row {n}" for n in range(100)])], short=Lines(lines=["100 rows"]))
    paper = page(long, hint="--verbose prints every row", failing=[GROUP])
    lines = screen(paper)
    assert len(lines) <= LINES and "100 rows" in lines and "--verbose prints every row" in lines
    every = screen(paper, verbose=True)
    assert "row 99" in every and "--verbose prints every row" not in every


def test_what_was_shown_live_is_not_shown_again() -> None:
    paper = page(Lines(lines=["at the end"]), live=[Lines(lines=["while it ran"])])
    assert "while it ran" not in screen(paper, live=True)
    assert screen(paper)[0] == "while it ran" and "- while it ran" in markdown(paper)


def test_a_block_is_shown_where_it_belongs() -> None:
    paper = page(Lines(lines=["seen"], media=("terminal",)), Lines(lines=["read"], media=("markdown",)))
    assert "seen" in screen(paper) and "read" not in screen(paper)
    assert "- read" in markdown(paper) and "seen" not in markdown(paper)


def test_values_commands_and_tones() -> None:
    values = ValueList(rows=[("case", "small"), ("reason", None)])
    lines = screen(page(values, CommandLine(text="samebits list"), Lines(lines=[Line("careful", "warn")])))
    assert "  case  small" in lines and "  run: samebits list" in lines and "careful" in lines
    assert not any("reason" in text for text in lines)


def test_a_patch_is_marked_and_cut_only_in_a_terminal() -> None:
    paper = page(Code(lines=["--- a", "+```", "- x", *["y"] * 9], title="The change", language="diff", most=4))
    assert screen(paper)[:6] == ["The change", "  --- a", "  +```", "  - x", "  y", "  ... 8 more lines; all in --json"]
    assert "````diff\n--- a\n+```\n" in markdown(paper)
    body = Section(page=paper.shown).body
    assert '<span class="removed">- x\n' in body and "<span>--- a\n" in body and body.count("<span>y\n") == 9


def test_a_table_without_rows_is_left_out() -> None:
    paper = page(Table(heads=("name",), rows=[], title="Rows", caption="All rows"))
    assert not any("Rows" in text for text in (*screen(paper), markdown(paper)))
    assert "All rows" not in Section(page=paper.shown).body


def test_many_notes_are_counted_on_a_screen() -> None:
    notes = [f"note {number}" for number in range(NOTES + 2)]
    rows = Lines(lines=["row"] * 100)
    assert "and 2 more notes; --json FILE has all" in screen(page(rows, notes=notes, hint="--verbose"))
    assert "and 1 more note; --json FILE has all" in screen(page(rows, notes=notes[1:], hint="--verbose"))
    assert "- note 4" in markdown(page(rows, notes=notes))


def test_a_chart_is_drawn_only_where_it_is_shown() -> None:
    def draw() -> dict[str, object]:
        return {"mark": "bar"}

    chart = Chart(name="bars", label="Bars", draw=draw)
    assert charts_of([Fold(title="x", blocks=[chart])]) == {"bars": {"mark": "bar"}}
    refused = Chart(name="bars", label="Bars", draw=lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    assert "Bars" not in "".join(screen(page(refused)))
    assert "Bars" not in markdown_page(page(refused).shown)


def test_the_tallest_block_is_shortened_first() -> None:
    """A short form may have one too, and a block that fits stays as it is."""
    few = Lines(lines=["100 rows"])
    tall = Lines(lines=[f"row {n}" for n in range(100)], short=Lines(lines=[f"ten {n}" for n in range(30)], short=few))
    small = Lines(lines=["note 1", "note 2"], short=Lines(lines=["2 notes"]))
    lines = screen(page(small, tall, hint="--verbose"))
    assert "ten 29" in lines and "note 2" in lines and "row 1" not in lines
    rows = Lines(lines=["kept"] * 20)
    lines = screen(page(tall, rows, small, hint="--verbose"))
    assert "100 rows" in lines and "note 2" in lines and "kept" in lines and "ten 1" not in lines
    assert "2 notes" not in screen(page(tall, small, hint="--verbose"), verbose=True)


def test_failures_come_before_what_cannot_be_shortened() -> None:
    many = [Failing(title=f"group {n}", likely="a cause", example="values") for n in range(20)]
    lines = screen(page(Lines(lines=["row"] * 100), failing=many, hint="--verbose"))
    assert len(lines) <= LINES and "row" not in lines
    assert sum(line == "  likely    a cause" for line in lines) == 8, "what is left out leaves its room to them"
    assert "8 more groups" in lines


def test_markdown_says_what_broke_and_folds_tables() -> None:
    fold = Fold(title="on <cpu>", blocks=[replace(table(200, bad=150), title=""), Lines(lines=["", "below"])])
    text = markdown(page(fold, failing=[Failing(title="row 150 differs")], explained=True))
    assert text.splitlines()[2] == "row 150 differs"
    assert "<details><summary>on \\<cpu\\></summary>" in text and "- below" in text and "- \n" not in text
    assert "<summary>on &lt;cpu&gt;</summary>" in markdown(page(fold), whole=True)


def test_a_bad_row_is_red_and_others_are_not() -> None:
    file = io.StringIO()
    show_page(Console(file=file, force_terminal=True, color_system="standard", width=100), page(table(2, bad=1)).shown)
    honest, bad = (line for line in file.getvalue().splitlines() if "bitwise" in line)
    assert "\x1b[1;31m" in bad and "\x1b[1;31m" not in honest


def test_rows_in_full_take_the_place_of_groups() -> None:
    paper = page(failing=[GROUP], each=[Lines(lines=["FAILED  norm, case small"])], hint="--verbose")
    assert "FAILED  norm/multiply: 1 of 2 fail" in screen(paper) and "FAILED  norm, case small" not in screen(paper)
    every = screen(paper, verbose=True)
    assert "FAILED  norm, case small" in every and "FAILED  norm/multiply: 1 of 2 fail" not in every


def test_the_only_group_of_one_point_is_shown_whole() -> None:
    whole = replace(GROUP, whole=("norm, case small", "  witness   out[0]"))
    assert screen(page(failing=[whole]))[:2] == ["FAILED  norm, case small", "  witness   out[0]"]
    assert "#### Failures\n\n```\nnorm, case small\n  witness   out[0]\n```" in markdown(page(failing=[whole]))
    assert "FAILED  norm/multiply: 1 of 2 fail" in screen(page(failing=[whole, GROUP]))
    long = replace(GROUP, whole=("norm, case small", *["  line"] * 30))
    assert "FAILED  norm/multiply: 1 of 2 fail" in screen(page(failing=[long]))


def test_several_badges_in_a_cell_and_tables_of_one_width() -> None:
    both = (Badge(text="bitwise 2", sign="=", tone="good"), Badge(text="rounding 1", sign="≈", tone="warn"))
    short, long = (
        Table(heads=("side", "found"), rows=[[side, cell]], least=(8, 21)) for side, cell in (("a", "b"), ("cd", both))
    )
    lines = screen(page(short, long))
    assert "  side      found" in lines and "  cd        bitwise 2, rounding 1" in lines
    assert "| cd | bitwise 2, rounding 1 |" in markdown(page(long))
    assert Section(page=page(long).shown).body.count('<span class="badge') == 2


def test_lines_are_cut_and_values_aligned() -> None:
    cut = Lines(lines=["x" * 300], cut=2)
    first, second = screen(page(cut, ValueList(rows=[("a", "b")], least=6)), width=100)[:2]
    assert (first, second) == ("x" * 199 + "…", "  a       b")


# --- lines of a terminal ---------------------------------------------------------------------------------------------


def test_a_long_line_takes_several() -> None:
    assert [height("x" * n, 10) for n in (0, 10, 11, 21)] == [1, 1, 2, 3]
    assert tall([("x" * 25, ""), ("", "")], 10) == 4
    assert height_of([Lines(lines=["x" * 25, "x" * 25])], 10) == 6


def test_a_cut_text_says_so() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


# --- tables of a terminal --------------------------------------------------------------------------------------------


def printed() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=WIDTH), file


def cells(*rows: Sequence[str]) -> list[list[Text]]:
    return [[Text(cell) for cell in row] for row in rows]


def test_numbers_are_aligned_to_the_right_and_words_to_the_left() -> None:
    to, file = printed()
    show_table(to, ["run", "loss"], cells(["one", "5.25"], ["thirteen", "10.5"]), right=["loss"])
    assert [text.rstrip() for text in file.getvalue().splitlines()] == [
        "  run       loss",
        "  one       5.25",
        "  thirteen  10.5",
    ]


def test_markup_in_a_cell_is_text() -> None:
    to, file = printed()
    show_table(to, ["index"], cells(["out[red]"]))
    line(to, "x[0] " * 100)
    table, long = file.getvalue().split("x[0]", 1)
    assert "out[red]" in table and len(long.rstrip("\n").splitlines()) == 1


HEADS = ("golden", "loss", "ulps", "reason")
ROWS = (
    ("toy/one", "4.046679019927979", "12345678", "a reason of several words that may be wrapped"),
    ("toy/two", "0.5", "", "none"),
)


def lines(width: int) -> list[str]:
    file = io.StringIO()
    to = Console(file=file, width=width, force_terminal=True, color_system=None)
    show_table(to, HEADS, cells(*ROWS), wrapped=("reason",))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_wide_terminal_has_a_row_for_each() -> None:
    assert lines(120) == [
        "  golden   loss               ulps      reason",
        "  toy/one  4.046679019927979  12345678  a reason of several words that may be wrapped",
        "  toy/two  0.5                          none",
    ]


def test_text_is_wrapped_first() -> None:
    assert lines(68) == [
        "  golden   loss               ulps      reason",
        "  toy/one  4.046679019927979  12345678  a reason of several words",
        "                                        that may be wrapped",
        "  toy/two  0.5                          none",
    ]


def test_then_rows_are_lists() -> None:
    assert lines(40) == [
        "  toy/one",
        "    loss 4.046679019927979,",
        "    ulps 12345678, reason a reason of",
        "    several words that may be wrapped",
        "  toy/two",
        "    loss 0.5, reason none",
    ]
    assert "".join(lines(5)).count("4.046679019927979") == 1
