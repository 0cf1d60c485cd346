"""What every command shares: errors as one line, and exit codes.

A wrong request is a `RequestError` wherever it is noticed; docstrings of this room do not repeat it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from typing import ParamSpec

import click

from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.host.interrupts import Interrupted
from samebits.host.own_output import own_stderr, stdout_failure
from samebits.rooms import door, missing_room
from samebits.schema.result import Problem
from samebits.user_errors import one_line, retain, take_tracebacks

P = ParamSpec("P")

SHOW_TRACEBACK = "samebits.traceback"
"""Where click's context says whether `--traceback` was given."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """End the process with one line at Ctrl-C inside; click would end it with 1, which says that something differs."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted before anything was checked")
        ends_with(COULD_NOT_TELL)
        raise Interrupted(COULD_NOT_TELL) from None


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Make a command of what returns an exit code: every error of samebits is one line on stderr, without a traceback.

    Tracebacks are printed in two situations: for exceptions of the user's code where `--traceback` asks for them, and
    for a bug of samebits itself, which ends with exit code 3.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with interruptible():
                code = command(*args, **kwargs)
        except SamebitsError as error:
            retain(error.__cause__)
            say(str(error))
            code = error.exit_code
        except (click.ClickException, click.exceptions.Exit) as error:
            ends_with(error.exit_code)
            raise
        except (click.Abort, Interrupted):
            raise
        except SystemExit as error:  # no command of ours calls it; `sys.exit(0)` in a declaration must not look like 0
            say(f"the user's code {one_line(error)}; remove the call of sys.exit")
            code = COULD_NOT_TELL
        except PermissionError as error:
            say(f"{error.filename or 'a file'}: {error.strerror or error}; make it readable and writable for this user")
            code = COULD_NOT_TELL
        except Exception as error:
            missing = missing_room(error) if isinstance(error, ModuleNotFoundError) else None
            if missing is None:
                traceback.print_exc()
            say(str(missing or "this is a bug of samebits, not of your request; please report it with the lines above"))
            code = COULD_NOT_TELL if missing is None else missing.exit_code
        for text in _notes():
            say(f"note: {text}")
        context = click.get_current_context(silent=True)
        if context is not None and context.meta.get(SHOW_TRACEBACK, False):
            for text in take_tracebacks():
                click.echo(text, file=own_stderr())
        ends_with(code)
        raise SystemExit(code)

    return run


class OnDemand(MutableMapping[str, click.Command]):
    """The commands of a group, each imported when it is asked for: a command needs no options of another one.

    Args:
        names: of those that a module of their name has under that name.
        places: of the others by name, the module in this folder and the name in it, as `list:list_pairs`.
    """

    def __init__(self, *names: str, **places: str) -> None:
        self._places = {**{name: f"{name}:{name}" for name in names}, **places}
        self._imported = dict[str, click.Command]()

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            module, _, attribute = self._places[name].partition(":")
            with interruptible():
                self._imported[name] = getattr(door(f"cli.{module}"), attribute)
        return self._imported[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._imported[name] = command

    def __delitem__(self, name: str) -> None:
        self._imported.pop(name, None)
        self._places.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._places, **self._imported})

    def __len__(self) -> int:
        return len({**self._places, **self._imported})


class ExitCode:
    """Where the exit code of a command goes once its report is complete; see `supervision`.

    Args:
        record: takes the code; None where no other process needs it.
    """

    def __init__(self) -> None:
        self.record: Callable[[int], None] | None = None


EXIT_CODE = ExitCode()


def ends_with(code: int) -> None:
    """Record the exit code of a command: what the user's code does after it, as in `atexit`, cannot change it."""
    if EXIT_CODE.record is not None:
        EXIT_CODE.record(code)


def _notes() -> list[str]:
    """Return what the user's code changed and no report mentions; after `--help` nothing that would know is there."""
    isolation = sys.modules.get("samebits.host.isolation")
    return [] if isolation is None else isolation.take_notes()


def printed(code: int) -> int:
    """Return the exit code of a report that was printed: not 0 where standard output could not be written."""
    failure = stdout_failure()
    if failure is None:
        return code
    say(f"standard output could not be written: {failure}; the report is incomplete")
    return code or COULD_NOT_TELL


def say(text: str) -> None:
    """Print one line on stderr."""
    with contextlib.suppress(OSError, ValueError):  # the terminal was closed, or the disk is full
        click.echo("samebits: " + " ".join(text.split()), file=own_stderr())


def problem_line(problem: Problem) -> str:
    """Return a problem as the user reads it: the pair is named once."""
    named = f"pair '{problem.pair}'"
    return problem.message if problem.message.startswith(named) else f"{named}: {problem.message}"
