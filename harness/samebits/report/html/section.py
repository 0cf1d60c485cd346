"""Prints a page as HTML: the part of a file that one document fills. Jinja2, which escapes all, is used here alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from samebits.report.page import Page, Table, charts_of
from samebits.report.words import State, plural, problems_sentence

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@dataclass(frozen=True, kw_only=True)
class Section:
    """One document as a part of a page.

    A body has no `id` attributes, since a page may show two documents of one command: scripts find their elements
    by classes and `data-` attributes inside the section.

    Args:
        command: of the document, such as `check` or `compile model`; scripts start by it.
        state: what the run comes to.
        headline: what broke, and where, in one sentence.
        next_command: what to run next; None where nothing is left to do.
        body: HTML from a template.
        charts: Vega-Lite specifications by the names that `data-chart` attributes of the body give.
        data: what the scripts read, as JSON values by name.
        scripts, styles: files of `static/` that the section needs besides those of every page.
        source: the file that the document was read from; None where there is none.
        id: the section's name in the page's address, by default of the command; the page numbers those that come twice.
        title: as the navigation names it; the command by default.
    """

    command: str
    state: State
    headline: str
    next_command: str | None
    body: Markup
    charts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    source: str | None = None
    id: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.id or self.command.replace(" ", "-"))
        object.__setattr__(self, "title", self.title or self.command)


def page_section(page: Page) -> Section:
    """Return a page as the section of an HTML file.

    Args:
        page: what a command found.
    """
    headline = page.headline or (problems_sentence(page.problems) if page.problems else page.closing)
    return Section(
        command=page.command,
        state=page.state,
        headline=headline,
        next_command=page.next,
        body=render("blocks.html.j2", page=page, headline=headline),
        charts=charts_of([*page.live, *page.blocks]),
        data=page.data(),
        scripts=page.scripts,
        styles=("blocks.css", *page.styles),
        title=page.title,
    )


_FOLDER = Path(__file__).parent

SIGNS = {
    "proved": "◆",
    "bitwise": "=",
    "rounding": "≈",
    "refused": "⊘",
    "different": "≠",
    "unstable": "~",
    "error": "!",
    "skipped": "–",  # noqa: RUF001  an en dash is the sign
}
"""The sign of each verdict: colour is never the only one."""

STATE_SIGNS = {"failed": "✗", "incomplete": "…", "passed": "✓"}

_CODE = re.compile("`([^`]+)`")

_IN_SCRIPTS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def render(template: str, **values: Any) -> Markup:
    """A template of `templates/` with values, which are escaped.

    Args:
        template: the name of the file.
        values: by the names that the template uses.
    """
    from markupsafe import Markup

    return Markup(_environment().get_template(template).render(values))


def static(name: str) -> str:
    """The text of a file of `static/`."""
    return (_FOLDER / "static" / name).read_text(encoding="utf-8")


def script_json(value: object) -> Markup:
    """A value as JSON that may stand inside a script element: nothing in it ends the element or opens a comment."""
    from markupsafe import Markup

    return Markup(msgspec.json.encode(value).decode().translate(_IN_SCRIPTS))


def prose(text: object) -> Markup:
    """A text in which what stands in backticks is code; all of it is escaped.

    Args:
        text: of a sentence, such as a reason or a message; markup stays as it is.
    """
    from markupsafe import Markup, escape

    if isinstance(text, Markup):
        return text
    parts = _CODE.split(str(text))  # every second one stood in backticks
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def _kind_of(block: object) -> str:
    return type(block).__name__


def _marks(block: Table, head: str) -> Markup | str:
    """Return the class of the cells below a head."""
    from markupsafe import Markup

    name = "number" if head in block.right else "wide" if head in block.wide else ""
    return Markup(' class="{}"').format(name) if name else ""


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(signs=SIGNS, state_signs=STATE_SIGNS, plural=plural, kind_of=_kind_of, marks=_marks)
    environment.filters.update(script_json=script_json, prose=prose)
    return environment
