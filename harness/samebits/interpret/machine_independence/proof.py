"""Whether bits that are equal here are equal on every machine: each side's own bits do not depend on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.interpret.interpreter import Interpreter
from samebits.interpret.machine_independence.domain import IndependenceDomain
from samebits.interpret.machine_independence.state import EXACT, ROUNDED, IndependenceState, raw
from samebits.interpret.problem import Question


@dataclass(frozen=True, slots=True)
class Independence:
    """What is known of one output at one input.

    Args:
        holds: both sides have the same bits on every machine.
        how: the argument, or where it ends, in words.
    """

    holds: bool
    how: str


def independence(question: Question) -> dict[str, Independence]:
    """Interpret both sides at the inputs of a question.

    That equal bits of sides that do not depend on the machine are equal everywhere needs no proof about the two
    programs together: each is determined by its inputs alone.

    Args:
        question: both programs, and inputs of which the very values count.

    Returns:
        What holds of each output, by name.

    Raises:
        NotCovered: a side decides by, or addresses with, numbers that depend on the machine.
    """
    sides, products = [], False
    for program in (question.reference, question.variant):
        domain = IndependenceDomain(question.platform)
        args = [_argument(argument.values) for argument in question.inputs]
        sides.append(Interpreter(domain, question.platform)(program, *args))
        products = products or domain.products > 0
    proofs = {}
    for name, outputs in zip(question.outputs, zip(*sides, strict=True), strict=True):
        gone = next((output for output in outputs if isinstance(output, IndependenceState) and output.is_lost), None)
        if gone is not None:
            proofs[name] = Independence(False, gone.why or "its numbers depend on the machine")
        else:
            rests = "; products of matrices keep float32, as on a CPU" if products else ""
            proofs[name] = Independence(True, _words(outputs) + rests)
    return proofs


def _argument(values: Any) -> Any:
    array = np.asarray(values)
    return array if array.dtype.kind in "iub" else raw(array.astype(np.float64))


def _words(outputs: Sequence[Any]) -> str:
    """How the elements of an output come about, the weakest reason last."""
    states = set()
    for output in outputs:
        states |= set(np.unique(output.state).tolist()) if isinstance(output, IndependenceState) else {"integers"}
    words = ["integers and comparisons of inputs"] if states == {"integers"} else []
    if EXACT in states:
        words.append("sums and products that are exact in any order at these inputs")
    if ROUNDED in states:
        words.append("one correctly rounded operation per element")
    return " and ".join(words) or "elements of the inputs, moved"


def independence_at_all_inputs(questions: Sequence[Question]) -> dict[str, Independence]:
    """The same at several inputs: it holds where it holds at each.

    Raises:
        NotCovered: a side decides by numbers that depend on the machine.
    """
    proofs: dict[str, Independence] = {}
    for question in questions:
        for name, proof in independence(question).items():
            if name not in proofs or proofs[name].holds:
                proofs[name] = proof
    return proofs
