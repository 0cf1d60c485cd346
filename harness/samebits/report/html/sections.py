"""Prints pages as one HTML file that requests nothing from a network. Jinja2, which escapes all, is used here alone."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from samebits.errors import RequestError
from samebits.report.html.charts import bundle
from samebits.report.page import Page, Paged, Table, charts_of
from samebits.report.words import State, plural, typed

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@dataclass(frozen=True, kw_only=True)
class Section:
    """The page of one document as a part of an HTML file.

    A body has no `id` attributes, since a file may show two documents of one command: scripts find their elements by
    classes and `data-` attributes inside the section.

    Args:
        source: the file that the document was read from; None where there is none.
        id: the section's name in the address, which differs from that of others.
    """

    page: Page
    source: str | None = None
    id: str = ""

    @property
    def title(self) -> str:
        """Return how the navigation names it."""
        return self.page.title or self.page.command

    @functools.cached_property
    def body(self) -> Markup:
        """Print the blocks."""
        return render("blocks.html.j2", page=self.page)

    @functools.cached_property
    def charts(self) -> Mapping[str, Mapping[str, Any]]:
        """Draw the charts, by the names that `data-chart` attributes of the body give."""
        return charts_of([*self.page.live, *self.page.blocks])


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
    """Return a template of `templates/` with values, which are escaped."""
    from markupsafe import Markup

    return Markup(_environment().get_template(template).render(values))


def static(name: str) -> str:
    """Return the text of a file of `static/`."""
    return (_FOLDER / "static" / name).read_text(encoding="utf-8")


def script_json(value: object) -> Markup:
    """Write a value as JSON for a script element: nothing in it ends the element or opens a comment."""
    from markupsafe import Markup

    return Markup(msgspec.json.encode(value).decode().translate(_IN_SCRIPTS))


def prose(text: object) -> Markup:
    """Return a text in which what stands in backticks is code; all of it is escaped."""
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


_SCRIPTS = ("page.js", "theme.js")
_CHART_SCRIPTS = ("charts.js",)
_STYLES = ("page.css", "parts.css", "blocks.css")
_MOST_TABS = 6
"""With more documents, their list unfolds: tabs would push what failed off the first screen."""

_NAMED = 3
"""How many commands the title of a page names."""


def section_of(document: object, source: str | None = None) -> Section:
    """Return the section of a document of any command."""
    if not isinstance(document, Paged):
        command = getattr(document, "command", type(document).__name__)
        raise RequestError(f"a document of `{typed(command)}` has no HTML page; --json FILE writes all of it")
    return Section(page=document.page(), source=source)


def page_of(sections: Iterable[Section]) -> str:
    """Return one page of sections, called after their commands."""
    sections = list(sections)
    commands = [*dict.fromkeys(typed(section.page.command).removeprefix("samebits ") for section in sections)]
    return html_page(sections, f"samebits {', '.join(commands)}" if len(commands) <= _NAMED else "samebits")


def html_page(sections: Iterable[Section], title: str) -> str:
    """Return a whole page."""
    from markupsafe import Markup

    ordered = _numbered(sorted(sections, key=lambda section: get_args(State).index(section.page.state)))
    scripts = [Markup(text) for text in _scripts(ordered)]
    titles, states = Counter(section.title for section in ordered), Counter(section.page.state for section in ordered)
    page = render(
        "page.html.j2",
        title=title,
        sections=ordered,
        most_tabs=_MOST_TABS,
        doubled={name for name, count in titles.items() if count > 1},
        counts=", ".join(f"{states[state]} {state}" for state in get_args(State) if states[state]),
        styles=[Markup(static(name)) for name in _distinct(_STYLES, *(section.page.styles for section in ordered))],
        scripts=scripts,
        policy=_policy(scripts),
        embedded={section.id: _embedded(section) for section in ordered},
    )
    return str(page)


def _scripts(sections: Sequence[Section]) -> list[str]:
    charts = any(section.charts for section in sections)
    names = _distinct(_SCRIPTS, _CHART_SCRIPTS if charts else (), *(section.page.scripts for section in sections))
    return [*([bundle()] if charts else []), *(static(name) for name in names), "samebits.start();"]


def _policy(scripts: Iterable[str]) -> str:
    """Write the Content-Security-Policy: only these very scripts run, and nothing is requested from anywhere."""
    digests = (base64.b64encode(hashlib.sha256(_as_parsed(text)).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _as_parsed(text: str) -> bytes:
    """Return the text of a script as a browser has it after parsing, of which it takes the digest."""
    return text.replace("\r\n", "\n").replace("\r", "\n").encode()


def _embedded(section: Section) -> dict[str, object]:
    data: dict[str, object] = {f"data:{name}": script_json(value) for name, value in section.page.data().items()}
    if section.charts:
        data["charts"] = script_json(section.charts)
    return data


def _numbered(sections: Iterable[Section]) -> list[Section]:
    """Return every section with an id of its own."""
    seen: Counter[str] = Counter()
    numbered = []
    for section in sections:
        name = section.page.command.replace(" ", "-")
        seen[name] += 1
        numbered.append(replace(section, id=name if seen[name] == 1 else f"{name}-{seen[name]}"))
    return numbered


def _distinct(*names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for group in names for name in group))
