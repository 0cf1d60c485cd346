"""README, docs and changelog use the words of the field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.pages import PAGES, name_of
from tests.support.invoke import REPOSITORY

INSTEAD = {
    r"mended": "fixed",
    r"lanes?": "worker",
    r"look-ups?": "gather",
    r"whole numbers?": "integer",
    r"truth values?": "predicate",
    r"loop turns": "trip count",
    r"walk(?:s|ed|ing)?": "interpret, evaluate",
    r"real sizes?": "production shape",
    r"steers?": "index operand",
    r"(?:is|are) refused": "is rejected",
    r"nobody": "say it without a riddle",
    r"looks? on": "say it without personification",
    r"trusts?": "assume",
    r"the harness": "samebits",
}
"""What not to write, as a regular expression, and what to write; the table of the project's vocabulary."""


WRITTEN = [page for page in PAGES if not re.match(r"claims|compiled_jax|memory_in_scans", page.name)]
"""Pages that people write; the others are what commands wrote, with the words of the declarations."""


def unusual(text: str) -> list[str]:
    """The words of a page that have a better one; code does not count."""
    prose = re.sub(r"```.*?^```|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    return [f"'{found[0]}': write '{better}'" for word, better in INSTEAD.items()
            for found in re.finditer(rf"\b{word}\b", prose, re.IGNORECASE)]  # fmt: skip


@pytest.mark.parametrize("page", [*WRITTEN, REPOSITORY / "CHANGELOG.md"], ids=name_of)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    assert unusual(page.read_text(encoding="utf-8")) == []


def test_an_unusual_word_is_found() -> None:
    text = "The Harness walked\nall lanes. `lane` is code, and so is\n```sh\nsamebits walk\n```\nA walkthrough is not."
    assert unusual(text) == [
        "'lanes': write 'worker'",
        "'walked': write 'interpret, evaluate'",
        "'The Harness': write 'samebits'",
    ]
