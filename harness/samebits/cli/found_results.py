"""What a check has found so far, and the pairs and the environment that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samebits.cli.common import problem_line, say
from samebits.errors import RequestError, SamebitsError
from samebits.host import environment
from samebits.host.environment import Environment
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.schema.pair import Pair
from samebits.schema.result import Problem, Result


@dataclass(kw_only=True, slots=True)
class Findings:
    """What a check has so far."""

    results: list[Result] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def problem(self, problem: Problem) -> None:
        """Keep a problem and say it at once."""
        self.problems.append(problem)
        say(problem_line(problem))


def load_pairs(asked: Sequence[str], root: Path | None, found: Findings) -> list[tuple[Locator, Pair]]:
    """The declarations of pairs; those that are wrong become problems, and the others go on."""
    declared: list[tuple[Locator, Pair]] = []
    for name in dict.fromkeys(asked) or names(root or default_root()):
        locator = Locator(name=name, root=None if ":" in name or root is None else str(root))
        try:
            pair = load(locator)
            double = next((other.name for other, before in declared if before.name == pair.name), None)
            if double is not None:
                raise RequestError(f"'{double}' declares a pair of the same name '{pair.name}'; check them in two runs")
            declared.append((locator, pair))
        except SamebitsError as error:
            found.problem(problem_of(locator, error))
    return declared


def start_backend() -> Environment:
    """The environment, once jax's backend has started.

    Raises:
        RequestError: it does not start, as where `--platform tpu` finds no TPU.
    """
    try:
        return environment.capture()
    except RuntimeError as error:
        raise RequestError(f"jax does not start on the platform asked for: {error}") from None


def problem_of(locator: Locator, error: SamebitsError) -> Problem:
    """An error of a pair as a problem of the check."""
    return Problem(pair=locator.name, message=str(error), exit_code=error.exit_code)
