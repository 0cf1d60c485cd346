"""The dimensions of jax's symbolic shapes as polynomials, read from how jax prints them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

from samebits.errors import NotCovered
from samebits.sizes.places.polynomial import Polynomial, of, variable

Operation = Callable[[str, Sequence[Polynomial]], Polynomial]
"""What a call such as `floordiv(a, b)` or `max(a, b)` is, which depends on the bounds of the sizes."""


def dimension(value: Any, operation: Operation) -> Polynomial:
    """Return a dimension as a polynomial of the symbols in it; `operation` gives divisions, remainders and extremes.

    Raises:
        NotCovered: the printed form is not a known one.
    """
    if isinstance(value, Polynomial):
        return value
    if isinstance(value, int):
        return of(value)
    try:
        return _read(_parsed(str(value)), operation)
    except (SyntaxError, TypeError):
        raise NotCovered(f"the dimension '{value}' is not an expression of sums, products and divisions") from None


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    """Parse the expression that jax prints, which it does for each equation anew."""
    return ast.parse(text.replace("^", "**"), mode="eval").body


def _read(node: ast.expr, operation: Operation) -> Polynomial:
    match node:
        case ast.Constant(value=int(number)):
            return of(number)
        case ast.Name(id=name):
            return variable(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, operation)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _read(left, operation) + _read(right, operation)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _read(left, operation) - _read(right, operation)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _read(left, operation) * _read(right, operation)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
            base, total = _read(left, operation), of(1)
            for _ in range(power):
                total = total * base
            return total
        case ast.Call(func=ast.Name(id=name), args=args):
            return operation(name, [_read(arg, operation) for arg in args])
    raise TypeError(ast.dump(node))
