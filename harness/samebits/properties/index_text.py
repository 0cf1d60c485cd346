"""Index expressions such as `out[:, t]` and `tokens[:, t+1:]`: which elements of an array are meant, for each `t`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.errors import RequestError

_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}


@dataclass(frozen=True, slots=True)
class IndexText:
    """A parsed index expression.

    Args:
        text: as it was given.
        name: of the array.
        entries: by axis a slice or an index, as syntax trees; `...` is filled up.
    """

    text: str
    name: str
    entries: tuple[ast.expr, ...]

    @classmethod
    def parse(cls, option: str, text: str) -> IndexText:
        """Read an expression.

        Raises:
            RequestError: it is not the name of an array with an index.
        """
        wrong = RequestError(f"{option}={text!r}; expected an array with an index, such as 'out[:, t]' or 'x[:, t+1:]'")
        if not isinstance(text, str):
            raise wrong
        try:
            node = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise wrong from None
        if isinstance(node, ast.Name | ast.Attribute):
            return cls(text, ast.unparse(node), ())
        if not isinstance(node, ast.Subscript):
            raise wrong
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return cls(text, ast.unparse(node), ())  # a leaf of a dict
        entries = tuple(node.slice.elts) if isinstance(node.slice, ast.Tuple) else (node.slice,)
        return cls(text, ast.unparse(node.value), entries)

    def axes(self, rank: int) -> list[ast.expr | None]:
        """Return by axis its entry; None for all of the axis.

        Raises:
            RequestError: there are more entries than axes.
        """
        dots = [
            n for n, entry in enumerate(self.entries) if isinstance(entry, ast.Constant) and entry.value is Ellipsis
        ]
        count = len(self.entries) - len(dots)
        if count > rank or len(dots) > 1:
            raise RequestError(f"'{self.text}' has {count} indices, and '{self.name}' has {rank} axes")
        at = dots[0] if dots else len(self.entries)
        before, after = self.entries[:at], self.entries[at + 1 :]
        whole: list[ast.expr | None] = [*before, *[None] * (rank - count), *after]
        return [None if _is_all(entry) else entry for entry in whole]

    def index(self, shape: tuple[int, ...], variables: Mapping[str, int]) -> tuple[Any, ...]:
        """Return the index for some numbers of the variables.

        Raises:
            RequestError: a name is not a variable, or an index is outside of its axis.
        """
        entries: list[Any] = []
        for size, entry in zip(shape, self.axes(len(shape)), strict=True):
            if entry is None:
                entries.append(slice(None))
            elif isinstance(entry, ast.Slice):
                bounds = [self._number(bound, variables) for bound in (entry.lower, entry.upper, entry.step)]
                low, high = (
                    bound if bound is None or isinstance(node, ast.UnaryOp) else max(bound, 0)  # x[-2:] is the end
                    for bound, node in zip(bounds[:2], (entry.lower, entry.upper), strict=True)
                )
                entries.append(slice(low, high, bounds[2]))
            else:
                number = self._number(entry, variables)
                if number is None or not -size <= number < size:
                    raise RequestError(f"'{self.text}': index {number} is outside of an axis of {size}")
                entries.append(number % size)
        return tuple(entries)

    def _number(self, node: ast.expr | None, variables: Mapping[str, int]) -> int | None:
        if node is None:
            return None
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in variables:
                known = ", ".join(variables) or "none"
                raise RequestError(f"'{self.text}': '{node.id}' is not an index of `of`; the indices there are {known}")
            return variables[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self._number(node.operand, variables)
            return None if inner is None else -inner
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self._number(node.left, variables), self._number(node.right, variables)
            if left is not None and right is not None:
                return _OPERATORS[type(node.op)](left, right)
        raise RequestError(f"'{self.text}': cannot read '{ast.unparse(node)}'; expected numbers, indices, + - * // %")


def _is_all(entry: ast.expr | None) -> bool:
    return entry is None or (
        isinstance(entry, ast.Slice) and entry.lower is None and entry.upper is None and entry.step is None
    )
