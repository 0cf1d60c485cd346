"""Prints a page as Markdown for a pull request: at most 60 lines, tables and lists folded and cut, or all of it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from samebits.report.page import (
    Beside,
    Block,
    Code,
    CommandLine,
    Failing,
    Fold,
    Lines,
    Page,
    Table,
    ValueList,
    cell_text,
    next_command,
)
from samebits.report.words import TYPED, plural
from samebits.schema.result import Problem

LINES = 60
"""Lines of a report for a pull request at most, whatever it reports."""

_FEWEST = 4
"""Rows of a table that are worth its head."""

_FOLD = 4
"""Lines that folding adds: the summary, two blank lines, the end."""

_FENCED = 14
"""Lines of a fenced block at most, where not everything fits."""


_BAD = ("FAILS", "FAILED", "REFUTED", "problem:", "could not", "; expected")
"""What the rows of all commands say that need attention."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """A table or a list that may be folded and cut.

    Args:
        title: the heading, or what is seen of it while it is folded; already escaped.
        head: lines that stay, such as the head of a table.
        bad: numbers of the rows that need attention; they are not cut before others.
        folded: whether it is folded even where there is room; then it comes before others where there is little.
        opened: whether rows that need attention keep it from being folded.
    """

    title: str = ""
    head: Sequence[str] = ()
    rows: Sequence[str]
    bad: Collection[int] = field(default_factory=frozenset)
    folded: bool = False
    opened: bool = True

    def lines(self, most: int | None = None, *, folded: bool = False) -> list[str]:
        """Return the lines of this part, `most` rows at most; `folded` unless a row needs attention."""
        chosen, left = self.rows, 0
        if most is not None and most < len(self.rows):
            order = sorted(range(len(self.rows)), key=lambda number: (number not in self.bad, number))
            chosen = [self.rows[number] for number in sorted(order[: most - 1])]
            left = len(self.rows) - len(chosen)
        body = [*self.head, *chosen]
        more = [f"… and {plural(left, 'more row')}; `--json` writes all"] if left else []
        if more:
            more = ["", *more] if self.head else [f"- {more[0]}"]
        if self.folded or (folded and self.title and not (self.bad and self.opened)):
            summary = f"<details><summary>{self.title}</summary>"
            return [summary, "", *body, *more, "", "</details>"]
        return [*([f"#### {self.title}", ""] if self.title else []), *body, *more]


Part = str | Rows


def fitted(parts: Sequence[Part], most: int = LINES) -> str:
    """Return the parts as Markdown, with a blank line between them, on at most so many lines."""
    whole = [part.splitlines() if isinstance(part, str) else part.lines() for part in parts]
    if _height(whole) <= most:
        return _text(whole)
    chosen, dropped = _texts(parts, most)
    tables = [(place, part) for place, part in enumerate(parts) if isinstance(part, Rows) and part.rows]
    tables.sort(key=lambda entry: (not entry[1].folded, not entry[1].bad, entry[0]))
    left = most - _height(list(chosen.values())) - 2
    for number, (place, part) in enumerate(tables):
        share = max(left // min(len(tables) - number, 3), _FEWEST + len(part.head) + _FOLD + 3)
        lines = _within(part, min(share, left))
        if lines is None:
            dropped += 1
            continue
        chosen[place] = lines
        left -= len(lines) + 1
    listed = [chosen[place] for place in sorted(chosen)]
    if dropped:
        listed.append([f"{plural(dropped, 'more section')} in `--json`."])
    return _text(listed)


def unfitted(parts: Sequence[Part]) -> str:
    """Return all parts as Markdown, with each titled table or list folded unless a row needs attention."""
    texts: list[str] = []
    for part in parts:
        titled = isinstance(part, Rows) and part.title and not part.folded
        if isinstance(part, str) or not titled:
            texts.append(part if isinstance(part, str) else "\n".join(part.lines()))
        else:
            texts += [f"#### {part.title}", "\n".join(replace(part, title="").lines())]
    return "\n\n".join(_sections(texts)) + "\n"


def _sections(texts: Sequence[str]) -> list[str]:
    """Fold each title with the tables and lists below it."""
    shown: list[str] = []
    section: list[str] = []
    for text in [*texts, ""]:
        if section and text.startswith(("| ", "- ", "```")):
            section.append(text)
            continue
        shown += _section(section)
        section = [text] if re.fullmatch("#### .*", text) else []
        shown += [text] if text and not section else []
    return shown


def _section(texts: Sequence[str]) -> list[str]:
    """Fold the texts below a title; a title without texts, and what needs attention, stay as they are."""
    if len(texts) < 2 or any(word in text for text in texts for word in _BAD):
        return [*texts]
    return [folded(texts[0].removeprefix("#### "), *texts[1:])]


def folded(title: str, *texts: str) -> str:
    """Return texts that are seen only when their title is clicked; the title is escaped Markdown."""
    plain = re.sub(r"\\([\\|<>*`\[\]])", r"\1", title)  # a summary is HTML
    return "\n\n".join([f"<details>\n<summary>{html.escape(plain, quote=False)}</summary>", *texts, "</details>"])


def _texts(parts: Sequence[Part], most: int) -> tuple[dict[int, list[str]], int]:
    """Return the texts by their place, and how many are left out because they alone are too long."""
    chosen: dict[int, list[str]] = {}
    dropped = 0
    for place, part in enumerate(parts):
        if isinstance(part, str):
            lines = part.splitlines()
            if lines[0].startswith("```") and len(lines) > _FENCED:
                left = len(lines) - _FENCED + 1
                lines = [*lines[: _FENCED - 2], f"… {plural(left, 'more line')}", lines[-1]]
            if _height([*chosen.values(), lines]) + 2 <= most:
                chosen[place] = lines
            else:
                dropped += 1
    return chosen, dropped


def _within(part: Rows, room: int) -> list[str] | None:
    """Return a part on at most so many lines, a blank line before it included; None where nothing of use fits."""
    for most in range(len(part.rows), 0, -1):
        lines = part.lines(most, folded=True)
        if len(lines) + 1 <= room:
            return lines if most >= min(_FEWEST, len(part.rows)) else None
    return None


def _height(parts: Sequence[Sequence[str]]) -> int:
    """Return how many lines parts take, with a blank line between every two."""
    return sum(len(part) for part in parts) + max(len(parts) - 1, 0)


def _text(parts: Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def table_rows(title: str, head: Sequence[str], body: Sequence[Sequence[str]], bad: Collection[int] = ()) -> Rows:
    """Return a table that may be folded and cut."""
    lines = markdown_table(head, body).splitlines()
    return Rows(title=escaped(title), head=lines[:2], rows=lines[2:], bad=frozenset(bad))


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, every cell in plain words."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(escaped(cell) for cell in line) + " |" for line in lines)


def escaped(text: str) -> str:
    """Escape what GitHub would read as markup, on one line."""
    text = " ".join(text.split())
    for sign in "\\|<>*`[]":
        text = text.replace(sign, f"\\{sign}")
    return text


def fenced(lines: Sequence[str], language: str = "") -> str:
    """Return lines as they are, in a fence longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *lines, fence])


def markdown_page(page: Page, *, whole: bool = False) -> str:
    """Return a page as Markdown: what came out, what to run, the worst failures, then its blocks."""
    head = f"{page.heading or TYPED.get(page.command, page.command)}: {page.word or page.state}"
    groups = [] if page.explained else page.failing
    parts = opening(head, page.closing, groups, page.problems, page.next)
    if page.explained and page.failing:
        parts.insert(1, escaped(page.headline))
    parts += _every([*page.live, *page.blocks], whole)
    if page.notes:
        parts.append(Rows(title="Notes", rows=[f"- {escaped(note)}" for note in page.notes]))
    if page.environment is not None:
        parts.append(escaped("; ".join(page.environment.lines())))
    return unfitted(parts) if whole else fitted(parts)


def _lines(block: Lines, whole: bool) -> list[Part]:
    said = [each for each in block.said() if each.text]
    texts = [escaped(each.text) for each in said]
    bad = [number for number, each in enumerate(said) if each.tone == "bad"]
    if block.listed:
        rows = [f"- {text}" for text in texts]
        return [Rows(title=escaped(block.title), rows=rows, bad=frozenset(bad))] if rows else []
    return [*([f"#### {escaped(block.title)}"] if block.title else []), *texts]


def _values(block: ValueList, whole: bool) -> list[Part]:
    rows = [f"- {escaped(name)}: {escaped(value)}" for name, value in block.rows if value]
    return [Rows(rows=rows)] if rows else []


def _table(block: Table, whole: bool) -> list[Part]:
    if not block.rows:
        return []
    cells = [[cell_text(cell) for cell in row] for row in block.rows]
    table = table_rows(block.title, block.heads, cells, block.bad)
    parts: list[Part] = [replace(table, opened=False)]
    details = [block.details[number] for number in sorted(block.details) if whole or number in block.bad]
    return [*parts, *_every(details, whole)]


def _fold(block: Fold, whole: bool) -> list[Part]:
    parts, title = _every(block.blocks, whole), escaped(block.title)
    if title and parts and isinstance(parts[0], Rows) and not parts[0].title:
        return [replace(parts[0], title=title), *parts[1:]]  # may be folded with what it stands above
    return [*([f"#### {title}"] if title else []), *parts]


def _every(blocks: Sequence[Block], whole: bool) -> list[Part]:
    shown = [block for block in blocks if "markdown" in block.media]
    return [part for block in shown for part in _PRINTERS[type(block)](block, whole)]


def _code(block: Code, whole: bool) -> list[Part]:
    return [*([f"#### {escaped(block.title)}"] if block.title else []), fenced(block.lines, block.language)]


_PRINTERS: dict[type, Callable[..., list[Part]]] = {
    Lines: _lines,
    ValueList: _values,
    Table: _table,
    Fold: _fold,
    Beside: lambda block, whole: _every(block.blocks, whole),
    CommandLine: lambda block, whole: [fenced([block.text])],
    Code: _code,
}


# --- what fails

WORST = 5
"""Groups that are explained at most."""

_PROBLEMS = 3

LONGEST = 400
"""Characters of a text in Markdown."""


def opening(
    head: str,
    sentence: str,
    groups: Sequence[Failing],
    problems: Sequence[Problem] = (),
    command: str | None = None,
) -> list[Part]:
    """Return the beginning of a report for a pull request: what came out, what to type, the worst failures."""
    command = command or next_command(groups)
    parts: list[Part] = [f"### samebits {head}", escaped(sentence), *([] if command is None else [fenced([command])])]
    return [*parts, *problem_parts(problems), *failing_parts(groups)]


def failing_parts(groups: Sequence[Failing]) -> list[Part]:
    """Return the worst groups for a pull request, and the others folded."""
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
    """Return what could not be looked at, the first ones, for a pull request."""
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
