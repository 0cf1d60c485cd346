"""What the kernels of a point do wrong with their memory: then no comparison says what a device would compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from samebits.check.outcome import LeafOutcome
from samebits.errors import BrokenPromise, NotCovered
from samebits.host.isolation import note
from samebits.interpret.float64_differences import outputs_of
from samebits.interpret.inner_equations import equations
from samebits.interpret.kernel_memory import program_memory
from samebits.interpret.kernels import copies
from samebits.interpret.problem import Question
from samebits.numerics.bits import Comparison

Ask = Callable[[], Mapping[str, Question]]

SHOWN = 3
"""How many faults of a side are said."""


def at_fault(reference: Any, variant: Any, questions: Ask, *, executed: bool) -> LeafOutcome | None:
    """Return the outcome of a point with a kernel that uses its memory wrongly; None where none does.

    Args:
        reference, variant: the programs, as closed jaxprs.
        questions: gives those of the point by input, for what prefetched scalars decide.
        executed: whether the point is one that runs.
    """
    wrong = {"reference": _faults(reference, questions, "reference"), "variant": _faults(variant, questions, "variant")}
    if not any(wrong.values()):
        return None
    said = {side: "; ".join(faults[:SHOWN]) for side, faults in wrong.items() if faults}
    nothing = LeafOutcome(comparison=Comparison(path="*", elements=0), executed=executed)
    if "reference" in said:  # nothing can be held against it
        return replace(nothing, nothing="; ".join(f"a kernel of the {side}: {text}" for side, text in said.items()))
    return replace(nothing, undefined=f"{BrokenPromise.WORD}{said['variant']}")


def _faults(program: Any, questions: Ask, side: str) -> list[str]:
    """Return what is wrong whatever the values are, and at the inputs of the case where scalars or copies decide."""
    memory = program_memory(program)
    for text in memory.unseen:
        note(f"memory of kernels: {text}")
    copied = any(eqn.primitive.name == "pallas_call" and copies(eqn) for eqn in equations(program.jaxpr))
    if memory.faults or not (memory.unknown or copied):
        return [str(fault) for fault in memory.faults]
    try:
        for question in questions().values():
            outputs_of(question, getattr(question, side))
    except BrokenPromise as error:
        return [error.undefined.removeprefix(BrokenPromise.WORD)]
    except NotCovered:
        for text in memory.unknown:
            note(f"memory of kernels: {text}")
    return []
