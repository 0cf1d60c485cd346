"""The README and the pages of docs/: short, with links that lead somewhere, commands that exist, and code that runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from samebits.cli import main
from samebits.host import environment
from tests.support.invoke import REPOSITORY, samebits

environment.prepare()

README = REPOSITORY / "README.md"
PAGES = [README, REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
INTERNAL = {"lane"}
"""Commands that people do not type."""


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


# --- links -----------------------------------------------------------------------------------------------------------


def anchor(heading: str) -> str:
    """What GitHub makes of a heading: `## Two commands` becomes `two-commands`."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    """The relative links of a page whose file or heading does not exist."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, heading = link.partition("#")
        if "://" in link:
            continue
        to = page.parent / file if file else page
        if not to.is_file():
            broken.append(link)
        elif heading:
            headings = re.findall(r"^#+ (.*)$", to.read_text(encoding="utf-8"), re.MULTILINE)
            if heading not in map(anchor, headings):
                broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Two commands\n[a](page.md#two-commands) [b](page.md#three) [c](gone.md) [d](https://x.org/y)\n")
    assert broken_links(page) == ["page.md#three", "gone.md"]


def test_every_page_is_linked() -> None:
    linked = {link for page in PAGES for link in re.findall(r"\]\((?:docs/)?([\w.]+\.md)", page.read_text("utf-8"))}
    assert {page.name for page in PAGES if page.parent.name == "docs"} <= linked


# --- commands --------------------------------------------------------------------------------------------------------


def other_commands(table: str, known: Iterable[str]) -> set[str]:
    """Commands that a table names and the command line lacks, and the other way round."""
    named = set()
    for row in re.findall(r"^\| (`samebits .*?) \|", table, re.MULTILINE):
        named |= {words.removeprefix("samebits ").split()[0] for words in re.findall(r"`([^`]+)`", row)}
    return named ^ (set(known) - INTERNAL)


def test_the_table_names_every_command() -> None:
    assert other_commands(README.read_text(encoding="utf-8"), main.commands) == set()


def test_a_missing_and_an_invented_command_are_found() -> None:
    assert other_commands("| `samebits check [PAIR]...`, `chek` | x |", ["check", "prove"]) == {"chek", "prove"}


# --- code ------------------------------------------------------------------------------------------------------------


def write_files(text: str, root: Path) -> list[str]:
    """The Python blocks of a page that begin with a path, as files under `root`."""
    found = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", text, re.DOTALL)
    for name, code in found:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    return [name for name, _ in found]


@pytest.mark.parametrize("page", [README, REPOSITORY / "docs" / "your_own_pair.md"], ids=lambda page: page.name)
def test_the_pair_of_the_page_holds(page: Path, tmp_path: Path) -> None:
    names = write_files(page.read_text(encoding="utf-8"), tmp_path)
    assert names == ["reference_impls/rope.py", "optimized_impls/rope.py", "suites/test_rope.py"]
    ended = samebits("check", "rope", "--root", tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "rope" in ended.out and "all contracts hold" in ended.out


def test_a_fault_in_the_pair_of_the_readme_is_found(tmp_path: Path) -> None:
    write_files(README.read_text(encoding="utf-8"), tmp_path)
    file = tmp_path / "optimized_impls" / "rope.py"
    honest = file.read_text(encoding="utf-8")
    file.write_text(honest.replace("first * sin + second * cos", "first * sin - second * cos"), encoding="utf-8")
    assert file.read_text(encoding="utf-8") != honest
    ended = samebits("check", "rope", "--root", tmp_path)
    assert ended.code == 1
    assert "different" in ended.out
