"""The pages that people read, the fenced blocks in them, and the commands that they name."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import main
from tests.support.invoke import REPOSITORY

README = REPOSITORY / "README.md"
DOCS = REPOSITORY / "docs"
PAGES = (README, REPOSITORY / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))

PYTEST_OPTIONS = {
    "--samebits-assumptions",
    "--samebits-devices",
    "--samebits-distributed",
    "--samebits-full",
    "--samebits-no-assumptions",
    "--samebits-no-skips",
    "--report-html",
    "--dist",
    "--junitxml",
}
OTHER_OPTIONS = PYTEST_OPTIONS | {"--help", "--xla_cpu_max_isa", "--whole", "--version"}
"""Options that pages name and that belong to another program, or to every command."""

_BLOCK = re.compile(r"^((?:<!-- .*? -->\n)*)```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (.*?) -->")


def name_of(page: Path) -> str:
    """A page as a test names it: its path in the repository."""
    return str(page.relative_to(REPOSITORY)) if page.is_relative_to(REPOSITORY) else page.name


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[str, ...] = ()

    @property
    def file(self) -> str | None:
        """The path in the first line of a Python block that is a file."""
        found = re.match(r"# (\S+\.py)\n", self.text)
        return found[1] if found and self.language == "python" else None

    def mark(self, word: str) -> str | None:
        """What a mark such as `<!-- run: exit 1 -->` says behind its word; None without such a mark."""
        for mark in self.marks:
            first, _, rest = mark.partition(":")
            if first == word:
                return rest.strip()
        return None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(text: str, page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(page, text.count("\n", 0, m.start(2)) + 1, m[2].strip(), m[3], tuple(_MARK.findall(m[1])))
        for m in _BLOCK.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """The fenced blocks of all pages."""
    return [block for page in PAGES for block in blocks(page.read_text(encoding="utf-8"), name_of(page))]


def console_commands(text: str) -> Iterator[list[str]]:
    """The words of each `samebits` command of a console or shell block, without `samebits`."""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        found = re.fullmatch(r"(?:\$ )?(?:\.venv/bin/)?samebits (.*)", line)
        if found:
            yield shlex.split(found[1], comments=True)


def inline_commands(text: str) -> Iterator[list[str]]:
    """The words of each `samebits ...` in backticks, without `samebits`."""
    prose = _BLOCK.sub("", text)
    for found in re.finditer(r"`samebits\s+([^`]+)`", prose):
        yield " ".join(found[1].split()).split(" ")


def inline_options(text: str) -> Iterator[str]:
    """Each option in backticks that stands alone, such as `--shake`."""
    yield from re.findall(r"`(--[a-z][\w-]*)[^`]*`", _BLOCK.sub("", text))


def rejected(words: list[str]) -> str | None:
    """What click says against a whole command line; None where it is accepted. Nothing runs."""
    command, context = _command(words)
    rest = words[_depth(words) :]
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        return f"samebits {' '.join(words)}: No such command '{rest[0]}'"
    try:
        command.make_context("samebits", rest, parent=context)
    except click.exceptions.Exit:
        return None  # --help
    except click.ClickException as error:
        return f"samebits {' '.join(words)}: {error.format_message()}"
    return None


def unknown_words(words: list[str]) -> list[str]:
    """The command, and the options of a command line in prose, that do not exist; values may be placeholders."""
    if not words[0].islower():  # `samebits COMMAND --help`
        return []
    if words[0] not in main.commands and not words[0].startswith("--"):
        return [words[0]]
    command, _ = _command(words)
    rest = words[_depth(words) :]
    if isinstance(command, click.Group) and rest and re.fullmatch("[a-z]+", rest[0]):
        return [rest[0]]
    known = {name for parameter in command.params for name in parameter.opts}
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in known | {"--", "--help"}]


def known_options() -> set[str]:
    """Every option of every command."""
    found, waiting = set(), [main, *main.commands.values()]
    while waiting:
        command = waiting.pop()
        found |= {name for parameter in command.params for name in parameter.opts}
        waiting += list(getattr(command, "commands", {}).values()) if command is not main else []
    return found


def _depth(words: list[str]) -> int:
    group: click.Command = main
    depth = 0
    for word in words:
        if not isinstance(group, click.Group) or word not in group.commands:
            break
        group, depth = group.commands[word], depth + 1
    return depth


def _command(words: list[str]) -> tuple[click.Command, click.Context]:
    command: click.Command = main
    for word in words[: _depth(words)]:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    return command, click.Context(main, info_name="samebits")
