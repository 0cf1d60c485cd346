"""Options that several commands have, with one text each, and the records in which commands receive their options.

A command declares its options with click and takes one record: a frozen dataclass with one field for each option.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from samebits.cli.common import EXIT_CODE, SHOW_TRACEBACK, guarded, printed
from samebits.errors import RequestError
from samebits.host.isolation import without_arguments
from samebits.host.output_files import require_reports
from samebits.host.own_output import kept_apart
from samebits.host.package import builtin_tree

if TYPE_CHECKING:
    from samebits.cli.pipeline import ReportFiles
    from samebits.programs.plan import Request

Options = TypeVar("Options")

_FILTERS = (
    ("variant", "variants", "NAME", "Only this variant; the reference's own name checks the reference on the mesh."),
    ("case", "cases", "NAME", "Only this case."),
    ("dtype", "dtypes", "NAME", "Only this dtype."),
    (
        "mesh",
        "meshes",
        "NAME",
        "Only this mesh, such as context4 or expert4_fsdp2; one that the pair does not list runs too.",
    ),
    ("mode", "modes", "auto|explicit", "Only this sharding mode."),
    ("direction", "directions", "forward|gradient", "Only this direction."),
)

sizes = click.option(
    "--sizes",
    multiple=True,
    metavar="NAME=N,...",
    help="Run at these sizes instead of the declared ones; skip cases without them.",
)
devices = click.option(
    "--devices", type=int, metavar="N", help="Number of CPU devices; 8 unless the environment says otherwise."
)
platform = click.option(
    "--platform", type=click.Choice(["cpu", "tpu", "gpu"]), help="Where to run; jax chooses by default."
)
full = click.option("--full", is_flag=True, help="Run all combinations of settings, not the default selection.")
no_assumptions = click.option(
    "--no-assumptions",
    is_flag=True,
    help="Accept no proof that assumes anything beyond shapes and rounding (comparisons, ranges, integers).",
)
verbose = click.option("--verbose", is_flag=True, help="Print every row and every failure, not one screen.")
whole = click.option(
    "--whole", is_flag=True, help="With --markdown: all of it, for a page; by default at most 60 lines."
)
root = click.option(
    "--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree of pairs; here by default."
)
builtin = click.option(
    "--builtin",
    "root",
    flag_value=builtin_tree(),
    type=click.Path(path_type=Path),
    help="Use the pairs shipped with samebits instead of a tree.",
)


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one, in this order in `--help`."""
    return lambda command: functools.reduce(lambda taken, option: option(taken), reversed(options), command)


def json_file(written: str) -> Callable[[Any], Any]:
    """The options `--json` and `--html`, which write the same document.

    Args:
        written: what is written, as in "the results".
    """
    path = click.Path(path_type=Path)
    json = click.option("--json", "json", type=path, metavar="FILE", help=f"Write {written} as JSON.")
    html = click.option("--html", type=path, metavar="FILE", help=f"Write {written} as one HTML file for a browser.")
    return together(json, html)


def markdown_file(written: str) -> Callable[[Any], Any]:
    """The option `--markdown`.

    Args:
        written: what is written and what for, as in "tables for a pull request".
    """
    return click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help=f"Write {written}.")


json_results = json_file("the results")


continuous_integration = together(
    click.option(
        "--junitxml",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the results as JUnit XML, one test case each.",
    ),
    click.option(
        "--github", is_flag=True, help="Print a GitHub Actions annotation for each failure, at its declaration."
    ),
)


def _show_traceback(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[SHOW_TRACEBACK] = value


traceback = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    callback=_show_traceback,
    help="Print the tracebacks of exceptions that your code raises.",
)


filters = together(
    *(click.option(f"--{name}", name, multiple=True, metavar=metavar, help=text) for name, _, metavar, text in _FILTERS)
)
"""The options that narrow a request."""


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What the filters select; each option can be repeated."""

    variant: tuple[str, ...]
    case: tuple[str, ...]
    dtype: tuple[str, ...]
    mesh: tuple[str, ...]
    mode: tuple[str, ...]
    direction: tuple[str, ...]

    def request(self, full: bool = False) -> Request:
        """The request for a plan.

        Args:
            full: whether the whole product is requested.
        """
        from samebits.programs.plan import Request  # which imports jax

        others = tuple(getattr(self, "sizes", ()))
        return Request(full=full, sizes=others, **{field: getattr(self, name) for name, field, _, _ in _FILTERS})


@dataclass(frozen=True, kw_only=True)
class JsonOption:
    """The report files of a command that writes no Markdown."""

    json: Path | None = None
    html: Path | None = None

    def report_files(self) -> ReportFiles:
        """The files, once it is known that they can be written.

        Raises:
            RequestError: one cannot be, both are the same, or one is a document that the command reads.
        """
        from samebits.cli.pipeline import ReportFiles  # which imports rich

        require_reports(self._named(), self._documents())
        return ReportFiles(json=self.json, html=self.html)

    def _named(self) -> dict[str, Path | None]:
        """Every file that the command writes, by its option."""
        names = ("json", "html", "markdown", "junitxml", "journal")
        return {f"--{name}": getattr(self, name, None) for name in names}

    def _documents(self) -> list[Path]:
        """Every document that the command reads, as far as it names files."""
        named = [getattr(self, name, None) for name in ("old", "new", "beside")]
        return [*(path for path in named if path is not None), *getattr(self, "files", ())]


@dataclass(frozen=True, kw_only=True)
class ReportOptions(JsonOption):
    """The report files of a command."""

    markdown: Path | None = None

    def report_files(self) -> ReportFiles:
        """The files, once it is known that they can be written.

        Raises:
            RequestError: one cannot be, or two are the same.
        """
        return replace(super().report_files(), markdown=self.markdown)


@dataclass(frozen=True, kw_only=True)
class ContinuousIntegration(JsonOption):
    """What continuous integration reads besides; stands before the record of the other report files."""

    junitxml: Path | None
    github: bool

    def report_files(self) -> ReportFiles:
        """The files, once it is known that they can be written.

        Raises:
            RequestError: one cannot be, or two are the same.
        """
        workspace = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
        return replace(super().report_files(), junit=self.junitxml, github=workspace if self.github else None)

    def require_none(self, what: str) -> None:
        """Reject these options for a command without such results.

        Args:
            what: the command, as in "prove model".

        Raises:
            RequestError: one was given.
        """
        if self.junitxml is not None or self.github:
            name = "--junitxml" if self.junitxml is not None else "--github"
            raise RequestError(f"{name} does not go with `samebits {what}`; --json FILE writes its results")


def takes(
    record: type[Options], *, runs_user_code: bool = True
) -> Callable[[Callable[[Options], int]], Callable[..., None]]:
    """Call a command with one record of what click parsed, and end the process with the exit code that it returns.

    What the user's code prints meanwhile goes to stderr, and it sees none of our arguments. If it ends the process, the
    exit code is 3, except with `--in-process` and `--distributed`.

    Args:
        record: a dataclass with one field for each option and argument of the command.
        runs_user_code: whether the command runs the user's code, and so has `--traceback`.
    """

    def decorate(command: Callable[[Options], int]) -> Callable[..., None]:
        @guarded
        @functools.wraps(command)
        def run(**values: Any) -> int:
            _require_folder()
            if runs_user_code:
                _supervise(values)
            with kept_apart(), without_arguments():
                return printed(command(record(**values)))

        run.__annotations__ = {"options": record}
        return traceback(run) if runs_user_code else run

    return decorate


def _require_folder() -> None:
    """Reject a current folder in which nothing can be named.

    Raises:
        RequestError: it was removed, or its name is not UTF-8.
    """
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise RequestError("the current folder was removed; change to another one") from None
    if any("\ud800" <= character <= "\udfff" for character in folder):
        raise RequestError(f"the current folder {folder!r} has a name that is not UTF-8; rename it")


def _supervise(values: Mapping[str, Any]) -> None:
    """Go on in a child process; in this one for a debugger, and where others wait for this one.

    Nothing may import jax before it, which reads its environment when it is imported.
    """
    from samebits.host.file_reads import READS

    READS.look()  # before declarations are loaded, which may read data
    if values.get("distributed"):
        from samebits.engine.reported import recorder

        EXIT_CODE.record = recorder()
    if values.get("in_process") or values.get("distributed"):
        return
    from samebits.cli.supervision import supervise
    from samebits.engine.drive import TIMEOUT

    # Bisections go on from their journal without being asked to.
    unasked = "the same command continues" if "journal" in values else ""
    go_on = "continue with --resume" if "resume" in values else unasked
    supervise(values.get("timeout") or TIMEOUT, go_on=go_on, at_once=go_on == unasked)
