"""Random formulas as trees, with rules to rewrite them: true ones, and ones that make another formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from tests.interpret.programs import Tape

Array = Any


@dataclass(frozen=True)
class Formula:
    """A node of a formula: an operation and its parts; leaves are inputs by number and constants."""

    operation: str
    parts: tuple[Formula, ...] = ()
    leaf: float = 0

    def __call__(self, *inputs: Array) -> Array:
        if self.operation == "input":
            return inputs[int(self.leaf)]
        if self.operation == "constant":
            return jnp.float32(self.leaf) + 0 * inputs[0]
        return OPERATIONS[self.operation](*(part(*inputs) for part in self.parts))


OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "exp": lambda a: jnp.exp(a / 4),
    "square": jnp.square,
    "cube": lambda a: a**3,
    "total": lambda a: jnp.broadcast_to(a.sum(), a.shape),
    "turned": lambda a: a[::-1],
    "cast": lambda a: a.astype(jnp.bfloat16).astype(a.dtype),
}
ARITIES = {"add": 2, "sub": 2, "mul": 2, "div": 2} | dict.fromkeys(
    ("neg", "exp", "square", "cube", "total", "turned"), 1
)
CONSTANTS = (1.0, 2.0, 1 / 3, 0.1, 1e-3, 3.0, 8**-0.5, -0.7)


def of(operation: str, *parts: Formula) -> Formula:
    return Formula(operation, parts)


def number(value: float) -> Formula:
    return Formula("constant", (), value)


def formula(pick: Tape, depth: int) -> Formula:
    """A random formula."""
    if depth == 0 or pick(5) == 0:
        return Formula("input", (), pick(3)) if pick(3) else number(pick.of(CONSTANTS))
    operation = pick.of(sorted(ARITIES))
    return of(operation, *(formula(pick, depth - 1) for _ in range(ARITIES[operation])))


Rewrite = Callable[[Formula, Formula], Formula | None]
"""From a node, and any other formula, to what may stand in its place; None where it does not fit."""


def at(operation: str, rewrite: Callable[..., Formula | None]) -> Rewrite:
    return lambda node, other: rewrite(*node.parts) if node.operation == operation else None


def within(outer: str, inner: str, rewrite: Callable[..., Formula]) -> Rewrite:
    """Of outer(a, inner(b, c))."""

    def found(node: Formula, other: Formula) -> Formula | None:
        if node.operation != outer or node.parts[-1].operation != inner:
            return None
        return rewrite(*node.parts[:-1], *node.parts[-1].parts)

    return found


TRUE: dict[str, Rewrite] = {
    "a + b = b + a": at("add", lambda a, b: of("add", b, a)),
    "a b = b a": at("mul", lambda a, b: of("mul", b, a)),
    "a + (b + c) = (a + b) + c": within("add", "add", lambda a, b, c: of("add", of("add", a, b), c)),
    "a (b c) = (a b) c": within("mul", "mul", lambda a, b, c: of("mul", of("mul", a, b), c)),
    "a (b + c) = a b + a c": within("mul", "add", lambda a, b, c: of("add", of("mul", a, b), of("mul", a, c))),
    "a - b = -(b - a)": at("sub", lambda a, b: of("neg", of("sub", b, a))),
    "a - b = a + -1 b": at("sub", lambda a, b: of("add", a, of("mul", number(-1.0), b))),
    "a / b = a (1 / b)": at("div", lambda a, b: of("mul", a, of("div", number(1.0), b))),
    "exp(b + c) = exp(b) exp(c)": within("exp", "add", lambda b, c: of("mul", of("exp", b), of("exp", c))),
    "exp(a) = 1 / exp(-a)": at("exp", lambda a: of("div", number(1.0), of("exp", of("neg", a)))),
    "a^2 = a a": at("square", lambda a: of("mul", a, a)),
    "a^3 = a a^2": at("cube", lambda a: of("mul", a, of("square", a))),
    "total(b + c) = total(b) + total(c)": within(
        "total", "add", lambda b, c: of("add", of("total", b), of("total", c))
    ),
    "total(a) = total(turned a)": at("total", lambda a: of("total", of("turned", a))),
    "a = turned turned a": lambda a, other: of("turned", of("turned", a)),
    "a = (a - b) + b": lambda a, other: of("add", of("sub", a, other), other),
    "a = 3 a (1 / 3)": lambda a, other: of("mul", of("mul", number(3.0), a), number(1 / 3)),
    "a = a rounded": lambda a, other: of("cast", a),
}

FALSE: dict[str, Rewrite] = {
    "a + b for a - b": at("sub", lambda a, b: of("add", a, b)),
    "b - a for a - b": at("sub", lambda a, b: of("sub", b, a)),
    "b / a for a / b": at("div", lambda a, b: of("div", b, a)),
    "a for a + b": at("add", lambda a, b: a),
    "a for a b": at("mul", lambda a, b: a),
    "a for -a": at("neg", lambda a: a),
    "exp(b) + exp(c) for exp(b + c)": within("exp", "add", lambda b, c: of("add", of("exp", b), of("exp", c))),
    "a^3 for a^2": at("square", lambda a: of("cube", a)),
    "turned a for a": lambda a, other: of("turned", a),
    "b for a": lambda a, other: other,
    "one ulp of bfloat16": lambda a, other: of("mul", a, number(1 + 2**-7)),
    "one ulp of float32": lambda a, other: of("mul", a, number(1 + 2**-23)),
    "an epsilon": lambda a, other: of("add", a, number(1e-6)),
    "a total over one element less": at("total", lambda a: of("sub", of("total", a), a)),
}


def rewritten(node: Formula, rules: dict[str, Rewrite], pick: Tape) -> Formula:
    """A formula with one rule applied, somewhere where it fits, or as it is."""
    places = [(rule, path) for path in paths(node) for rule in rules.values()]
    other = formula(pick, 1)
    for _ in range(40):
        rule, path = places[(pick(256) * 256 + pick(256)) % len(places)]
        found = rule(follow(node, path), other)
        if found is not None:
            return replaced(node, path, found)
    return node


def paths(node: Formula) -> list[tuple[int, ...]]:
    return [(), *((k, *path) for k, part in enumerate(node.parts) for path in paths(part))]


def follow(node: Formula, path: tuple[int, ...]) -> Formula:
    return follow(node.parts[path[0]], path[1:]) if path else node


def replaced(node: Formula, path: tuple[int, ...], new: Formula) -> Formula:
    if not path:
        return new
    parts = list(node.parts)
    parts[path[0]] = replaced(parts[path[0]], path[1:], new)
    return Formula(node.operation, tuple(parts), node.leaf)
