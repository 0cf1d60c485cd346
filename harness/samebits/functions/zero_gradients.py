"""Arguments without a gradient: of those that both functions ignore, the gradient is zero by construction.

Comparing two arrays of such zeros would say nothing, so it is left out, and said. Where only one of the two functions
ignores an argument, the gradients are compared and differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from samebits.errors import CouldNotRun
from samebits.programs.sides import Site, TracedSides
from samebits.schema.argument_trees import ArgTree
from samebits.schema.case import Arg
from samebits.schema.pair import Pair


def without_zero_gradients(pair: Pair, sides: TracedSides, sites: Mapping[str, Site]) -> tuple[Pair, tuple[str, ...]]:
    """The pair without the gradients that are zero by construction on both sides, with a note about them.

    Args:
        pair: of two functions.
        sides: its programs.
        sites: where each side runs.
    """
    from samebits.programs.host_trees import named_leaves

    names: set[str] | None = None
    paths: list[str] = []
    for side, site in sites.items():
        try:
            program = sides.gradient(side, site)
        except CouldNotRun:  # running it gives the error, with its line
            return pair, ()
        if program.error is not None:
            return pair, ()
        paths = list(named_leaves(program.traced.out_info, "gradient"))
        closed = program.traced.jaxpr
        zero = {
            path for path, out in zip(paths, closed.jaxpr.outvars, strict=True) if _is_zero(closed.jaxpr, out, depth=0)
        }
        names = zero if names is None else names & zero
    if not names:
        return pair, ()
    args = {name: _without(name, declared, names) for name, declared in dict(pair.args).items()}  # type: ignore[arg-type]
    left = ", ".join(sorted(names))
    note = f"no gradient with respect to {left}: neither function's result depends on it differentiably"
    changed = replace(pair, args=args)
    everything = names >= set(paths)
    return (replace(changed, gradients=False) if everything else changed), (note,)


def _without(name: str, tree: Arg | ArgTree, names: set[str]) -> Arg | ArgTree:
    if isinstance(tree, Arg):
        return replace(tree, differentiable=False) if name in names else tree
    args = tuple(
        replace(arg, differentiable=False) if name + path in names else arg
        for path, arg in zip(tree.paths, tree.args, strict=True)
    )
    return replace(tree, args=args)


def _is_zero(jaxpr: Any, variable: Any, *, depth: int) -> bool:
    """Whether a value of a jaxpr is a constant zero that does not depend on any input."""
    value = getattr(variable, "val", None)
    if value is not None:
        return getattr(value, "ndim", 0) == 0 and bool(value == 0)
    equation = next((e for e in jaxpr.eqns if any(out is variable for out in e.outvars)), None)
    if equation is None or depth > 20:
        return False
    if equation.primitive.name in ("broadcast_in_dim", "convert_element_type", "reshape", "sharding_constraint"):
        return _is_zero(jaxpr, equation.invars[0], depth=depth + 1)
    if equation.primitive.name in ("jit", "pjit"):
        inner = equation.params["jaxpr"].jaxpr
        place = next(i for i, out in enumerate(equation.outvars) if out is variable)
        return _is_zero(inner, inner.outvars[place], depth=depth + 1)
    return False
