"""Groups of failures in a terminal and in a pull request: the worst explained, the others named or counted."""

from samebits.report.markdown import LINES, WORST, failing_parts, fitted
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
