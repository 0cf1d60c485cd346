"""The options of `samebits compare`, read: static arguments, renamed arguments, and the command that runs it again."""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass
from typing import Any

from samebits.cli import options
from samebits.errors import RequestError


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
    no_assumptions: bool = False
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
