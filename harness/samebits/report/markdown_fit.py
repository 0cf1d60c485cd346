"""Markdown of at most so many lines: tables and lists are folded and cut, rows that need attention first."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from samebits.report.words import plural

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
        rows: the lines below.
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
        """The lines of this part.

        Args:
            most: how many rows; all of them if None.
            folded: whether it is folded, unless a row needs attention.
        """
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
    """The parts as Markdown, with a blank line between them, on at most so many lines.

    Args:
        parts: texts, which stay as they are, and tables and lists, which are folded and cut where that is needed.
        most: lines of the whole.
    """
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
    """The texts by their place, and how many are left out because they alone are too long."""
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
    """A part on at most so many lines, a blank line before it included; None where nothing of use fits."""
    for most in range(len(part.rows), 0, -1):
        lines = part.lines(most, folded=True)
        if len(lines) + 1 <= room:
            return lines if most >= min(_FEWEST, len(part.rows)) else None
    return None


def _height(parts: Sequence[Sequence[str]]) -> int:
    """How many lines parts take, with a blank line between every two."""
    return sum(len(part) for part in parts) + max(len(parts) - 1, 0)


def _text(parts: Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def table_rows(title: str, head: Sequence[str], body: Sequence[Sequence[str]], bad: Collection[int] = ()) -> Rows:
    """A table that may be folded and cut.

    Args:
        title: what stands above it.
        head: names of the columns.
        body: the cells.
        bad: numbers of the rows that need attention.
    """
    lines = markdown_table(head, body).splitlines()
    return Rows(title=escaped(title), head=lines[:2], rows=lines[2:], bad=frozenset(bad))


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table, every cell in plain words."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(escaped(cell) for cell in line) + " |" for line in lines)


def escaped(text: str) -> str:
    """Plain words: what GitHub would read as markup is escaped, and a cell stays on one line."""
    text = " ".join(text.split())
    for sign in "\\|<>*`[]":
        text = text.replace(sign, f"\\{sign}")
    return text


def fenced(lines: Sequence[str], language: str = "") -> str:
    """Lines as they are, in a fence longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *lines, fence])
