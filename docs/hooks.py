"""Pages of the site that other files of the repository hold: mkdocs asks for them when it lists the pages.

In: README.md, CONTRIBUTING.md, CHANGELOG.md, and the records of the JSON documents. Out: pages with the site's links.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from samebits.report.json_schema import SCHEMA_FILE, schema_page, schema_text

ROOT = Path(__file__).resolve().parent.parent
FROM_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files beside docs/, and the page that each becomes."""


def relinked(text: str) -> str:
    """The Markdown of a file beside docs/ with its links as they are inside docs/."""
    text = re.sub(r"\]\(docs/", "](", text)
    for file, page in FROM_ROOT.items():
        text = re.sub(rf"\]\({re.escape(file)}(?=[)#])", f"]({page}", text)
    return text


def _copy(file: str) -> Callable[[], str]:
    return lambda: relinked((ROOT / file).read_text(encoding="utf-8"))


GENERATED: dict[str, Callable[[], str]] = {
    **{page: _copy(file) for file, page in FROM_ROOT.items()},
    "reference/json.md": schema_page,
    f"reference/{SCHEMA_FILE}": schema_text,
}
"""Every page that is not a file in docs/, and what makes its text."""


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let Markdown inside of a fold be Markdown, as on GitHub: pages have what commands write."""
    return markdown.replace("\n<details>", "\n<details markdown>")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages to those found in docs/."""
    for name, made in GENERATED.items():
        files.append(File.generated(config, name, content=made()))
    return files
