"""What a command found, once, as a page of few blocks; the printers for a terminal, Markdown and HTML know no command.

A block that only one printer can show, such as a chart, is left out by the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from samebits.host.environment import Environment
from samebits.report.words import State, problems_sentence
from samebits.schema.finding import Finding
from samebits.schema.result import Problem

Tone = Literal["", "good", "warn", "bad", "dim", "strong"]
"""How a text stands out: as green, yellow and red, or as less or more important than others."""

Medium = Literal["terminal", "markdown", "html"]

EVERYWHERE: tuple[Medium, ...] = ("terminal", "markdown", "html")


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """A word with a sign, so that colour is never the only difference.

    Args:
        text: the word, such as a verdict.
        sign: one character; terminal and Markdown leave it out.
    """

    text: str
    sign: str
    tone: Tone = ""


Cell = str | Badge | tuple[Badge, ...]
"""A text, a badge, or several badges, such as verdicts with their counts."""


def cell_text(cell: Cell) -> str:
    """Return a cell in words."""
    if isinstance(cell, tuple):
        return ", ".join(badge.text for badge in cell)
    return cell.text if isinstance(cell, Badge) else cell


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shown:
    """What all blocks have."""

    media: tuple[Medium, ...] = EVERYWHERE


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text.

    Args:
        text: in which backticks enclose code.
        tone: how it stands out.
        sign: shown before it in HTML.
    """

    text: str
    tone: Tone = ""
    sign: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines(_Shown):
    """Lines below each other.

    Args:
        lines: each a text or a `Line`; an empty one is a blank line in a terminal, and nothing elsewhere.
        listed: whether they are points of a list; else each is a paragraph.
        indent: blanks before each in a terminal.
        cut: rows of a terminal that each takes at most; 0 for as many as it needs.
        short: as of a table.
    """

    lines: Sequence[str | Line]
    title: str = ""
    listed: bool = True
    indent: int = 0
    cut: int = 0
    short: Block | None = None

    def said(self) -> list[Line]:
        """Return the lines, each with its tone."""
        return [each if isinstance(each, Line) else Line(each) for each in self.lines]


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueList(_Shown):
    """Names with their values; those without a value are left out.

    Args:
        indent: blanks before each in a terminal.
        least: characters that a name takes there at least, so that several such lists are aligned.
    """

    rows: Sequence[tuple[str, str | None]]
    indent: int = 2
    least: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Table(_Shown):
    """A table.

    Args:
        caption: what it shows, in HTML; the title by default.
        bad: numbers of the rows that need attention: red, and not cut before others.
        right: heads of the columns of numbers.
        wide: heads of the columns of long texts.
        most: characters of a wide cell in a terminal.
        not_in_terminal: heads of the columns that a terminal has no room for.
        least: characters of each column there at least, so that several tables are aligned.
        details: below a row, by its number: folded in HTML, listed below the table elsewhere where the row is bad.
        short: what a terminal shows in its place where it does not fit on one screen; it may have a short form too.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    caption: str = ""
    bad: Collection[int] = ()
    right: Collection[str] = ()
    wide: Collection[str] = ()
    most: int | None = None
    not_in_terminal: Collection[str] = ()
    least: Sequence[int] = ()
    details: Mapping[int, Fold] = field(default_factory=dict)
    short: Block | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold(_Shown):
    """Blocks below a title, which HTML may fold.

    Args:
        open: whether HTML shows them unfolded.
        state: what they come to; shown beside the title in HTML.
        short: as of a table.
    """

    title: str
    blocks: Sequence[Block]
    open: bool = False
    state: State | None = None
    short: Block | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside(_Shown):
    """Blocks beside each other where the window is wide enough.

    Args:
        blocks: charts first.
    """

    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandLine(_Shown):
    """A command to copy.

    Args:
        label: what it does, such as `next` or `run`.
    """

    text: str
    label: str = "run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart(_Shown):
    """A Vega-Lite chart, in HTML alone.

    Args:
        name: of its specification, among those of the page.
        label: what it shows, and where the same numbers are as text.
        draw: makes the specification, with a library that nothing else needs.
    """

    name: str
    label: str
    draw: Callable[[], Mapping[str, Any]]
    media: tuple[Medium, ...] = ("html",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Code(_Shown):
    """Lines as they are, such as a patch.

    Args:
        language: `diff` marks what is added and removed.
        most: lines in a terminal.
    """

    lines: Sequence[str]
    title: str = ""
    language: str = ""
    most: int = 40

    def marked(self) -> list[tuple[str, str]]:
        """Return each line after `added`, `removed` or nothing."""
        marks = {"+": "added", "-": "removed"} if self.language == "diff" else {}
        return [("" if line[:3] in ("+++", "---") else marks.get(line[:1], ""), line) for line in self.lines]


def first_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines, and how many more there are."""
    return [*lines] if len(lines) <= most else [*lines[:most], f"... {len(lines) - most} more lines; all in --json"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypertext(_Shown):
    """HTML of a template, for what no other block can show, such as what scripts make interactive.

    Args:
        draw: makes the HTML, with a library that nothing else needs.
    """

    draw: Callable[[], str]
    media: tuple[Medium, ...] = ("html",)


Block = Lines | ValueList | Table | Fold | Beside | CommandLine | Chart | Code | Hypertext


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
    """Return what to type first."""
    return next((group.next_command for group in groups if group.next_command), None)


def failing_sentence(groups: Sequence[Failing]) -> str:
    """Say what fails, and where; nothing where nothing does."""
    if not groups:
        return ""
    first, by = groups[0], f"{len(groups)} causes; the gravest: " if len(groups) > 1 else ""
    if first.kind == "alike" and first.example:
        return "; ".join(filter(None, (f"{by}{first.title}", f"first {first.example}", first.likely)))
    where, why = f" ({first.where})" if first.where else "", first.likely or first.example
    return f"{by}{first.title}{where}" + (f"; {why}" if why else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What a command found.

    Args:
        command: that found it, such as `check` or `compile model`; scripts start by it.
        state: what the run comes to.
        word: the same in the command's own words, such as `as declared`; the state by default.
        closing: one sentence for all of it, with counts.
        live: blocks that come before them, and that a terminal has shown while the command ran.
        failing: the groups of what fails, the gravest first.
        problems: what could not be looked at.
        command_next: what to run next; that of the first failing group by default.
        title: as the navigation of a page in HTML names it; the command by default.
        heading: what stands after the name of the tool in Markdown; the command by default.
        explained: whether the blocks explain what fails, so that no printer repeats it.
        each: every row that fails, as a terminal shows them in place of their groups where it shows everything.
        hint: how a terminal shows all of it, where it does not fit on one screen.
        scripts, styles: files of `static/` that HTML needs besides those of every page.
        data: makes what scripts read, as JSON values by name.
    """

    command: str
    state: State
    closing: str
    word: str = ""
    blocks: Sequence[Block] = ()
    live: Sequence[Block] = ()
    failing: Sequence[Failing] = ()
    problems: Sequence[Problem] = ()
    command_next: str | None = None
    notes: Sequence[str] = ()
    environment: Environment | None = None
    title: str = ""
    heading: str = ""
    explained: bool = False
    each: Sequence[Block] = ()
    hint: str = ""
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    data: Callable[[], Mapping[str, object]] = dict

    @property
    def headline(self) -> str:
        """Return what broke, and where, in one sentence; else the problems, or the closing sentence."""
        problems = problems_sentence(self.problems) if self.problems else ""
        return failing_sentence(self.failing) or problems or self.closing

    @property
    def next(self) -> str | None:
        """Return what to run next; None where nothing is left to do."""
        return self.command_next or next_command(self.failing)


@runtime_checkable
class Paged(Protocol):
    """A document that describes itself."""

    def page(self) -> Page:
        """Return what is shown of it."""
        ...


def charts_of(blocks: Sequence[Block]) -> dict[str, Mapping[str, Any]]:
    """Draw all charts of blocks, by name."""
    drawn: dict[str, Mapping[str, Any]] = {}
    for block in blocks:
        if isinstance(block, Chart):
            drawn[block.name] = block.draw()
        elif isinstance(block, (Fold, Beside)):
            drawn |= charts_of(block.blocks)
    return drawn
