"""A question in parts: what is not covered in the computation of one output says nothing of the other outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from samebits.errors import BrokenPromise, MissingRule, NotCovered
from samebits.interpret.dead_code import live
from samebits.interpret.inner_equations import equations
from samebits.interpret.problem import Question

MOST_PARTS = 24
"""How many parts of a question are asked by themselves, at most."""

Answer = TypeVar("Answer")


def by_parts(
    question: Question, ask: Callable[[Question], Mapping[str, Answer]], uncovered: Callable[[NotCovered], Answer]
) -> dict[str, Answer]:
    """The answers to a question, by output; where it is not covered as a whole, those to smaller and smaller parts.

    Args:
        question: about all outputs.
        ask: answers a question about some of them, or raises.
        uncovered: the answer for an output whose computation is not covered.

    Raises:
        BrokenPromise: a program breaks a promise about its indices, the variant perhaps alone.
        NotCovered: nothing of it is covered; the error is that of the whole.
    """
    answers: dict[str, Answer] = {}
    lost: list[str] = []
    first, waiting, count = None, [question], 0
    while waiting:
        part = waiting.pop(0)
        try:
            answers |= ask(part)
        except BrokenPromise:
            raise
        except NotCovered as error:
            first = first or error
            smaller = smaller_parts(part, error)
            if count + len(smaller) > MOST_PARTS:
                smaller = []
            count += len(smaller)
            waiting += smaller
            left = [name for name in part.outputs if all(name not in each.outputs for each in smaller)]
            answers |= dict.fromkeys(left, uncovered(error))
            lost += left
    if first is not None and len(lost) == len(question.outputs):
        raise first
    return {name: answers[name] for name in question.outputs}


def smaller_parts(question: Question, why: NotCovered) -> list[Question]:
    """What to ask instead: the halves; or without a rule for a primitive, the outputs that are computed without it."""
    outputs = list(question.outputs)
    if len(outputs) < 2:
        return []
    if isinstance(why, MissingRule):
        without = [name for name in outputs if not _contains(question.only([name]), why.primitive)]
        return [question.only(without)] if without else []
    middle = len(outputs) // 2
    return [question.only(half) for half in (outputs[:middle], outputs[middle:])]


def _contains(question: Question, primitive: str) -> bool:
    programs = (question.reference, question.variant)
    return any(each.primitive.name == primitive for program in programs for each in equations(live(program).jaxpr))
