"""A command that is gone names its successor, and ends as a wrong request does."""

from __future__ import annotations

import pytest

from samebits.cli import main
from samebits.cli.former_commands import FORMER
from tests.project.pages import inline_commands, unknown_words
from tests.support.invoke import samebits


@pytest.mark.parametrize(
    ("words", "successor"),
    [
        (("history", "nights", "--html", "x.html"), "samebits diff OLD.json NEW.json"),
        (("emulate",), "qemu-x86_64 -cpu"),
    ],
)
def test_a_former_command_prints_what_does_the_same(words: tuple[str, ...], successor: str) -> None:
    ended = samebits(*words)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.lines
    assert line.startswith(f"samebits: `samebits {words[0]}` is gone; ") and successor in line


def test_successors_exist_and_former_commands_do_not() -> None:
    assert not FORMER.keys() & main.commands.keys()
    assert all(unknown_words(words) == [] for text in FORMER.values() for words in inline_commands(text))


def test_another_unknown_command_stays_unknown() -> None:
    ended = samebits("histroy")
    assert ended.code == 2 and "No such command 'histroy'" in ended.err
