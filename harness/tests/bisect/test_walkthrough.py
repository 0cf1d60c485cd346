"""docs/guides/bisecting.md executed: every command and replay line, in the repository that the page describes."""

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bisect.walkthrough import CULPRIT, build
from tests.support.invoke import REPOSITORY, clean_environment

DOCUMENT = REPOSITORY / "docs" / "guides" / "bisecting.md"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the document, and the lines of its output that are printed there."""

    words: list[str]
    lines: list[str]


def commands(text: str) -> list[Command]:
    """The commands of all `console` blocks."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        first, *lines = block.splitlines()
        assert first.startswith("$ samebits "), first
        found.append(Command(shlex.split(first.removeprefix("$ samebits ")), lines))
    return found


def unlike(lines: list[str], output: str) -> str | None:
    """The first line of the document that is not in the output, in this order; `...` stands for anything."""
    have = iter(" ".join(line.split()) for line in output.splitlines())
    for line in lines:
        if line.strip() == "...":
            continue
        parts = [re.escape(" ".join(part.split())) for part in line.split("...")]
        pattern = re.compile(r"\s*.*\s*".join(parts))
        if not any(pattern.fullmatch(one) for one in have):
            return line
    return None


def run(words: list[str], tree: Path, cache: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "samebits", *words],
        cwd=tree,
        env=clean_environment(SAMEBITS_CACHE_DIR=str(cache)),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def test_every_part_of_the_document_is_a_command() -> None:
    """The check below can fail."""
    found = commands(DOCUMENT.read_text())
    kinds = [" ".join(command.words[:2]) for command in found]
    bisections = ["bisect pairs", "bisect steps", "bisect tensors", "bisect mesh"]
    assert kinds == ["train --matrix", *bisections, "check moe", "bisect commits"]
    assert CULPRIT in "\n".join(found[-1].lines)
    output = "head\n  6  moe@layer2   FAIL  1   step 1\nmoe@layer2 alone\n"
    assert unlike(["...", "  6  moe@layer2 ... FAIL ...", "moe@layer2 alone"], output) is None
    assert unlike(["moe@layer2 alone", "head"], output) == "head"
    assert unlike(["moe@layer1 alone"], output) == "moe@layer1 alone"


@pytest.mark.slow
def test_the_walkthrough(tmp_path: Path) -> None:
    """Every command ends with 1 and says what the document says; what it prints as its replay shows it again."""
    tree, cache = build(tmp_path / "tree"), tmp_path / "cache"
    for command in commands(DOCUMENT.read_text()):
        code, output = run(command.words, tree, cache)
        assert code == 1, output
        assert unlike(command.lines, output) is None, output
        for replay in re.findall(r"^next: samebits (.*)$", output, re.MULTILINE):
            code, again = run(shlex.split(replay), tree, cache)
            assert code == 1, again
    status = subprocess.run(["git", "-C", str(tree), "status", "--short"], capture_output=True, text=True, check=True)
    assert status.stdout == ""
