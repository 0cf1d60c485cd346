"""The lines of gradient rules written by hand.

jax gives every equation of a `custom_vjp` rule the source of the call whose gradient it is. The forward program still
has the rule: it is traced once more, and its equations stand in the same order as those of the gradient.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from samebits.interpret.alignment.graph import Graph
from samebits.interpret.alignment.sources import place_of
from samebits.interpret.inner_equations import equations


def with_rules(graph: Graph, forward: Any) -> None:
    """Give the values of a gradient that a rule computes the places in that rule.

    Args:
        graph: of the gradient; changed.
        forward: the closed jaxpr of the function itself.
    """
    written: dict[int, Any] = {}
    for call in equations(forward.jaxpr):
        if call.primitive.name != "custom_vjp_call" or place_of(call) is None:
            continue
        rule = _rule(call)
        mine = {id(node.equation): node.equation for node in graph.nodes if _is_backward_of(node.equation, call)}
        times = -(-len(mine) // len(rule)) if rule else 0
        names = [equation.primitive.name for equation in mine.values()], [e.primitive.name for e in rule] * times
        blocks = difflib.SequenceMatcher(None, *names, autojunk=False).get_matching_blocks()
        ids = [*mine]
        for block in blocks:
            for step in range(block.size):
                written[ids[block.a + step]] = rule[(block.b + step) % len(rule)]
    graph.nodes = [
        replace(node, written=written[id(node.equation)]) if id(node.equation) in written else node
        for node in graph.nodes
    ]


def _is_backward_of(equation: Any, call: Any) -> bool:
    """Whether an equation of a gradient has the source of a call, and is not one of its forward equations."""
    if equation is None or equation.primitive.name == "custom_vjp_call" or place_of(equation) != place_of(call):
        return False
    return "transpose" in str(equation.source_info.name_stack)


def _rule(call: Any) -> list[Any]:
    """The equations of the backward rule of a `custom_vjp` call; none where this jax does not give it away."""
    import jax

    params = call.params
    try:
        forward, _ = params["fwd_jaxpr_thunk"].call_wrapped(*(False for _ in call.invars[params["num_consts"] :]))
        forwarded = params["out_trees"]()[2]
        own = iter(forward.outvars[: len(forward.outvars) - len(call.outvars)])
        passed = call.invars[params["num_consts"] :]
        saved = [(next(own) if number is None else passed[number]).aval for number in forwarded]
        avals = [*saved, *(var.aval for var in call.outvars)]
        shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        return list(jax.make_jaxpr(params["bwd"].call_wrapped)(*shapes).jaxpr.eqns)
    except Exception:  # the parameters of this primitive are jax's own affair, and the rule is the user's code
        return []
