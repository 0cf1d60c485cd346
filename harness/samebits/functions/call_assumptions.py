"""Adds what a comparison holds for to its leaves: parameters left at their defaults, and outputs that are ignored.

A variant that ignores a flag is the same at the flag's default. Both programs are traced and evaluated in float64 with
each boolean flipped on both sides; nothing is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from samebits.errors import CouldNotRun
from samebits.functions.as_pair import PositionalCall
from samebits.functions.request import short_text
from samebits.programs.implementations import implementation, parameters_of
from samebits.schema.assumption import Assumption
from samebits.schema.finding import Finding, point_of
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair

if TYPE_CHECKING:
    from samebits.programs.program_cache import Programs


def left_at_defaults(pair: Pair) -> dict[str, Any]:
    """Return the parameters that both functions have and the call leaves out, with their defaults in the reference."""
    if pair.adapt:  # its parameters are other ones
        return {}
    case, mesh = pair.cases[0], MeshSpec.parse((*pair.meshes, *pair.wide_meshes)[0])
    passed = {*pair.arguments(case, mesh), *case.statics}
    reference, variant = (implementation(pair, side) for side in pair.sides)
    own = _defaults(variant)
    return {
        name: default
        for name, default in _defaults(reference).items()
        if name not in passed and default is not None and name in own
    }


def _defaults(side: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of the parameters that are neither passed by position nor bound by a `partial`."""
    count = 0
    if isinstance(side, PositionalCall):
        count, side = len(side.positional), side.__wrapped__
    left = [p for number, p in enumerate(parameters_of(side) or ()) if number >= count or p.kind is p.KEYWORD_ONLY]
    defaults = {p.name: p.default for p in left if p.kind is not p.POSITIONAL_ONLY and p.default is not p.empty}
    while isinstance(side, functools.partial):
        defaults = {name: default for name, default in defaults.items() if name not in side.keywords}
        side = side.func
    return defaults


def with_call_assumptions(
    leaves: Sequence[Finding], pair: Pair, programs: Programs, *, assuming: bool = True
) -> tuple[Finding, ...]:
    """Add to the leaves, where all hold, what the call leaves out, and how the sides differ at another boolean.

    Where `assuming`, defaults are listed even if no difference was seen.
    """
    if not all(leaf.ruling.ok or leaf.ruling.verdict == "skipped" for leaf in leaves):
        return tuple(leaves)
    left = left_at_defaults(pair)
    seen: dict[str, str] = {}
    forward = [leaf for leaf in leaves if _holds(leaf, pair) and leaf.place.direction == "forward"]
    for name in [name for name, default in left.items() if isinstance(default, bool)] if forward else ():
        for path, text in _differences(pair, programs, forward[0], name, value=not left[name]).items():
            # The first output stands for those that exist with the other value alone.
            seen[path if path in {leaf.place.leaf for leaf in forward} else forward[0].place.leaf] = text
    listed = ", ".join(
        f"{name}={getattr(value, '__name__', None) or short_text(value)}" for name, value in left.items()
    )
    defaults = Assumption("defaults", f"the defaults {listed}", "another value is given")
    ignored = Assumption("ignored", f"outputs that match {', '.join(pair.ignore)} are ignored", "these differ")
    result = []
    for leaf in leaves:
        assumptions = [ignored] if pair.ignore else []
        if left and (assuming or seen):
            counterexample = seen.get(leaf.place.leaf) if leaf.place.direction == "forward" else None
            assumptions.append(replace(defaults, counterexample=counterexample))
        taken = (*leaf.proof.assumptions, *assumptions)
        result.append(leaf.with_proof(assumptions=taken) if _holds(leaf, pair) else leaf)
    return tuple(result)


def _holds(leaf: Finding, pair: Pair) -> bool:
    return leaf.ruling.ok and leaf.place.variant != pair.reference_name


def _differences(pair: Pair, programs: Programs, leaf: Finding, name: str, *, value: bool) -> Mapping[str, str]:
    """Map outputs to how the sides differ where a boolean has this value on both; nothing where both reject it.

    Code that is not interpreted is not compared.
    """
    import jax

    from samebits.check.sites import sites_of
    from samebits.interpret.float64_differences import differences
    from samebits.programs.inputs import records
    from samebits.programs.sides import TracedSides
    from samebits.prove.problem import other_outputs, questions

    point = point_of(leaf.place)
    case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
    case = replace(case, statics={**case.statics, name: value})
    changed = replace(pair, cases=(case,), gradients=False)
    sides = TracedSides(changed, programs)
    words = f"with {name}={value} on both sides"
    try:
        job = sites_of(sides, point)
        ends = (pair.reference_name, job.alone), (point.variant, job.on_mesh)
        raised = {side: error for side, site in ends if (error := sides.forward(side, site).error) is not None}
        if raised:
            ((side, error), *other) = raised.items()
            return {} if other else {"*": f"'{side}' alone raises {type(error).__name__} {words}"}
        form = next((each for each in other_outputs(sides, "forward", *ends) if not each.equal), None)
        if form is not None:
            return {form.path: f"{form.kind}: {form.detail}, {words}"}
        record = next(iter(records(changed, case, point.dtype, mesh).values()))
        at: Mapping[str, Any] = {"": (record, {})}
        question = questions(
            sides, direction="forward", reference=ends[0], variant=ends[1], inputs=at, platform=jax.default_backend()
        )[""]
        apart = differences(question, question.outputs)
    except CouldNotRun:  # which the comparison says too, where it is not of this value alone
        return {}
    return {path: f"{text}, in float64, {words}" for path, text in apart.items()}
