"""README and docs: links lead somewhere, pages are reachable, and every command and option that they name exists."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from samebits.cli import main
from tests.project.pages import (
    DOCS,
    OTHER_OPTIONS,
    PAGES,
    README,
    all_blocks,
    blocks,
    console_commands,
    inline_commands,
    inline_options,
    known_options,
    name_of,
    rejected,
    unknown_words,
)
from tests.support.invoke import REPOSITORY

GENERATED = {"index.md", "changelog.md", "contributing.md", "reference/json.md"}
"""Pages that `docs/hooks.py` makes from other files; the build of the site shows that they exist."""


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
        to = (page.parent / file).resolve() if file else page
        if to.is_relative_to(DOCS) and str(to.relative_to(DOCS)) in GENERATED:
            continue
        if not to.is_file():
            broken.append(link)
        elif heading:
            headings = re.findall(r"^#+ (.*)$", to.read_text(encoding="utf-8"), re.MULTILINE)
            if heading not in map(anchor, headings):
                broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Two commands\n[a](page.md#two-commands) [b](page.md#three) [c](gone.md) [d](https://x.org/y)\n")
    assert broken_links(page) == ["page.md#three", "gone.md"]


def pages_of(navigation: object) -> set[str]:
    """The pages that a navigation of mkdocs names."""
    if isinstance(navigation, str):
        return {navigation}
    parts = navigation.values() if isinstance(navigation, dict) else navigation
    assert isinstance(parts, Iterable)
    return {page for part in parts for page in pages_of(part)}


def test_the_navigation_has_every_page() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    written = {str(page.relative_to(DOCS)) for page in PAGES if page.is_relative_to(DOCS)}
    assert pages_of(yaml.safe_load(text)["nav"]) == written | GENERATED
    assert pages_of([{"Home": "index.md"}, {"Guides": [{"A": "a.md"}, "b.md"]}]) == {"index.md", "a.md", "b.md"}


# --- commands --------------------------------------------------------------------------------------------------------


def other_commands(table: str, known: Iterable[str]) -> set[str]:
    """Commands that a table names and the command line lacks, and the other way round."""
    named = set()
    for row in re.findall(r"^\| (`samebits .*?) \|", table, re.MULTILINE):
        named |= {words.removeprefix("samebits ").split()[0] for words in re.findall(r"`([^`]+)`", row)}
    return named ^ set(known)


def test_the_table_names_every_command() -> None:
    assert other_commands(README.read_text(encoding="utf-8"), main.commands) == set()


def test_a_missing_and_an_invented_command_are_found() -> None:
    assert other_commands("| `samebits check [PAIR]...`, `chek` | x |", ["check", "prove"]) == {"chek", "prove"}


def wrong_commands(text: str, page: str) -> list[str]:
    """Commands of a page that click rejects, and options in its prose that no command has."""
    shown = [block.text for block in blocks(text, page) if block.language in ("console", "sh", "text", "")]
    wrong = [said for block in shown for words in console_commands(block) if (said := rejected(words))]
    wrong += [f"samebits {' '.join(words)}: {name}" for words in inline_commands(text) for name in unknown_words(words)]
    return wrong + [name for name in inline_options(text) if name not in known_options() | OTHER_OPTIONS]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_is_accepted(page: Path) -> None:
    assert wrong_commands(page.read_text(encoding="utf-8"), name_of(page)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ samebits check --chake\n```\n", "No such option"),
        ("```sh\nsamebits bisect pears --config x\n```\n", "No such command"),
        ("```\nsamebits check --chake\n```\n", "No such option"),
        ("```console\n$ samebits check --repeat 1\n```\n", "--repeat"),
        ("Use `samebits chek rope` first.", "samebits chek rope: chek"),
        ("Use `samebits audit fault norm` first.", "samebits audit fault norm: fault"),
        ("Use `samebits check\n--ful` then.", "samebits check --ful: --ful"),
        ("With `--ful` it runs everything.", "--ful"),
    ],
)
def test_a_wrong_command_is_found(text: str, message: str) -> None:
    assert message in "\n".join(wrong_commands(text, "page.md"))


def test_pages_show_commands() -> None:
    """The test above is not empty."""
    shown = [words for block in all_blocks() if block.language == "console" for words in console_commands(block.text)]
    assert len(shown) >= 10


# --- the performance page --------------------------------------------------------------------------------------------


def unnamed_benchmarks(page: str, makefile: str, scripts: Iterable[str]) -> list[str]:
    """Benchmarks that the page does not name or `make bench` does not run, and named ones that do not exist."""
    named = set(re.findall(r"`python benchmarks/(\w+)\.py", page))
    recipe = re.search(r"^bench:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    run = set(re.findall(r"benchmarks/(\w+)\.py", recipe[1] if recipe else ""))
    wrong = [f"{name}: the page does not name it" for name in sorted({*scripts} - named)]
    wrong += [f"{name}: make bench does not run it" for name in sorted({*scripts} - run)]
    return wrong + [f"{name}: there is no such benchmark" for name in sorted((named | run) - {*scripts})]


def test_each_number_has_a_command_that_make_bench_runs() -> None:
    scripts = [file.stem for file in (REPOSITORY / "benchmarks").glob("*.py") if file.stem != "plain_suite"]
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert unnamed_benchmarks(page, (REPOSITORY / "Makefile").read_text(encoding="utf-8"), scripts) == []


def test_a_benchmark_that_nothing_names_is_found() -> None:
    makefile = "bench: $(STAMP)  ## x\n\t$(BIN)/python benchmarks/sweep.py\n\t$(BIN)/python benchmarks/gone.py\n"
    assert unnamed_benchmarks("run `python benchmarks/sweep.py`", makefile, ["sweep", "bits"]) == [
        "bits: the page does not name it",
        "bits: make bench does not run it",
        "gone: there is no such benchmark",
    ]
