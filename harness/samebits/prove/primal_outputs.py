"""Whether a gradient has to return the outputs too: where differentiation computes them by another program."""

from __future__ import annotations

from dataclasses import replace

from samebits.programs.captured_values import equations
from samebits.programs.own_rules import own_rules
from samebits.programs.sides import Site, TracedSides
from samebits.prove.same_program import written
from samebits.schema.contract import Direction


def with_primal(sides: TracedSides, direction: Direction, variant: str, site: Site) -> Site:
    """Return the site at which gradients return the outputs too, where a rule of a side may change them.

    Args:
        sides: the programs.
        direction: of the point.
        variant: that is compared with the reference.
        site: where both are traced.
    """
    if direction == "forward":
        return site
    compared = dict.fromkeys((sides.pair.reference_name, variant))
    return replace(site, primal=True) if any(_changed(sides, side, site) for side in compared) else site


def _changed(sides: TracedSides, side: str, site: Site) -> bool:
    """Tell whether another program computes the outputs of a side when it is differentiated."""
    forward = sides.forward(side, site)
    if forward.error is not None or not own_rules(forward.traced.jaxpr):
        return False
    differentiated = sides.differentiated(side, site)
    if differentiated.error is not None:  # its gradient says why
        return False
    closed, own = differentiated.traced.jaxpr, written(forward.traced.jaxpr)
    # Where nothing is pulled back, `optimize_remat` calls the function in place of its rule.
    by_use = any(equation.primitive.name == "remat_opt" for equation in equations(closed))
    return by_use or own is None or own != written(closed)
