"""A command that is gone names its successor, and ends as a wrong request does."""

import re

import pytest

from samebits.cli import FORMER, RENAMED, main
from tests.project.pages import inline_commands, unknown_words
from tests.support.invoke import REPOSITORY, samebits


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


@pytest.mark.parametrize("name", RENAMED)
def test_a_renamed_command_prints_the_whole_new_one(name: str) -> None:
    ended = samebits(name, "norm", "--fault", "mean over n - 1")
    assert (ended.code, ended.out) == (2, "")
    assert ended.lines == [
        f"samebits: `samebits {name}` has another name; type: "
        f"samebits {' '.join(RENAMED[name])} norm --fault 'mean over n - 1'"
    ]


def former_spellings(text: str) -> list[str]:
    """The commands of a text in a spelling that is gone."""
    names = "|".join(FORMER.keys() | RENAMED.keys())
    return re.findall(rf"""\bsamebits["']?,? ["']?(?:{names})\b""", text)


def test_nothing_names_a_command_as_it_was_called() -> None:
    folders = ("harness", "suites", "docs", "examples", "benchmarks", "action", ".github", ".ci")
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    files += [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "action.yml")]
    texts = {path: path.read_text(encoding="utf-8", errors="ignore") for path in files if path.suffix != ".pyc"}
    assert len(texts) > 1000
    assert {str(path): found for path, text in texts.items() if (found := former_spellings(text))} == {}


def test_a_former_spelling_is_found() -> None:
    planted = ("samebits " + "faults norm", '["samebits", ' + '"advise"]', "`samebits " + "history`")
    assert [len(former_spellings(text)) for text in planted] == [1, 1, 1]
    assert former_spellings("samebits audit faults norm, samebits check") == []


def test_the_top_has_at_most_16_commands() -> None:
    assert len(main.commands) <= 16


def test_successors_exist_and_former_commands_do_not() -> None:
    assert not (FORMER.keys() | RENAMED.keys()) & main.commands.keys()
    assert all(unknown_words(list(words)) == [] for words in RENAMED.values())
    assert all(unknown_words(words) == [] for text in FORMER.values() for words in inline_commands(text))


def test_another_unknown_command_stays_unknown() -> None:
    ended = samebits("histroy")
    assert ended.code == 2 and "No such command 'histroy'" in ended.err
