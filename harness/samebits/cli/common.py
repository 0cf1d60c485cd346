"""What every command shares: errors as one line, exit codes, and report files that are known to be writable."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec

import click

from samebits.errors import RequestError, SamebitsError
from samebits.host.own_output import is_stdout, own_stdout
from samebits.schema.result import Problem
from samebits.user_errors import one_line, retain, take_tracebacks

P = ParamSpec("P")

COULD_NOT_TELL = 3

SHOW_TRACEBACK = "samebits.traceback"
"""Where click's context says whether `--traceback` was given."""


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """A command that returns its exit code, with every error of samebits as one line on stderr and without a traceback.

    Tracebacks are printed in two situations: for exceptions of the user's code where `--traceback` asks for them, and
    for a bug of samebits itself, which ends with exit code 3.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except SamebitsError as error:
            retain(error.__cause__)
            say(str(error))
            code = error.exit_code
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            say("interrupted before anything was checked")
            code = COULD_NOT_TELL
        except SystemExit as error:  # no command of ours calls it; `sys.exit(0)` in a declaration must not look like 0
            say(f"the user's code {one_line(error)}; remove the call of sys.exit")
            code = COULD_NOT_TELL
        except Exception:
            traceback.print_exc()
            say("this is a bug of samebits, not of your request; please report it with the lines above")
            code = COULD_NOT_TELL
        for text in _notes():
            say(f"note: {text}")
        context = click.get_current_context(silent=True)
        if context is not None and context.meta.get(SHOW_TRACEBACK, False):
            for text in take_tracebacks():
                click.echo(text, err=True)
        raise SystemExit(code)

    return run


def _notes() -> list[str]:
    """What the user's code changed and no report mentions; after `--help` nothing is imported that would know."""
    isolation = sys.modules.get("samebits.host.isolation")
    return [] if isolation is None else isolation.take_notes()


def say(text: str) -> None:
    """One line on stderr."""
    click.echo("samebits: " + " ".join(text.split()), err=True)


def problem_line(problem: Problem) -> str:
    """A problem as the user reads it: the pair is named once."""
    named = f"pair '{problem.pair}'"
    return problem.message if problem.message.startswith(named) else f"{named}: {problem.message}"


def require_writable(option: str, path: Path | None) -> None:
    """Reject a report file that could not be written, before anything runs.

    Raises:
        RequestError: it is a directory, or its folder is missing or cannot be written.
    """
    if path is None or is_stdout(path):
        return
    if path.is_dir():
        raise RequestError(f"{option} {path}: is a directory; give the name of a file")
    if not path.parent.is_dir():
        raise RequestError(f"{option} {path}: the folder '{path.parent}' does not exist; create it first")
    try:
        if path.exists() and not path.is_file():
            return  # a device such as /dev/stdout
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
        # Only writing shows it: permission bits say nothing to root, nor on a read-only file system.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise RequestError(f"{option} {path}: cannot be written: {error.strerror or error}") from None


def require_reports(files: Mapping[str, Path | None]) -> None:
    """Reject report files that could not be written, or of which two are one file.

    Args:
        files: by their options; None where there is none.

    Raises:
        RequestError: as `require_writable`, or two name the same file.
    """
    seen: dict[Path, str] = {}
    for option, path in files.items():
        require_writable(option, path)
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), option)
        if other != option:
            raise RequestError(f"{other} and {option} both name {path}; give two files")


def write_text(path: Path, text: str) -> None:
    """Write a report whole or not at all; standard output, or another device, is written in place."""
    if is_stdout(path):
        own_stdout().write(text)
        own_stdout().flush()
        return
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
