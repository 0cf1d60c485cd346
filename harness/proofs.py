"""From the sides of a pair to the question that a proof answers: programs, inputs by name, routings."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from harness.case import Arg
from harness.domain import cotangent_of
from harness.inputs import Array, Record, cotangent, differentiable
from harness.interpret.question import Input, Question
from harness.programs import Program
from harness.sides import Sides, Site, named_leaves
from harness.values import Integers


def question(
    sides: Sides,
    *,
    direction: str,
    reference: tuple[str, Site],
    variant: tuple[str, Site],
    record: Record,
    cotangents: Mapping[str, Array],
    platform: str | None,
) -> Question:
    """What is to be proved of two sides.

    Args:
        sides: the programs of the pair.
        direction: `forward` or `gradient`.
        reference, variant: side and site of each.
        record: the inputs of the case.
        cotangents: by output leaf, for a gradient.
        platform: whose branches run; None for the default branches.

    Raises:
        CouldNotRun: a side does not trace.
    """
    programs = [_program(sides, direction, *side) for side in (reference, variant)]
    args = sides.args(reference[1])
    inputs = _inputs(args, record, cotangents if direction == "gradient" else None, reference[1].dtype)
    outputs = tuple(named_leaves(programs[0].traced.out_info, direction))
    first, second = (program.traced.jaxpr for program in programs)
    return Question(first, second, inputs, outputs, platform)


def cotangents_of(sides: Sides, side: str, site: Site, kind: str = "random") -> dict[str, Array]:
    """The cotangents of one kind, as the runner draws them."""
    names = (sides.pair.name, site.case.id, site.dtype)
    types = sides.cotangent_types(side, site)
    return {path: cotangent(kind, t.shape, t.dtype, *names, path) for path, t in types.items()}


def steers(arg: Arg, array: Array) -> bool:
    """Whether an argument is a routing: integers that the declaration gives values of their own."""
    return array.dtype.kind in "iub" and (arg.dtype is not None or isinstance(arg.values, Integers))


def _program(sides: Sides, direction: str, side: str, site: Site) -> Program:
    program = sides.forward(side, site) if direction == "forward" else sides.gradient(side, site)
    if program.error is not None:
        program.result()
    return program


def _inputs(
    args: Mapping[str, Arg], record: Record, cotangents: Mapping[str, Array] | None, dtype: str
) -> tuple[Input, ...]:
    """The flat inputs in the order in which jax flattens the arguments of a side's program."""
    known = {name: Input(name, array, steers(args[name], array)) for name, array in record.items()}
    if cotangents is None:
        return tuple(jax.tree.leaves(known, is_leaf=lambda leaf: isinstance(leaf, Input)))
    chosen = {name: known[name] for name in differentiable(args, dtype)}
    rest = {name: one for name, one in known.items() if name not in chosen}
    pulled = [Input(cotangent_of(path), np.asarray(array)) for path, array in cotangents.items()]
    return tuple(jax.tree.leaves((chosen, rest, pulled), is_leaf=lambda leaf: isinstance(leaf, Input)))
