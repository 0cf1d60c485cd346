"""Groups of failures in a terminal and in a pull request: the worst explained, the others named or counted."""

import pytest

from samebits.report.markdown import LINES, WORST, Part, Rows, failing_parts, fenced, fitted, unfitted
from samebits.report.page import Failing, next_command
from samebits.report.terminal import failing_lines

GROUPS = [
    Failing(
        title=f"norm/side{n}: 3 of 9 leaves refuted",
        likely="another `computation` <b>",
        where="out; small",
        example="out[3] is 1.0",
        next_command=f"samebits prove norm --variant side{n}",
    )
    for n in range(40)
]


def shown(groups: list[Failing], most: int | None = None) -> list[str]:
    return [text for text, _ in failing_lines(groups, 80, most)]


def test_the_first_is_explained() -> None:
    assert shown(GROUPS[:1]) == [
        "FAILED  norm/side0: 3 of 9 leaves refuted",
        "  likely    another `computation` <b>",
        "  where     out; small",
        "  example   out[3] is 1.0",
        "  next      samebits prove norm --variant side0",
        "",
    ]


def test_the_others_are_named_and_counted() -> None:
    lines = shown(GROUPS, 20)
    assert len(lines) <= 20
    assert sum(text.startswith("  likely") for text in lines) == 2
    assert sum(text.startswith("FAILED") for text in lines) == 2 + 4
    assert lines[-2] == f"{len(GROUPS) - 2 - 4} more groups"
    assert sum(text.startswith("  likely") for text in shown(GROUPS, 0)) == 1, "one is explained in any case"
    assert sum(text.startswith("  likely") for text in shown(GROUPS)) == len(GROUPS)


def test_a_command_is_never_cut() -> None:
    command = "samebits check " + "--case long " * 40
    assert f"  next      {command.strip()}" in shown([Failing(title="t", likely="l", next_command=command.strip())])


def test_a_pull_request_has_five_and_folds_the_rest() -> None:
    text = fitted(failing_parts(GROUPS))
    assert len(text.splitlines()) <= LINES
    assert sum(line[:1].isdigit() for line in text.splitlines()) == WORST
    assert f"<details><summary>{len(GROUPS) - WORST} more groups</summary>" in text
    assert "<b>" not in text and "\\<b\\>" in text
    assert "   - `samebits prove norm --variant side0`" in text
    assert failing_parts([]) == []


def test_the_next_command_is_of_the_first_that_has_one() -> None:
    assert next_command([Failing(title="t", likely="l"), *GROUPS]) == GROUPS[0].next_command
    assert next_command([]) is None


def test_a_group_in_a_pull_request() -> None:
    """The example has its own name, and what restricts the group stands beside its title."""
    (head, item) = failing_parts([Failing(title="t", likely="l", where="w", example="e", only=("only with a mesh",))])
    assert (head, item) == (
        "#### Failures: 1 group", "1. **t**; only with a mesh\n   - likely: l\n   - where: w; example: e"
    )  # fmt: skip


# --- Markdown of a limited height ------------------------------------------------------------------------------------


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
