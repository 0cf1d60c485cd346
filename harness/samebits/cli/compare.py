"""`samebits compare`: two functions by name, without a declaration."""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass
from typing import Any

import click

from samebits.cli import options
from samebits.errors import RequestError
from samebits.schema.argument_text import EXAMPLES


@dataclass(frozen=True, kw_only=True)
class CompareFunctionsOptions(options.ReportOptions):
    """The options of `samebits compare`."""

    reference: str
    variant: str
    arg: tuple[str, ...]
    static: tuple[str, ...]
    rename: tuple[str, ...]
    mesh: str
    mode: str
    accept: str | None
    forward: bool
    has_aux: bool
    seeds: int
    devices: int | None
    platform: str | None

    def statics(self) -> dict[str, Any]:
        """The static arguments by name.

        Raises:
            RequestError: one is no `NAME=VALUE`, or its value is no Python literal.
        """
        return static_values(self.static)

    def renamed(self) -> dict[str, str]:
        """By declared name, what the second function calls an argument.

        Raises:
            RequestError: one is no `NAME=OTHER`.
        """
        return _assignments("--rename", self.rename, "q=query")

    def words(self) -> str:
        """This command again, without the files that it writes."""
        words = ["samebits", "compare", self.reference, self.variant]
        for name, values in (("arg", self.arg), ("static", self.static), ("rename", self.rename)):
            words += [word for value in values for word in (f"--{name}", value)]
        words += ["--mesh", self.mesh, "--mode", self.mode, "--seeds", str(self.seeds)]
        words += ["--accept", self.accept] if self.accept else []
        words += ["--forward"] if self.forward else []
        words += ["--has-aux"] if self.has_aux else []
        words += ["--devices", str(self.devices)] if self.devices else []
        words += ["--platform", self.platform] if self.platform else []
        return shlex.join(words)


@click.command()
@click.argument("reference", metavar="MODULE:FUNCTION")
@click.argument("variant", metavar="MODULE:FUNCTION")
@click.option("--arg", multiple=True, metavar="WORD", help=f"An array argument, as in {EXAMPLES}.")
@click.option("--static", multiple=True, metavar="NAME=VALUE", help="A static argument, a Python literal: eps=1e-6.")
@click.option("--rename", multiple=True, metavar="NAME=OTHER", help="What the second function calls an argument.")
@click.option(
    "--mesh", default="none", show_default=True, metavar="NAME", help="The mesh of the second, as in dp2_tp4."
)
@click.option("--mode", type=click.Choice(["auto", "explicit"]), default="auto", show_default=True, help="Its axes.")
@click.option(
    "--accept",
    type=click.Choice(["proved", "bitwise", "rounding"]),
    help="The lowest verdict that passes; by default the bits of what moves data, and rounding of what computes.",
)
@click.option("--forward", is_flag=True, help="No gradients.")
@click.option("--has-aux", is_flag=True, help="The functions return (outputs, auxiliary); the first is differentiated.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many sets of inputs.")
@options.devices
@click.option("--platform", type=click.Choice(["cpu", "tpu", "gpu"]), help="Where to run; jax chooses by default.")
@options.json_results
@options.markdown_file("a table for a pull request")
@options.takes(CompareFunctionsOptions)
def compare(chosen: CompareFunctionsOptions) -> int:
    """Compare two functions, without a declaration: the second with the first, forward and gradient.

    Each is MODULE:FUNCTION, or FILE.py:FUNCTION; --arg declares the arrays that both take, by the first's names.
    """
    files = chosen.report_files()
    from samebits.host import environment

    environment.prepare(devices=chosen.devices, platform=chosen.platform)
    from samebits.cli.compare_run import CompareCommand
    from samebits.cli.pipeline import run_command
    from samebits.programs.plan import Request
    from samebits.schema.point import USUAL

    command = CompareCommand(
        pairs=(), request=Request(), root=None, workers=1, no_skips=False, effort=USUAL, audited=False, chosen=chosen
    )
    return run_command(command, files)


def static_values(texts: tuple[str, ...]) -> dict[str, Any]:
    """The values of `--static` by name: Python literals, and words that are none, such as the name of an activation.

    Raises:
        RequestError: one is no `NAME=VALUE`.
    """
    values = {}
    for name, text in _assignments("--static", texts, "eps=1e-6").items():
        try:
            values[name] = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            values[name] = text
    return values


def _assignments(option: str, texts: tuple[str, ...], example: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise RequestError(f"{option} {text}: expected NAME=VALUE, as in {example}")
        pairs[name] = value
    return pairs
