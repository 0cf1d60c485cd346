"""What fails, grouped by cause, as a terminal and a pull request show it: the worst explained, the rest counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.report.markdown_fit import Part, Rows, escaped, fenced
from samebits.report.screen import Styled, cut, tall
from samebits.report.words import plural
from samebits.schema.finding import Finding
from samebits.schema.result import Problem

WORST = 5
"""Groups that are explained at most."""

_PROBLEMS = 3

LONGEST = 400
"""Characters of a text in Markdown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failing:
    """Rows of a document that fail together.

    Args:
        title: whose they are, how many of how many, and what is wrong.
        likely: the likely cause, in one sentence; empty where none is known.
        where: the cases, steps or names that fail, in few words.
        example: one of them with its values, on some lines.
        next_command: shows the example again.
        only: what restricts them: rows beside them that hold.
        whole: of rows of one point, all that is known, as lines of which the first says where it is.
        kind: what joins them, such as `line` (one line of the source) or `error` (one text).
        findings: the rows, where they are findings.
        smallest: of these, the example.
    """

    title: str
    likely: str = ""
    where: str = ""
    example: str = ""
    next_command: str | None = None
    only: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    kind: str = ""
    findings: tuple[Finding, ...] = ()
    smallest: Finding | None = None


def next_command(groups: Sequence[Failing]) -> str | None:
    """What to type first."""
    return next((group.next_command for group in groups if group.next_command), None)


def opening(
    head: str,
    sentence: str,
    groups: Sequence[Failing],
    problems: Sequence[Problem] = (),
    command: str | None = None,
) -> list[Part]:
    """Return the beginning of a report for a pull request: what came out, what to type, the worst failures.

    Args:
        head: the command, and what the run comes to.
        sentence: that closes the report in a terminal.
        groups: the gravest first.
        problems: what could not be looked at.
        command: what to run next; that of the first group by default.
    """
    command = command or next_command(groups)
    parts: list[Part] = [f"### samebits {head}", escaped(sentence), *([] if command is None else [fenced([command])])]
    return [*parts, *problem_parts(problems), *failing_parts(groups)]


_WHOLE = 26
"""Lines of a terminal that the only group may take as it is."""

_NAMED = 4
"""Groups that are named, of those that are not explained."""


def failing_lines(groups: Sequence[Failing], width: int, most: int | None = None) -> list[Styled]:
    """Return lines for a terminal that explain the first groups, name some more, and count the others.

    Args:
        groups: the gravest first; the first is explained in any case.
        width: columns of the terminal.
        most: lines; None for as many as all groups take.
    """
    lines: list[Styled] = [(text, "") for group in groups[:1] for text in (*group.whole, "")]
    if len(groups) == 1 and len(lines) > 1 and tall(lines, width) <= _WHOLE:
        return [(f"FAILED  {lines[0][0]}", "bold red"), *lines[1:]]
    lines, used = [], 0
    for number, group in enumerate(groups):
        block = _group_lines(group, width)
        if most is not None and number and used + tall([*block, *_named(groups[number + 1 :], width)], width) > most:
            return lines + _named(groups[number:], width)
        lines += block
        used += tall(block, width)
    return lines


def _group_lines(group: Failing, width: int) -> list[Styled]:
    parts = [("likely", group.likely), ("where", group.where)]
    parts += [("" if number else "example", text) for number, text in enumerate(group.example.splitlines())]
    lines = [f"  {name:<9} {cut(text, 2 * width - 12)}" for name, text in parts if text]
    lines += [f"  next      {group.next_command}"] if group.next_command else []  # is copied, so it is whole
    return [_title(group, width), *((text, "") for text in lines), ("", "")]


def _title(group: Failing, width: int) -> Styled:
    return cut(f"FAILED  {'; '.join([group.title, *group.only])}", width), "bold red"


def _named(groups: Sequence[Failing], width: int) -> list[Styled]:
    if not groups:
        return []
    lines = [_title(group, width) for group in groups[:_NAMED]]
    if len(groups) > _NAMED:
        count = sum(len(group.findings) for group in groups[_NAMED:])
        counted = f" with {plural(count, 'failing result')}" if count else ""
        lines.append((plural(len(groups) - _NAMED, "more group") + counted, "bold red"))
    return [*lines, ("", "")]


def failing_parts(groups: Sequence[Failing]) -> list[Part]:
    """Return the worst groups for a pull request, and the others folded.

    Args:
        groups: the gravest first.
    """
    if not groups:
        return []
    if len(groups) == 1 and groups[0].whole:
        return ["#### Failures", fenced(groups[0].whole)]
    count = sum(len(group.findings) for group in groups)
    counted = f"{plural(count, 'result')}, " if count else ""
    parts: list[Part] = [f"#### Failures: {counted}{plural(len(groups), 'group')}"]
    items = (text for number, group in enumerate(groups[:WORST], 1) for text in _item(number, group))
    parts.append("\n".join(items))
    others = [
        f"- **{shortly(group.title)}**" + (f": {shortly(group.likely)}" if group.likely else "")
        for group in groups[WORST:]
    ]
    if others:
        parts.append(Rows(title=plural(len(others), "more group"), rows=others, folded=True))
    return parts


def problem_parts(problems: Sequence[Problem]) -> list[Part]:
    """What could not be looked at, the first ones, for a pull request."""
    lines = [f"- {escaped(f'problem: {problem.pair}: {problem.message}')}" for problem in problems[:_PROBLEMS]]
    if len(problems) > _PROBLEMS:
        lines.append(f"- and {plural(len(problems) - _PROBLEMS, 'more problem')}")
    return ["\n".join(lines)] if lines else []


def _item(number: int, group: Failing) -> list[str]:
    only = "".join(f"; {escaped(text)}" for text in group.only)
    lines = [f"{number}. **{shortly(group.title)}**{only}"]
    lines += [f"   - likely: {shortly(group.likely)}"] if group.likely else []
    example = "; ".join(group.example.splitlines())
    place = "; ".join(filter(None, (shortly(group.where), example and f"example: {shortly(example)}")))
    lines += [f"   - where: {place}"] if place else []
    shown = group.next_command and "`" not in group.next_command
    return [*lines, *([f"   - `{group.next_command}`"] if shown else [])]


def shortly(text: str) -> str:
    """Return a text of limited length in plain words."""
    return escaped(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")
