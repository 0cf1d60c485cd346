"""Sizes as expressions of symbols, such as `4*cp*g`: read, checked, and solved for the symbols."""

from __future__ import annotations

import ast
import bisect
import functools
import keyword
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from samebits.errors import DeclarationError

EXAMPLE = "sums and products of symbols and integers, as in 4*cp*g"

INDEX = re.compile(r"\bindex(\d+)\b")
"""The place of an element along a dimension, in expressions of what an element is."""

_LOWEST = re.compile(r">=\s*(-?\d+)")
_NAME = re.compile(r"[A-Za-z_]\w*")

_RESERVED = ("max", "min", "mod", "floordiv")
"""What jax reads as operations in expressions of sizes."""

MOST_TRIED = 100_000
"""How many values of symbols are tried where an expression has several unknown ones."""


@dataclass(frozen=True, slots=True)
class SizeSymbols:
    """Which symbols sizes are made of.

    Args:
        expressions: by the name of a size, what it is of free symbols.
        lowest: by free symbol, its smallest value, where that is not 1.
    """

    expressions: Mapping[str, str] = field(default_factory=dict)
    lowest: Mapping[str, int] = field(default_factory=dict)

    def low(self, symbol: str) -> int:
        """Return the smallest value of a symbol."""
        return self.lowest.get(symbol, 1)

    def text(self, name: str) -> str:
        """Return what a size is: its expression, or itself as a symbol."""
        return self.expressions.get(name, name)

    def free(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the free symbols of some sizes, in order."""
        named = [name for name in names if name in self.expressions or is_symbol(name)]
        return tuple(dict.fromkeys(symbol for name in named for symbol in _NAME.findall(self.text(name))))

    def numbers(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Return the free symbols at which the sizes are these numbers; None where there are none.

        A size below 1 that no expression is about has no symbol.
        """
        used = {*self.expressions, *self.free(tuple(self.expressions))}
        named = {name: number for name, number in sizes.items() if name in self.expressions or is_symbol(name)}
        equations = [(self.text(name), number) for name, number in named.items() if number >= 1 or name in used]
        tries = iter(range(MOST_TRIED))
        return _solved(equations, dict(self.lowest), {}, tries)


def size_symbols(where: str, declared: Mapping[str, str], known: Mapping[str, int | None]) -> SizeSymbols:
    """Read declared symbols.

    Args:
        where: the declaration, for messages.
        declared: by the name of a size its expression, or by the name of a symbol its smallest value as in ">= 2".
        known: by the name of a size its declared number; None where there is none, as of a mesh axis.
    """
    for name, text in declared.items():
        if not isinstance(text, str):
            raise DeclarationError(
                f"{where}: '{name}' is {text!r}, of type {type(text).__name__}; expected an expression as a text, "
                f"of {EXAMPLE}"
            )
    return _read(where, tuple(declared.items()), tuple(known.items()))


@functools.lru_cache(maxsize=1024)  # proofs for many numbers of devices read the same declaration thousands of times
def _read(
    where: str, declared: tuple[tuple[str, str], ...], numbers: tuple[tuple[str, int | None], ...]
) -> SizeSymbols:
    known = dict(numbers)
    texts: dict[str, str] = {}
    lowest: dict[str, int] = {}
    for name, text in declared:
        bound = _LOWEST.fullmatch(text.strip())
        if bound is not None:
            lowest[name] = int(bound[1])
        elif name not in known:
            listed = ", ".join(known) or "none"
            raise DeclarationError(f"{where}: '{name}' is not a size; the sizes are {listed}, each to be an expression")
        else:
            check_expression(f"{where}: '{name}'", text)
            texts[name] = text
    # What an expression names is a symbol wherever it stands, in static arguments too.
    used = dict.fromkeys(name for text in texts.values() for name in _NAME.findall(text) if name in known)
    texts |= {name: name for name in used if name not in texts}
    expressions = {name: _substituted(where, name, texts, ()) for name in texts}
    symbols = SizeSymbols(expressions, {name: low for name, low in lowest.items() if low != 1})
    _check_lowest(where, symbols, lowest, known)
    _check_numbers(where, symbols, known)
    return symbols


def is_symbol(name: str) -> bool:
    """Tell whether a size of this name can be a symbol of the same name; any other is a number."""
    return _NAME.fullmatch(name) is not None and not keyword.iskeyword(name) and name not in _RESERVED


def symbols_in(text: str) -> tuple[str, ...]:
    """Return the symbols of an expression, in order."""
    return tuple(dict.fromkeys(_NAME.findall(text)))


def value_of(text: str, numbers: Mapping[str, Any]) -> Any:
    """Evaluate an expression of numbers, or of arrays of numbers."""
    return _value(_parsed(text), numbers)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, numbers: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return numbers[name]
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _value(left, numbers), _value(right, numbers)
            if isinstance(op, ast.Mult):
                return first * second
            return first + second if isinstance(op, ast.Add) else first - second
    raise TypeError(ast.dump(node))


def check_expression(
    where: str,
    text: str,
    divided: str = "write the other size as a product instead, as in length=4*cp*g",
    subtracted: str | None = "write the other size as a sum instead: all=own+rest",
) -> None:
    """Reject what is not an expression of sizes.

    `divided` and `subtracted` say what to write where it divides or subtracts a symbol; None where it may.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise DeclarationError(f"{where} is '{text}', which is not an expression; expected {EXAMPLE}") from None
    if not text.isascii():  # Python reads some letters as others
        raise DeclarationError(f"{where} is '{text}', which has letters beyond ASCII; expected {EXAMPLE}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not is_symbol(node.id):
            raise DeclarationError(f"{where} is '{text}', and '{node.id}' cannot be the name of a symbol; give another")
        if isinstance(node, ast.Div | ast.FloorDiv | ast.Mod):
            raise DeclarationError(f"{where} is '{text}', which divides; {divided}")
        subtracts = isinstance(node, ast.Sub) and any(isinstance(part, ast.Name) for part in _subtracted(tree))
        if subtracts and subtracted is not None:
            raise DeclarationError(f"{where} is '{text}', which subtracts a symbol; {subtracted}")
        whole = isinstance(node, ast.Constant) and type(node.value) is int
        if not (whole or isinstance(node, ast.BinOp | ast.Name | ast.Load | ast.Add | ast.Sub | ast.Mult)):
            raise DeclarationError(f"{where} is '{text}', which is not an expression of sizes; expected {EXAMPLE}")


def _subtracted(tree: ast.expr) -> Iterator[ast.AST]:
    """Yield what stands to the right of a minus."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield from ast.walk(node.right)


def _substituted(where: str, name: str, texts: Mapping[str, str], above: tuple[str, ...]) -> str:
    """Put the expressions of other sizes in place of their names."""
    if name in above:
        raise DeclarationError(f"{where}: '{name}' is an expression of itself ({' of '.join((*above, name))})")

    def inner(match: re.Match[str]) -> str:
        other = match[0]
        if other not in texts or texts[name].strip() == name:
            return other
        return f"({_substituted(where, other, texts, (*above, name))})"

    return _NAME.sub(inner, texts[name].strip())


def _check_lowest(where: str, symbols: SizeSymbols, lowest: Mapping[str, int], known: Mapping[str, int | None]) -> None:
    """Reject a smallest value of what is not a free symbol, or below 1; and sizes that could be below 1."""
    free = symbols.free(tuple(known))
    for symbol, low in lowest.items():
        if symbol in symbols.expressions or symbol not in free:
            raise DeclarationError(f"{where}: '{symbol}' is not a free symbol; the free symbols are {', '.join(free)}")
        if low < 1:
            raise DeclarationError(f"{where}: '{symbol}' is to be from {low} on; expected a smallest value from 1 on")
    for name, text in symbols.expressions.items():
        smallest = {symbol: symbols.low(symbol) for symbol in _NAME.findall(text)}
        parts = [part for part in ast.walk(ast.parse(text, mode="eval")) if isinstance(part, ast.BinOp)]
        # Without a part below 0 there, an expression grows with each of its symbols.
        least = min([value_of(text, smallest), *(_value(part, smallest) + 1 for part in parts)])
        if least < 1:
            at = ", ".join(f"{symbol}={low}" for symbol, low in smallest.items())
            raise DeclarationError(
                f"{where}: '{name}' is '{text}', which is or has a part below 1 at {at}; give a symbol a larger "
                f"smallest value, as in {{'{next(iter(smallest), 'c')}': '>= 2'}}"
            )


def _check_numbers(where: str, symbols: SizeSymbols, known: Mapping[str, int | None]) -> None:
    """Reject expressions that cannot be the declared numbers."""
    sizes = {name: number for name, number in known.items() if number is not None}
    alone = {name: sizes[name] for name in symbols.expressions if name in sizes}
    for name, number in alone.items():
        if symbols.numbers({name: number}) is None:
            raise DeclarationError(
                f"{where}: '{name}' is '{symbols.expressions[name]}', which is never {number}, its declared size"
            )
    if symbols.numbers(sizes) is None:
        listed = ", ".join(f"{name}={symbols.expressions[name]} ({number})" for name, number in alone.items())
        raise DeclarationError(f"{where}: the declared sizes do not fit their expressions together: {listed}")


def _solved(
    equations: list[tuple[str, int]], lowest: Mapping[str, int], values: dict[str, int], tries: Iterator[int]
) -> dict[str, int] | None:
    """Solve for all symbols, first the equation with fewest unknown ones."""
    if next(tries, None) is None:
        return None
    left = []
    for text, number in equations:
        unknown = [name for name in dict.fromkeys(_NAME.findall(text)) if name not in values]
        if unknown:
            left.append((len(unknown), unknown, text, number))
        elif value_of(text, values) != number:
            return None
    if not left:
        return values
    count, unknown, text, number = min(left, key=lambda entry: entry[0])
    name = unknown[0]
    smallest = {**values, **{other: lowest.get(other, 1) for other in unknown}}

    def least(value: int) -> int:
        return int(value_of(text, {**smallest, name: value}))

    # Expressions grow with each of their symbols.
    span = range(smallest[name], smallest[name] + number + 1)
    largest = bisect.bisect_right(span, number, key=least)
    for value in span[largest - 1 : largest] if count == 1 else span[:largest]:
        solved = _solved(equations, lowest, {**values, name: value}, tries)
        if solved is not None or count == 1:
            return solved
    return None
