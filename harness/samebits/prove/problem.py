"""From the sides of a pair to a question for a proof: both programs, and their inputs by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.complex_pairs import real_program
from samebits.interpret.equation import Step
from samebits.interpret.float64_differences import outputs_of
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Input, Magnitudes, Question
from samebits.numerics import floats
from samebits.numerics.bits import Comparison, free_places
from samebits.numerics.by_content import by_content
from samebits.numerics.difference_kinds import Kind
from samebits.programs.host_trees import compare_trees, declared_tree, named_leaves
from samebits.programs.inputs import Array, Record, arg_below, cotangent, differentiable, is_key
from samebits.programs.program_cache import Program
from samebits.programs.sides import Site, TracedSides
from samebits.schema.case import Arg, Case
from samebits.schema.domain import Fact, RequiredFact, cotangent_of
from samebits.schema.values import Given, Integers, Normal, Uniform

_TREE: tuple[Kind, ...] = ("structure", "dtype", "shape")
"""Differences of outputs that leave no common cotangent."""


def questions(
    sides: TracedSides,
    *,
    direction: str,
    reference: tuple[str, Site],
    variant: tuple[str, Site],
    inputs: Mapping[str, tuple[Record, Mapping[str, Array]]],
    platform: str | None,
) -> dict[str, Question]:
    """Return what is to be proved of two sides, each with its site, at each of several inputs by label.

    The inputs are those of the case, and for a gradient the cotangents by output leaf.
    """
    programs = [traced_program(sides, direction, *side) for side in (reference, variant)]
    args, dtype, case = sides.args(reference[1]), reference[1].dtype, reference[1].case
    outputs = tuple(named_leaves(programs[0].traced.out_info, direction))
    first, second = (real_program(program.traced.jaxpr) for program in programs)
    by_label, known = {}, dict[int, dict[str, Input]]()
    for label, (record, cotangents) in inputs.items():
        if id(record) not in known:  # inputs with other cotangents share their record
            known[id(record)] = {name: input_of(name, args[name], array, case) for name, array in record.items()}
        flat = _inputs(args, known[id(record)], cotangents if direction == "gradient" else None, dtype)
        by_label[label] = Question(first, second, flat, outputs, platform)
    return by_label


def at_inputs(record: Record, question: Question) -> Record:
    """Return the inputs of a case as a question has them, but for complex ones, of which it has the parts."""
    others = {argument.name: argument.values for argument in question.inputs}
    return {
        name: others[name] if name in others and np.shape(others[name]) == np.shape(array) else array
        for name, array in record.items()
    }


def cotangents_of(sides: TracedSides, side: str, site: Site, kind: str = "random") -> dict[str, Array]:
    """Return the cotangents of one kind, as the runner draws them."""
    names = (sides.pair.name, site.case.id, site.dtype)
    types = sides.cotangent_types(side, site)
    return {path: cotangent(kind, t.shape, t.dtype, *names, path) for path, t in types.items()}


def other_outputs(
    sides: TracedSides, direction: str, reference: tuple[str, Site], variant: tuple[str, Site]
) -> list[Comparison]:
    """Return how the traced outputs of two sides differ in tree, dtype, weak type or shape; one comparison per leaf.

    A gradient whose forward outputs have another tree, dtype or shape is one single comparison: its side pulls back
    cotangents that the reference does not have.
    """
    if direction == "gradient":
        first, second = (
            declared_tree(traced_program(sides, "forward", *side), "forward", written=False)
            for side in (reference, variant)
        )
        for comparison in compare_trees(first, second, "out"):
            leaf = first.leaves.get(comparison.path)
            kinds = {kind: comparison.kinds[kind] for kind in _TREE if kind in comparison.kinds}
            if kinds and (leaf is None or floats.is_float(leaf.array.dtype) or floats.is_complex(leaf.array.dtype)):
                detail = (
                    f"of the forward output '{comparison.path}', so that other cotangents are pulled back: "
                    f"{comparison.detail}"
                )
                return [replace(comparison, path="*", kinds=kinds, detail=detail)]
    first, second = (declared_tree(traced_program(sides, direction, *side), direction) for side in (reference, variant))
    return compare_trees(first, second, "out")


def facts_not_kept(needed: Iterable[RequiredFact], questions: Iterable[Question]) -> tuple[RequiredFact, ...]:
    """Find the facts that the inputs of questions, or what the programs compute from them, break or may break.

    A fact is of an input, or of an operation of inputs: of all operands and results of that operation.
    """
    needed, questions = tuple(needed), tuple(questions)
    arrays: dict[str, list[Array]] = {}
    for question in questions:
        for argument in question.inputs:
            arrays.setdefault(argument.name, []).append(argument.values)
    seen = {fact.subject.partition(" of ")[0]: list[Array]() for fact in needed if fact.subject not in arrays}
    try:
        for question in questions if seen else ():
            for program in question.sides:
                outputs_of(question, program, _OperandsOf(seen))
    except NotCovered:  # some of what it computes is not seen
        seen = {}
    of = {fact: arrays.get(fact.subject) or seen.get(fact.subject.partition(" of ")[0], []) for fact in needed}
    return tuple(fact for fact in needed if not of[fact] or any(map(_BREAKS[fact.fact], of[fact])))


class _OperandsOf(Oracle):
    """The domain of float64 numbers that keeps what some operations take and give, in its dtype.

    Args:
        seen: gets the arrays, by the name of the operation.
    """

    def __init__(self, seen: dict[str, list[Array]]) -> None:
        super().__init__()
        self._seen = seen

    def apply(self, step: Step, values: Sequence[Array]) -> list[Array]:
        """Apply plain arithmetic."""
        results = super().apply(step, values)
        if step.name in self._seen:
            kinds = zip((*step.inputs, *step.outputs), (*values, *results), strict=True)
            with np.errstate(over="ignore", under="ignore"):
                self._seen[step.name] += [np.asarray(array, kind.dtype) for kind, array in kinds]
        return results


def _occurs(*tests: Callable[[Array], Array]) -> Callable[[Array], bool]:
    return lambda array: floats.is_float(array.dtype) and any(bool(np.any(test(array))) for test in tests)


def _negative_zero(array: Array) -> Array:
    return floats.is_zero(array) & floats.is_negative(array)


def _signalling(array: Array) -> Array:
    """Return a NaN without the first bit of its significand."""
    digits = floats.digits(array.dtype)
    if digits < 2:  # a format of powers of two
        return np.zeros(array.shape, bool)
    quiet = 1 << (digits - 2)
    return np.asarray(floats.isnan(array) & (floats.raw_bits(array) & quiet == 0))


_BREAKS: dict[Fact, Callable[[Array], bool]] = {
    "finite": _occurs(floats.isnan, floats.isinf),
    "no_negative_zero": _occurs(_negative_zero),
    "no_subnormal": _occurs(floats.is_subnormal),
    "no_nan": _occurs(floats.isnan),
    "no_signalling_nan": _occurs(_signalling),
}
"""Whether an array has an element of which a fact does not hold."""


def traced_program(sides: TracedSides, direction: str, side: str, site: Site) -> Program:
    """Return a side's program, forward or pull-back."""
    program = sides.forward(side, site) if direction == "forward" else sides.gradient(side, site)
    if program.error is not None:
        program.result()
    return program


def _inputs(
    args: Mapping[str, Arg], known: Mapping[str, Input], cotangents: Mapping[str, Array] | None, dtype: str
) -> tuple[Input, ...]:
    """Return the flat inputs in the order in which jax flattens the arguments of a side's program."""
    if cotangents is None:
        return tuple(jax.tree.leaves(known, is_leaf=lambda leaf: isinstance(leaf, Input)))
    chosen = {name: known[name] for name in differentiable(args, dtype)}
    rest = {name: argument for name, argument in known.items() if name not in chosen}
    pulled = [
        Input(cotangent_of(path), _real(np.asarray(array)), is_cotangent=True) for path, array in cotangents.items()
    ]
    return tuple(jax.tree.leaves((chosen, rest, pulled), is_leaf=lambda leaf: isinstance(leaf, Input)))


def _real(array: Array) -> Array:
    """Return an array as it is, the parts of complex numbers along one more dimension."""
    return floats.parts(array) if floats.is_complex(array.dtype) else array


def input_of(name: str, arg: Arg, array: Array, case: Case) -> Input:
    """Return an argument as an input of a question; the parts of complex numbers lie along one more dimension."""
    values = floats.parts(array) if floats.is_complex(array.dtype) else array
    return Input(
        name,
        values,
        is_index_operand(arg, array),
        magnitudes(arg, values),
        integer_range(name, arg, array, case),
        between=(arg.values.low, arg.values.high) if isinstance(arg.values, Uniform) and arg.equals is None else None,
    )


def is_index_operand(arg: Arg, array: Array) -> bool:
    """Return whether an argument is a routing: integers that the declaration gives values of their own."""
    return array.dtype.kind in "iub" and (arg.dtype is not None or isinstance(arg.values, Integers))


def magnitudes(arg: Arg, array: Array) -> Magnitudes:
    """What the declaration says of the numbers of an argument; an array that looks structured is taken at its word."""
    if isinstance(arg.values, Given):
        if array.dtype.kind in "iub":
            stated = arg.values.exactly or is_key(arg) or _looks_like_keys(array)
        else:
            # The array itself, of which what is drawn is a variation: one answer for all draws.
            stated = is_key(arg) or not (floats.is_float(array.dtype) and _looks_drawn(arg.values.array))
        return "stated" if stated else "given"
    integers = isinstance(arg.values, Integers) and bool(arg.values.high - arg.values.low > 1 or arg.values.also)
    drawn = arg.values == Normal() or integers
    return "all" if drawn and arg.equals is None and not is_key(arg) else "stated"


@by_content
def _looks_drawn(array: Array) -> bool:
    """Return whether numbers are in no order or pattern."""
    return bool(free_places(_real(array)).size)


def _looks_like_keys(array: Array) -> bool:
    """Return whether an array may be of the words of random keys."""
    return array.dtype == np.uint32 and array.ndim > 0 and array.shape[-1] in (2, 4)


def integer_range(name: str, arg: Arg, array: Array, case: Case) -> tuple[int, int] | None:
    """Return the smallest and the largest integer that an argument may hold; None of floats."""
    if array.dtype.kind not in "iub":
        return None
    if array.dtype.kind == "b" and not isinstance(arg.values, Integers):
        return 0, 1
    if isinstance(arg.values, Integers):
        numbers = arg.values.low, arg.values.high - 1, *arg.values.also
        return min(numbers), max(numbers)
    below = arg_below(arg, name, case)
    if below is not None:
        return 0, below - 1
    info = np.iinfo(array.dtype)
    return int(info.min), int(info.max)
