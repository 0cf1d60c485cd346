"""README, docs and changelog use the words of the field."""

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

IS_NO = re.compile(
    r"(?<![tT]here )\b(?:is|are|was) (?:none\b|"
    r"no (?!longer|better|more|less|worse|different|such|larger|smaller)[a-z]+)",
)
"""`X is no Y`, where the field writes `X is not a Y`."""

WRITTEN = [page for page in PAGES if not re.match(r"claims|compiled_jax|memory_in_scans", page.name)]
"""Pages that people write; the others are what commands wrote, with the words of the declarations."""


def unusual(text: str) -> list[str]:
    """The words of a page that have a better one; code does not count."""
    prose = re.sub(r"```.*?^```|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    found_no = [f"'{found[0]}': write 'is not a ...'" for found in IS_NO.finditer(prose)]
    return found_no + [f"'{found[0]}': write '{better}'" for word, better in INSTEAD.items()
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


def test_modules_say_what_something_is_not() -> None:
    """In messages, docstrings and comments."""
    found = []
    for path in sorted((REPOSITORY / "harness" / "samebits").rglob("*.py")):
        found += [f"{name_of(path)}: {match[0]}" for match in IS_NO.finditer(path.read_text(encoding="utf-8"))]
    assert found == []


def test_what_is_no_thing_is_found() -> None:
    text = "It is no size, and there is no other; it is no longer there, and is none."
    assert unusual(text) == ["'is no size': write 'is not a ...'", "'is none': write 'is not a ...'"]
