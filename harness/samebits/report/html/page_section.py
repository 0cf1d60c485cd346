"""Prints a page as HTML: the part of a file that one document fills."""

from __future__ import annotations

from samebits.report.html.section import Section, render
from samebits.report.page import Page, charts_of
from samebits.report.words import problems_sentence


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
