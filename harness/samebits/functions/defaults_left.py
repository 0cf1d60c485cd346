"""Parameters that a comparison leaves at their defaults: listed where it passes, and its booleans tried the other way.

A variant that ignores a flag is the same at the flag's default. Both programs are traced and evaluated in float64 with
the flag turned round on both sides; nothing is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from samebits.functions.passed import Leaf, also_assuming
from samebits.programs.binding import parameters_of
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import implementation
from samebits.programs.plan import Plan
from samebits.schema.assumption import Assumption
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point

TURNED = 4
"""How many booleans are tried, each by itself."""

_LONGEST = 40  # characters of a default that are listed


def defaults_left(
    reference: Callable[..., Any],
    variant: Callable[..., Any],
    passed: Collection[str],
    positional: int = 0,
    rename: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The defaults of the reference's parameters that a call leaves out, where the variant has the parameter too.

    Args:
        reference, variant: two functions.
        passed: the names of what is passed.
        positional: how many arguments are passed by position.
        rename: by name, what the variant calls it.
    """
    own = _with_defaults(variant, positional)
    return {
        name: default
        for name, default in _with_defaults(reference, positional).items()
        if name not in passed and (rename or {}).get(name, name) in own and default is not None and _is_plain(default)
    }


def left_of(pair: Pair) -> dict[str, Any]:
    """The same of the two functions of a pair, which take all that it declares by name."""
    case = pair.cases[0]
    reference, variant = (implementation(pair, side) for side in (pair.reference_name, pair.variant_names[0]))
    declared = pair.arguments(case, MeshSpec.parse((*pair.meshes, *pair.wide_meshes)[0]))
    return defaults_left(reference, variant, {*declared, *case.statics}, rename=pair.rename)


def _with_defaults(side: Callable[..., Any], positional: int) -> dict[str, Any]:
    """By name the defaults of parameters that can be passed by keyword; what `partial` binds is chosen."""
    bound: set[str] = set()
    inner = side
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    return {
        p.name: p.default
        for number, p in enumerate(parameters_of(side) or ())
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.default is not p.empty
        and p.name not in bound
        and (number >= positional or p.kind is p.KEYWORD_ONLY)
    }


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | tuple | frozenset) or callable(value)


def with_defaults(
    leaves: Sequence[Leaf], pair: Pair, plan: Plan, left: Mapping[str, Any], *, assuming: bool = True
) -> tuple[Leaf, ...]:
    """The leaves that hold, with the defaults that they are for, and how the sides differ at another boolean.

    Args:
        leaves: of a comparison.
        pair: of the functions.
        plan: its points.
        left: what is left at its default.
        assuming: whether they are listed where no difference was seen.
    """
    if not left or not leaves or not all(leaf.ok or leaf.verdict == "skipped" for leaf in leaves):
        return tuple(leaves)
    point = next((p for p in plan.points if p.variant != pair.reference_name and p.direction == "forward"), None)
    seen: dict[str, str] = {}
    for name in [name for name, default in left.items() if isinstance(default, bool)][:TURNED] if point else ():
        assert point is not None
        seen = {**_turned(pair, point, name, value=not left[name]), **seen}
    if not (assuming or seen):
        return tuple(leaves)
    listed = ", ".join(f"{name}={_text(default)}" for name, default in left.items())
    mine = [leaf for leaf in leaves if leaf.ok and leaf.variant != pair.reference_name]
    forward = [leaf.leaf for leaf in mine if leaf.direction == "forward"]
    if seen and forward and not set(forward) & set(seen):  # of outputs that there are with the other value alone
        seen[forward[0]] = next(iter(seen.values()))

    def taken(leaf: Leaf) -> Assumption:
        counterexample = seen.get(leaf.leaf) if leaf.direction == "forward" else None
        return Assumption("defaults", f"the defaults {listed}", "another value is given", counterexample=counterexample)

    return tuple([also_assuming(each, taken(each)) if each in mine else each for each in leaves])


def _turned(pair: Pair, point: Point, name: str, *, value: bool) -> dict[str, str]:
    """By output how the sides differ where a boolean is turned round on both; nothing where both reject it."""
    from samebits.engine.prove_points import PointProver, sites_of
    from samebits.interpret.float64_differences import differences
    from samebits.programs.sides import Site
    from samebits.prove.problem import other_outputs

    case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
    case = replace(case, statics={**case.statics, name: value})
    changed = replace(pair, cases=(case,), gradients=False)
    words = f"with {name}={value} on both sides"
    prover = PointProver(changed, Locator(name=pair.name), tested=True)  # by the comparison that this one follows
    try:
        on_mesh = Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=mesh.abstract(point.mode))
        sites = sites_of(prover.sides, point, on_mesh)
        ends = (pair.reference_name, sites.alone), (point.variant, sites.on_mesh)
        raised = [prover.sides.forward(*end).error for end in ends]
        if raised[0] is not None or raised[1] is not None:
            side = pair.reference_name if raised[1] is None else point.variant
            both = raised[0] is not None and raised[1] is not None
            error = raised[0] or raised[1]
            return {} if both else {"*": f"'{side}' alone raises {type(error).__name__} {words}"}
        form = next((each for each in other_outputs(prover.sides, "forward", *ends) if not each.equal), None)
        if form is not None:
            return {form.path: f"{form.kind}: {form.detail}, {words}"}
        question = prover.questions(point, sites)[0]
        return {leaf: f"{text}, in float64, {words}" for leaf, text in differences(question, question.outputs).items()}
    except Exception:  # what cannot be evaluated says nothing, and a verdict that was found must not be lost to it
        return {}
    finally:
        prover.close()


def _text(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
