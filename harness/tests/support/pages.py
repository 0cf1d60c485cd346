"""The page of a document as each printer shows it."""

import io

from rich.console import Console

from samebits.report.markdown import markdown_page
from samebits.report.page import Paged
from samebits.report.terminal import show_page


def screen(document: Paged, *, width: int = 120, verbose: bool = False, live: bool = False) -> list[str]:
    """Return the lines of a terminal of so many columns."""
    file = io.StringIO()
    to = Console(
        file=file, width=width, force_terminal=True, color_system=None, markup=False, highlight=False, emoji=False
    )
    show_page(to, document.page(), verbose=verbose, live=live)
    return [text.rstrip() for text in file.getvalue().splitlines()]


def markdown(document: Paged, *, whole: bool = False) -> str:
    """Return the Markdown for a pull request, or all of it."""
    return markdown_page(document.page(), whole=whole)
