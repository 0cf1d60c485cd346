"""Makes pages: a section for each document, by its command, in one file that requests nothing from a network."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import get_args

from samebits.errors import RequestError
from samebits.report.html.charts import bundle
from samebits.report.html.section import Section, page_section, render, script_json, static
from samebits.report.page import Paged
from samebits.report.words import State, typed

_SCRIPTS = ("page.js", "theme.js")
_CHART_SCRIPTS = ("charts.js",)
_STYLES = ("page.css", "parts.css")
_MOST_TABS = 6
"""With more documents, their list unfolds: tabs would push what failed off the first screen."""

_NAMED = 3
"""How many commands the title of a page names."""


def section_of(document: object, source: str | None = None) -> Section:
    """The section of a document of any command.

    Args:
        document: what a command found.
        source: the file that it was read from; None where there is none.

    Raises:
        RequestError: the documents of this command have no page.
    """
    if not isinstance(document, Paged):
        command = getattr(document, "command", type(document).__name__)
        raise RequestError(f"a document of `{typed(command)}` has no HTML page; --json FILE writes all of it")
    return replace(page_section(document.page()), source=source)


def page_of(sections: Iterable[Section]) -> str:
    """One page of sections, called after their commands."""
    sections = list(sections)
    commands = [*dict.fromkeys(typed(section.command).removeprefix("samebits ") for section in sections)]
    return html_page(sections, f"samebits {', '.join(commands)}" if len(commands) <= _NAMED else "samebits")


def html_page(sections: Iterable[Section], title: str) -> str:
    """A whole page.

    Args:
        sections: at least one; those that failed are shown first.
        title: of the page.

    Returns:
        The text of an HTML file that needs no other file and no network.
    """
    from markupsafe import Markup

    ordered = _numbered(sorted(sections, key=lambda section: get_args(State).index(section.state)))
    scripts = [Markup(text) for text in _scripts(ordered)]
    titles, states = Counter(section.title for section in ordered), Counter(section.state for section in ordered)
    page = render(
        "page.html.j2",
        title=title,
        sections=ordered,
        most_tabs=_MOST_TABS,
        doubled={name for name, count in titles.items() if count > 1},
        counts=", ".join(f"{states[state]} {state}" for state in get_args(State) if states[state]),
        styles=[Markup(static(name)) for name in _distinct(_STYLES, *(section.styles for section in ordered))],
        scripts=scripts,
        policy=_policy(scripts),
        embedded={section.id: _embedded(section) for section in ordered},
    )
    return str(page)


def _scripts(sections: Sequence[Section]) -> list[str]:
    charts = any(section.charts for section in sections)
    names = _distinct(_SCRIPTS, _CHART_SCRIPTS if charts else (), *(section.scripts for section in sections))
    return [*([bundle()] if charts else []), *(static(name) for name in names), "samebits.start();"]


def _policy(scripts: Iterable[str]) -> str:
    """The page's Content-Security-Policy: only these very scripts run, and nothing is requested from anywhere."""
    digests = (base64.b64encode(hashlib.sha256(_as_parsed(text)).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _as_parsed(text: str) -> bytes:
    """The text of a script as a browser has it after parsing, of which it takes the digest."""
    return text.replace("\r\n", "\n").replace("\r", "\n").encode()


def _embedded(section: Section) -> dict[str, object]:
    data: dict[str, object] = {f"data:{name}": script_json(value) for name, value in section.data.items()}
    if section.charts:
        data["charts"] = script_json(section.charts)
    return data


def _numbered(sections: Iterable[Section]) -> list[Section]:
    """Every section with an id of its own."""
    seen: Counter[str] = Counter()
    numbered = []
    for section in sections:
        seen[section.id] += 1
        count = seen[section.id]
        numbered.append(section if count == 1 else replace(section, id=f"{section.id}-{count}"))
    return numbered


def _distinct(*names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for group in names for name in group))
