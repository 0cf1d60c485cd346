"""Options that several commands have, and how a command starts with a record of its options."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import click

from samebits.cli.common import EXIT_CODE, SHOW_TRACEBACK, guarded, printed
from samebits.cli.declared import RecordCommand, option
from samebits.errors import RequestError
from samebits.host.installed import builtin_tree
from samebits.host.isolation import without_arguments
from samebits.host.output_files import require_reports
from samebits.host.own_output import kept_apart
from samebits.rooms import door

if TYPE_CHECKING:
    from samebits.host.group import LockstepGroup
    from samebits.programs.plan import Request

Options = TypeVar("Options")

Devices = Annotated[int | None, option("Number of CPU devices; 8 unless the environment says otherwise.", "N")]
Platform = Annotated[Literal["cpu", "tpu", "gpu"] | None, option("Where to run; jax chooses by default.")]
Sizes = Annotated[
    tuple[str, ...],
    option("Run at these sizes instead of the declared ones; skip cases without them.", "NAME=N,..."),
]
Full = Annotated[bool, option("Run all combinations of settings, not the default selection.")]
NoAssumptions = Annotated[
    bool, option("Accept no proof that assumes anything beyond shapes and rounding (comparisons, ranges, integers).")
]
Budget = Annotated[
    float | None,
    option(
        "How long evidence is gathered for each point, as in 60s: the strongest first, and what is missed is said.",
        "SECONDS",
        above=0,
    ),
]
NoCache = Annotated[bool, option("Compile anew, and cache nothing.")]
Verbose = Annotated[bool, option("Print every row and every failure, not one screen.")]
Whole = Annotated[bool, option("With --markdown: all of it, for a page; by default at most 60 lines.")]
Tree = Annotated[Path | None, option("The tree of pairs and models; here by default.", "TREE")]
AnyTree = Annotated[
    Path | None,
    option(
        "The tree of pairs; here by default.",
        "TREE",
        other=("--builtin", builtin_tree(), "Use the pairs shipped with samebits instead of a tree."),
    ),
]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What a request selects; each option can be repeated."""

    HEADING = "Which points"

    variant: Annotated[
        tuple[str, ...],
        option("Only this variant; the reference's own name checks the reference on the mesh.", "NAME"),
    ] = ()
    case: Annotated[tuple[str, ...], option("Only this case.", "NAME")] = ()
    dtype: Annotated[tuple[str, ...], option("Only this dtype.", "NAME")] = ()
    mesh: Annotated[
        tuple[str, ...],
        option("Only this mesh, such as context4 or expert4_fsdp2; one that the pair does not list runs too.", "NAME"),
    ] = ()
    mode: Annotated[tuple[str, ...], option("Only this sharding mode.", "auto|explicit")] = ()
    direction: Annotated[tuple[str, ...], option("Only this direction.", "forward|gradient")] = ()
    full: Full = False

    def request(self) -> Request:
        """Return the request for a plan."""
        from samebits.programs.plan import Request  # which imports jax

        return Request(
            full=self.full,
            sizes=tuple(getattr(self, "sizes", ())),
            variants=self.variant,
            cases=self.case,
            dtypes=self.dtype,
            meshes=self.mesh,
            modes=self.mode,
            directions=self.direction,
        )


@dataclass(frozen=True, kw_only=True)
class SizedFilters(Filters):
    """What a request selects, and at which sizes."""

    HEADING = Filters.HEADING

    sizes: Sizes = ()


@dataclass(frozen=True, kw_only=True)
class JsonOption:
    """The report files of a command that writes no Markdown."""

    HEADING = "Report files"

    json: Annotated[Path | None, option("Write the results as JSON.", "FILE")] = None
    html: Annotated[Path | None, option("Write the results as one HTML file for a browser.", "FILE")] = None

    def require_files(self) -> None:
        """Reject report files that cannot be written."""
        written = ("json", "html", "markdown", "junitxml", "journal")
        read = [getattr(self, name, None) for name in ("old", "new", "beside")]
        require_reports(
            {f"--{name}": getattr(self, name, None) for name in written},
            [*(path for path in read if path is not None), *getattr(self, "files", ())],
        )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(JsonOption):
    """The report files of a command."""

    HEADING = JsonOption.HEADING

    markdown: Annotated[Path | None, option("Write tables for a pull request, of at most 60 lines in all.", "FILE")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class ContinuousIntegration(JsonOption):
    """What continuous integration reads besides; stands before the record of the other report files."""

    HEADING = JsonOption.HEADING

    junitxml: Annotated[Path | None, option("Write the results as JUnit XML, one test case each.", "FILE")] = None
    github: Annotated[bool, option("Print a GitHub Actions annotation for each failure, at its declaration.")] = False

    def require_none(self, what: str) -> None:
        """Reject these options for a command without such results."""
        if self.junitxml is not None or self.github:
            name = "--junitxml" if self.junitxml is not None else "--github"
            raise RequestError(f"{name} does not go with `samebits {what}`; --json FILE writes its results")


def _show_traceback(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[SHOW_TRACEBACK] = value


TRACEBACK = click.Option(
    ["--traceback"],
    is_flag=True,
    expose_value=False,
    callback=_show_traceback,
    help="Print the tracebacks of exceptions that your code raises.",
)


def command(
    record: type[Options], name: str | None = None, *, runs_user_code: bool = True, **settings: Any
) -> Callable[[Callable[[Options], int]], RecordCommand]:
    """Make a command of a function that takes one record of what click parsed, and returns the exit code.

    Report files are known to be writable when it is called. What the user's code prints meanwhile goes to stderr, and
    it sees none of our arguments. If it ends the process, the exit code is 3, except with `--in-process` and
    `--distributed`.

    Args:
        record: a dataclass with one field for each option and argument of the command.
        name: of the command; that of the function by default.
        runs_user_code: whether the command runs the user's code, and so has `--traceback`.
    """

    def decorate(function: Callable[[Options], int]) -> RecordCommand:
        @guarded
        def run(**values: Any) -> int:
            _require_folder()
            chosen = record(**values)
            if runs_user_code:
                _supervise(chosen)
            with kept_apart(), without_arguments():
                if isinstance(chosen, JsonOption):
                    chosen.require_files()
                return printed(function(chosen))

        more = (TRACEBACK,) if runs_user_code else ()
        text = inspect.getdoc(function)
        return RecordCommand(record, more, name=name or function.__name__, callback=run, help=text, **settings)

    return decorate


def run(work: str, chosen: JsonOption, *more: object, group: LockstepGroup | None = None) -> int:
    """Run the work of a command, and return the exit code; what it needs is imported now, such as jax.

    Args:
        work: its module in this folder and its name there, as `check_run:check_pairs`; takes a `CommandRun` last.
        more: what it takes besides them.
        group: the processes that run the command together; None where this one is alone.
    """
    module, _, name = work.partition(":")
    function = functools.partial(getattr(door(f"cli.{module}"), name), chosen, *more)
    code: int
    if group is not None:
        code = door("cli.distributed_run").run_together(function, chosen, group)
    else:
        code = door("cli.pipeline").run_command(function, chosen)
    return code


def _require_folder() -> None:
    """Reject a current folder in which nothing can be named."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise RequestError("the current folder was removed; change to another one") from None
    if any("\ud800" <= character <= "\udfff" for character in folder):
        raise RequestError(f"the current folder {folder!r} has a name that is not UTF-8; rename it")


def _supervise(chosen: object) -> None:
    """Go on in a child process; in this one for a debugger, and where others wait for this one.

    Nothing may import jax before it, which reads its environment when it is imported.
    """
    from samebits.host.file_reads import READS

    READS.begin()  # before declarations are loaded, which may read data
    distributed = getattr(chosen, "distributed", False)
    if distributed:
        from samebits.engine.distributed_request import recorder

        EXIT_CODE.record = recorder()
    if distributed or getattr(chosen, "in_process", False):
        return
    from samebits.cli.supervision import supervise
    from samebits.engine.drive import TIMEOUT

    # Bisections go on from their journal without being asked to.
    unasked = "the same command continues" if hasattr(chosen, "journal") else ""
    go_on = "continue with --resume" if hasattr(chosen, "resume") else unasked
    supervise(getattr(chosen, "timeout", None) or TIMEOUT, go_on=go_on, at_once=go_on == unasked)
