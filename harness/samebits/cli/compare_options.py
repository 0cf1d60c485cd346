"""The options of `samebits compare`: read from the command line, written as the command again, named in messages."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from typing import Any

import click

from samebits.cli import options
from samebits.errors import RequestError
from samebits.schema.argument_text import EXAMPLES


@dataclass(frozen=True, kw_only=True)
class FunctionsOptions:
    """The options of commands that take two functions, which `functions` adds."""

    arg: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    rename: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    accept: str | None = None
    accuracy: float | None = None
    forward: bool = False
    has_aux: bool = False
    seeds: int = 1


functions = options.together(
    click.option("--arg", multiple=True, metavar="WORD", help=f"An array argument, as in {EXAMPLES}."),
    click.option(
        "--static", multiple=True, metavar="NAME=VALUE", help="A static argument, a Python literal: eps=1e-6."
    ),
    click.option("--rename", multiple=True, metavar="NAME=OTHER", help="What the second function calls an argument."),
    click.option("--ignore", multiple=True, metavar="PATTERN", help="Outputs that are not compared, as in 'cache.*'."),
    click.option(
        "--accept",
        type=click.Choice(["proved", "bitwise", "rounding"]),
        help="The lowest verdict that passes; by default the bits of what moves data, and rounding of what computes.",
    ),
    click.option(
        "--accuracy",
        type=click.FloatRange(min=1),
        metavar="TIMES",
        help="How many times the first function's error rounding may have; by default all but a loss of kind.",
    ),
    click.option("--forward", is_flag=True, help="No gradients."),
    click.option(
        "--has-aux", is_flag=True, help="The functions return (outputs, auxiliary); the first is differentiated."
    ),
    click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many sets of inputs."),
)
"""The options of commands that take two functions."""


@dataclass(frozen=True, kw_only=True)
class CompareFunctionsOptions(FunctionsOptions, options.ReportOptions):
    """The options of `samebits compare`."""

    reference: str
    variant: str
    mesh: str
    mode: str
    no_assumptions: bool = False
    devices: int | None = None
    platform: str | None = None

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

    def words(self, command: str = "compare") -> str:
        """This command again, without the files that it writes."""
        words = ["samebits", command, self.reference, self.variant]
        for name in ("arg", "static", "rename", "ignore"):
            words += [word for value in getattr(self, name) for word in (f"--{name}", value)]
        words += ["--mesh", self.mesh, "--mode", self.mode, "--seeds", str(self.seeds)]
        words += ["--accept", self.accept] if self.accept else []
        words += ["--accuracy", f"{self.accuracy:g}"] if self.accuracy else []
        words += ["--forward"] if self.forward else []
        words += ["--has-aux"] if self.has_aux else []
        words += ["--no-assumptions"] if self.no_assumptions else []
        words += ["--devices", str(self.devices)] if self.devices else []
        words += ["--platform", self.platform] if self.platform else []
        return shlex.join(words)


def static_values(texts: tuple[str, ...]) -> dict[str, Any]:
    """The values of `--static` by name: Python literals or other words, such as the name of an activation.

    Raises:
        RequestError: one is not of the form `NAME=VALUE`.
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


_OPTIONS = (
    (r"map them: rename=\{'(\w+)': \.\.\.\}", r"map them: --rename \1=OTHER"),
    (r"declare it in args or statics, or", "give it as --arg or --static, or"),
    (r"declare gradients=False", "give --forward"),
    (r"\(gradients=False\)", "(--forward)"),
    (
        r"map the variant's outputs by adapt",
        "map those of the second by adapt=Adapt(outputs=...) of samebits.assert_same",
    ),
    (
        r"give an Arg spec=\(\.\.\.\) with '(\w+)', or leave that mesh out",
        r"split a dimension over it, as in --arg 'x=f32[8@\1]'",
    ),
)
"""By pattern, what `samebits compare` has for it."""


def in_options(text: str) -> str:
    """A message with the options of the command line in place of the entries of a declaration.

    Args:
        text: as it is for a `Pair`.
    """
    for pattern, option in _OPTIONS:
        text = re.sub(pattern, option, text)
    return text
