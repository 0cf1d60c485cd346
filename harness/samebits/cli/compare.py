"""`samebits compare`: two functions by name, without a declaration; and the options of all that takes two functions."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from samebits.cli import options
from samebits.cli.declared import argument, option, words_of
from samebits.errors import RequestError
from samebits.schema.argument_text import EXAMPLES


@dataclass(frozen=True, kw_only=True)
class TwoFunctions:
    """What two functions take."""

    HEADING = "Of two functions"

    arg: Annotated[tuple[str, ...], option(f"An array argument, as in {EXAMPLES}.", "WORD")] = ()
    static: Annotated[tuple[str, ...], option("A static argument, a Python literal: eps=1e-6.", "NAME=VALUE")] = ()
    rename: Annotated[tuple[str, ...], option("What the second function calls an argument.", "NAME=OTHER")] = ()


@dataclass(frozen=True, kw_only=True)
class FunctionsOptions(TwoFunctions):
    """The options of commands that compare two functions."""

    HEADING = TwoFunctions.HEADING

    ignore: Annotated[tuple[str, ...], option("Outputs that are not compared, as in 'cache.*'.", "PATTERN")] = ()
    accept: Annotated[
        Literal["proved", "bitwise", "rounding"] | None,
        option(
            "The lowest verdict that passes; by default the bits of what moves data, and rounding of what computes."
        ),
    ] = None
    accuracy: Annotated[
        float | None,
        option(
            "How many times the first function's error rounding may have; by default all but a loss of kind.",
            "TIMES",
            least=1,
        ),
    ] = None
    forward: Annotated[bool, option("No gradients.")] = False
    has_aux: Annotated[bool, option("The functions return (outputs, auxiliary); the first is differentiated.")] = False
    seeds: Annotated[int, option("How many sets of inputs.", "N", least=1)] = 1


@dataclass(frozen=True, kw_only=True)
class CompareFunctionsOptions(FunctionsOptions, options.ReportOptions):
    """The options of `samebits compare`."""

    verbose = True  # two functions have few results

    reference: Annotated[str, argument("MODULE:FUNCTION")]
    variant: Annotated[str, argument("MODULE:FUNCTION")]
    mesh: Annotated[str, option("The mesh of the second, as in dp2_tp4.", "NAME")] = "none"
    mode: Annotated[str, option("Its axes.", choices=("auto", "explicit"))] = "auto"
    no_assumptions: options.NoAssumptions = False
    budget: options.Budget = None
    devices: options.Devices = None
    platform: options.Platform = None

    def statics(self) -> dict[str, Any]:
        """Return the static arguments by name."""
        return static_values(self.static)

    def renamed(self) -> dict[str, str]:
        """Return what the second function calls each argument, by declared name."""
        return _assignments("--rename", self.rename, "q=query")

    def words(self, command: str = "compare") -> str:
        """Return this command again, without the files that it writes."""
        groups = (TwoFunctions, FunctionsOptions, CompareFunctionsOptions)
        return shlex.join(["samebits", command, *words_of(self, *groups)])


def static_values(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of `--static` by name: Python literals or other words, such as the name of an activation."""
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
    """Return a message with the options of the command line in place of the entries of a declaration."""
    for pattern, ours in _OPTIONS:
        text = re.sub(pattern, ours, text)
    return text


@options.command(CompareFunctionsOptions)
def compare(chosen: CompareFunctionsOptions) -> int:
    """Compare two functions, without a declaration: the second with the first, forward and gradient.

    Each is MODULE:FUNCTION, or FILE.py:FUNCTION; --arg declares the arrays that both take, by the first's names.
    """
    from samebits.host import environment

    environment.prepare(devices=chosen.devices, platform=chosen.platform)
    return options.run("compare_run:compare_functions", chosen)
