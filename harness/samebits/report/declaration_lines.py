"""Where a pair and its cases are declared: the file and the line of `Pair(` and of `Case(`, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from samebits.schema.pair import Pair


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file; the first is 1."""

    file: Path
    line: int

    def relative_to(self, folder: Path) -> str:
        """Return the file as seen from a folder, with forward slashes; absolute where it lies elsewhere."""
        file = self.file.resolve()
        inside = file.is_relative_to(folder.resolve())
        return (file.relative_to(folder.resolve()) if inside else file).as_posix()


class DeclarationLines:
    """The lines of declarations.

    Args:
        suites: the folder of the declarations that were not; None without one.
    """

    def __init__(self, pairs: Iterable[Pair], suites: Path | None = None) -> None:
        self._pairs = {pair.name: pair for pair in pairs}
        self._suites = suites
        self._calls: dict[Path, tuple[ast.Call, ...]] = {}
        self._lines: dict[tuple[str, str], SourceLine | None] = {}

    def of(self, pair: str, case: str = "") -> SourceLine | None:
        """Find the line of a case's `Case(id=...)`, else of the `Pair(name=...)`, else of the only pair in its file."""
        if (pair, case) not in self._lines:
            self._lines[pair, case] = self._read(pair, case)
        return self._lines[pair, case]

    def _read(self, pair: str, case: str) -> SourceLine | None:
        file, declared = self._file(pair), self._pairs.get(pair)
        if file is None:
            return None
        known = next((known for known in declared.cases if known.id == case), None) if declared is not None else None
        case = case if known is None else known.declared or known.id
        calls = self._of_file(file)
        own = _calling(calls, "Pair", "name", pair) or [call for call in calls if _function(call) == "Pair"]
        inside = [call for outer in own for call in ast.walk(outer) if isinstance(call, ast.Call)]
        # Cases may stand in a constant above the pair.
        nearest = _calling(inside, "Case", "id", case) or _calling(calls, "Case", "id", case) or own
        return SourceLine(file, nearest[0].lineno if nearest else 1)

    def _file(self, pair: str) -> Path | None:
        declared = self._pairs.get(pair)
        if declared is not None:
            file = Path(declared.origin)
        elif self._suites is not None:
            file = self._suites / f"test_{pair}.py"
        else:
            return None
        return file if file.is_file() else None

    def _of_file(self, file: Path) -> tuple[ast.Call, ...]:
        if file not in self._calls:
            try:
                tree = ast.parse(file.read_bytes())
            except (OSError, SyntaxError, ValueError):  # it was imported, and is gone or another one by now: line 1
                tree = ast.Module(body=[], type_ignores=[])
            self._calls[file] = tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call))
        return self._calls[file]


def _calling(calls: Iterable[ast.Call], function: str, keyword: str, value: str) -> list[ast.Call]:
    """Return the calls of a function with this value of a keyword."""
    return [call for call in calls if _function(call) == function and value in _values(call, keyword)]


def _values(call: ast.Call, keyword: str) -> Iterator[object]:
    for argument in call.keywords:
        if argument.arg == keyword and isinstance(argument.value, ast.Constant):
            yield argument.value.value


def _function(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
