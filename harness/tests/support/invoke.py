"""The command line as tests call it: in this process where jax has already started, or as a process of its own."""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from samebits.cli import main
from tests.support.child import sharing_bytecode
from tests.support.forked import run_module

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What stderr says, line by line."""
        return self.err.splitlines()

    @property
    def replay(self) -> list[str]:
        """The words of the command that it prints as the next one."""
        printed = re.search(r"^next: samebits (.*)", self.out, re.MULTILINE)
        assert printed is not None, self.out
        return shlex.split(printed[1])


WORKER_OPTIONS = ("--workers", "--timeout", "--memory")
"""Options that ask for worker processes."""


def samebits(*words: str | Path) -> Ended:
    """Run a command in this process; an exception that reaches the user is a failure of the test.

    Its items too run in this process where the words ask for nothing else: a worker process imports jax first.
    """
    result = CliRunner().invoke(main, [str(word) for word in words], default_map=defaults(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.stderr, result.stderr
    return Ended(code=result.exit_code, out=result.stdout, err=result.stderr)


def defaults(words: Sequence[str | Path], group: click.Group = main) -> dict[str, Any]:
    """The defaults with which a command line runs without worker processes, for click's `default_map`."""
    if any(str(word).partition("=")[0] in WORKER_OPTIONS for word in words):
        return {}
    chosen: dict[str, Any] = {}
    for name, subcommand in group.commands.items():
        if isinstance(subcommand, click.Group):
            chosen[name] = defaults(words, subcommand)
        elif any(parameter.name == "in_process" for parameter in subcommand.params):
            chosen[name] = {"in_process": True}
    return chosen


def command(*words: str | Path) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-m", "samebits", *map(str, words)]


def clean_environment(**more: str) -> Mapping[str, str]:
    """The environment of such a process: this repository importable from anywhere."""
    paths = [str(REPOSITORY / "harness"), str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**sharing_bytecode(os.environ), "PYTHONPATH": os.pathsep.join(paths), **more}


def samebits_process(*words: str | Path, cwd: Path | None = None) -> Ended:
    """Run a command as a process of its own."""
    ended = run_module("samebits", *map(str, words), cwd=cwd or Path.cwd(), variables={}, seconds=120)
    return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)
