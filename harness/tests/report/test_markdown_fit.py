"""Tables and lists that are folded and cut so that the whole has at most so many lines."""

import pytest

from samebits.report.markdown import LINES, Part, Rows, fenced, fitted, unfitted

HEAD = ("| a |", "| --- |")


def table(count: int, title: str = "a table", bad: frozenset[int] = frozenset()) -> Rows:
    return Rows(title=title, head=HEAD, rows=[f"| {n} |" for n in range(count)], bad=bad)


def test_what_fits_stays_as_it_is() -> None:
    assert fitted(["### head", table(2)]) == "### head\n\n#### a table\n\n| a |\n| --- |\n| 0 |\n| 1 |\n"


@pytest.mark.parametrize(
    "parts",
    [
        ["head", table(300)],
        ["head", *[table(30, f"t{n}") for n in range(9)], "end"],
        ["head", *[table(9, f"t{n}", frozenset({8})) for n in range(40)]],
        ["\n".join(["fixed"] * 30), table(100, bad=frozenset(range(100))), table(100)],
    ],
)
def test_never_more_lines(parts: list[Part]) -> None:
    text = fitted(parts)
    assert text.count("\n") <= LINES
    assert text.count("<details>") == text.count("</details>")
    assert "more" in text  # what is left out is said


def test_a_cut_table_is_folded_and_says_how_much_is_left() -> None:
    text = fitted(["head", table(100)], most=20)
    assert "<details><summary>a table</summary>\n\n| a |\n| --- |\n| 0 |\n" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and line not in HEAD]
    assert f"\n\n… and {100 - len(rows)} more rows; `--json` writes all\n" in text


def test_bad_rows_come_before_others_and_are_not_folded() -> None:
    text = fitted(["head", table(100, bad=frozenset({97, 98})), table(100, "other")], most=40)
    assert "| 97 |\n| 98 |\n" in text and "#### a table" in text
    assert text.index("#### a table") < text.index("<details><summary>other</summary>")


def test_tables_without_room_are_counted() -> None:
    text = fitted(["head", *[table(30, f"t{n}") for n in range(9)]], most=30)
    shown = text.count("<details>")
    assert 1 <= shown < 9 and f"{9 - shown} more sections in `--json`." in text


def test_parts_of_any_command_fit_within_sixty_lines() -> None:
    parts: list[Part] = ["### samebits compile: not as declared", "a sentence"]
    for number in range(40):
        parts += [table(5, f"table {number}"), Rows(rows=[f"- note {n}" for n in range(4)])]
    parts += [fenced(["+ added"] * 300, "diff"), Rows(rows=["- problem: pair 'x': wrong", "- note"], bad={0})]
    whole = unfitted(parts)
    assert whole.count("\n") > 500 and whole.startswith("### samebits compile: not as declared\n\na sentence\n\n<det")
    text = fitted(parts)
    assert text.count("\n") <= LINES
    assert "- problem: pair 'x': wrong" in text  # at the end of the parts, and before all tables
    assert "<details><summary>table 0</summary>" in text
    assert text.count("```") == 2 and "… 289 more lines\n```" in text


def test_sections_of_a_whole_page_are_folded_but_those_that_fail() -> None:
    parts = ["#### x \\[2\\] \\< 3", "- one", "```\ntwo\n```", "a sentence", "#### fails", "| FAILED |", "#### bare"]
    assert unfitted([*parts, table(1, "rows")]) == (
        "<details>\n<summary>x [2] &lt; 3</summary>\n\n- one\n\n```\ntwo\n```\n\n</details>\n\na sentence\n\n"
        "#### fails\n\n| FAILED |\n\n#### bare\n\n<details>\n<summary>rows</summary>\n\n"
        + "\n".join(table(1).lines()[2:])
        + "\n\n</details>\n"
    )


def test_texts_that_are_too_long_are_counted() -> None:
    text = fitted(["### head", *[f"text {number}" for number in range(100)]])
    assert text.count("\n") <= LINES and text.startswith("### head\n\ntext 0\n")
    assert "more sections in `--json`." in text
