"""Other values than those of the case, at which both programs are evaluated in float64: integers, masks, rows of zeros.

What integers decide holds for the integers of the case: a branch that is not taken, a step that ten does not divide,
an id of another shard, a sum that does not overflow yet. Both programs are evaluated once more at the ends of the
range that may be given, at the numbers with which either program compares or computes, and at every number of a small
range. All other inputs stay as they are. At the smallest numbers of a single integer, such as the first steps of a
training, formulas are compared where rounding hides a difference of float64 numbers.

Numbers that are drawn are never zero, and never tie. Rows of zeros are what padding leaves in a batch: they have no
norm, no largest element and no first choice among experts. One row near either end of each argument is made zero,
another one in each, and those of all arguments at once.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations, groupby, islice, permutations, product
from typing import Any, Literal

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.conditions import Condition, ElementTerm, both, conditions, value_of
from samebits.interpret.equation import Array
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.float64_differences import differences, values_of
from samebits.interpret.given_integers import facts_of, follows, given_arrays, literals, variations
from samebits.interpret.literals import meant
from samebits.interpret.oracle import CLOSE
from samebits.interpret.probes import other_cotangents
from samebits.interpret.problem import Input, Question
from samebits.numerics import floats
from samebits.numerics.bits import Comparison, Leaf, compare_leaf
from samebits.schema.picture import MagnitudeRow

# Floats at which a condition of either program is a tie: `x > 0.5` and `x >= 0.5` differ at 0.5 alone.
MOST_TIES = 32
"""How many ties are tried."""

BATCHES = 6
"""How often both programs are evaluated: the ties of an array with few elements, and of scalars, need several."""

_SIZES = np.geomspace(2.0**-14, 2.0**14, 281)  # ten in each octave
_GRID = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])


def boundaries(question: Question) -> Iterator[tuple[Question, str, bool]]:
    """The question with ties in elements of its free float inputs: those of arrays together, scalars one by one.

    Yields:
        The question, which numbers it has where, in words, and whether all lie in the range that is declared.
    """
    batches = groupby(sorted(islice(_ties_of_conditions(question), MOST_TIES)), lambda tie: tie[:3])
    for (beyond, *_), batch in islice(batches, BATCHES):
        changed, words = dict[int, Array](), list[str]()
        for number, ties in groupby(batch, lambda tie: tie[3]):
            argument, numbers = question.inputs[number], list[str]()
            values = changed[number] = np.array(argument.values, np.float64)
            for *_, place, value in ties:
                values.reshape(-1)[place] = value
                numbers.append(f"{value:.6g}")
            words.append(f"{', '.join(numbers[:4])}{', ...' if len(numbers) > 4 else ''} in '{argument.name}'")
        yield replace(question.having(changed), ties=True), " and ".join(words), not beyond


def _is_declared(argument: Input, value: float) -> bool:
    """Whether a tie lies in the range that is declared for an input, and its dtype has a literal for it."""
    exact = float(meant(np.asarray(value).astype(argument.values.dtype)))
    return argument.between is not None and abs(exact - value) <= CLOSE * abs(value)


def _ties_of_conditions(question: Question) -> Iterator[tuple[bool, bool, int, int, int, float]]:
    """The ties of both programs, each once for each input.

    Yields:
        Whether it lies beyond what is declared, whether its input is a scalar, the number of an evaluation, that of the
        input, the place of an element, and its value.
    """
    free = {number for number, argument in enumerate(question.inputs) if _is_free(argument)}
    seen: list[tuple[int, float]] = []
    programs = question.sides if free else ()
    for condition in {(c.first.key, c.second.key): c for program in programs for c in conditions(program)}.values():
        inputs = condition.first.inputs | condition.second.inputs
        if condition.first.dtype == bool or not all(question.inputs[other].values.size for other in inputs):
            continue
        for number in sorted(inputs & free):
            argument = question.inputs[number]
            size, (low, high) = argument.values.size, argument.between or (-np.inf, np.inf)
            apart = max(
                1, size // MOST_TIES
            )  # no two in one place, where a product with zero hides what the other one does
            others = {n: _beside(question, n, number, len(seen) * apart % size) for n in inputs - {number}}
            near = {float(f"{value:.15g}") for value in condition.crossings(number, others, _GRID)}  # one of both sides
            values = sorted(value for value in near if low <= value <= high)
            for value in (value for value in values if (number, value) not in seen):
                beyond, count = not _is_declared(argument, value), len(seen)
                yield beyond, size == 1, count // size, number, count * apart % size, value
                seen.append((number, value))
            if values:
                break  # a tie of one of the inputs is one of all


def _is_free(argument: Input) -> bool:
    """Whether an input may have other floats in some of its elements."""
    is_open = argument.magnitudes != "stated" or argument.between is not None
    return is_open and floats.is_float(argument.values.dtype) and bool(argument.values.size)


def _beside(question: Question, other: int, number: int, place: int) -> Array:
    """The element of another input that stands beside one of an input, as where its dimensions of 1 are repeated."""
    values, shape = np.asarray(question.inputs[other].values), question.inputs[number].values.shape
    with contextlib.suppress(ValueError):
        return np.asarray(np.broadcast_to(values, shape)[np.unravel_index(place, shape)]).reshape(1)
    return values.reshape(-1)[[place % values.size]]


# Integers at which a term is true, by z3: every number is a signed bit vector with two bits more than any dtype
# needs.
STEPS = 2_000_000
"""z3's resource limit for one question, some tenths of a second."""


class IntegerSolver:
    """Asks z3, with a state of its own, so that an answer depends on nothing that other pairs asked.

    Args:
        ranges: by number of an input, the smallest and the largest integer.
        bits: of the widest dtype.
    """

    def __init__(self, ranges: Mapping[int, tuple[int, int]], bits: int = 32) -> None:
        import z3  # here, because only a condition that nothing tried takes needs it

        self._z3, self._context, self._ranges, self._bits = z3, z3.Context(), ranges, bits + 2
        self._terms: dict[int, Any] = {}
        self._facts: list[Any] = []
        self._inputs: dict[int, Any] = {}

    def solution(self, wanted: ElementTerm) -> dict[int, int] | None:
        """By number of an input, integers at which a term is true; None where z3 knows none within its steps."""
        is_true = self._term(wanted) == 1
        solver = self._z3.SolverFor("QF_BV", ctx=self._context)
        solver.set("rlimit", STEPS)
        solver.add(is_true, *self._facts)
        if solver.check() != self._z3.sat:
            return None
        values = {number: solver.model().eval(self._inputs[number], True) for number in sorted(wanted.inputs)}
        return {number: value.as_signed_long() for number, value in values.items()}

    def _term(self, term: ElementTerm) -> Any:
        if term.dtype.kind not in "biu" or floats.width(term.dtype) > self._bits:
            raise NotCovered(f"{term.step} is not an integer of at most {self._bits} bits")
        if term.key not in self._terms:
            operands = [self._term(operand) for operand in term.operands]
            self._terms[term.key] = self._applied(term, operands) if operands else self._given(term)
        return self._terms[term.key]

    def _given(self, term: ElementTerm) -> Any:
        """An input within its range, or any number of the range of a constant."""
        variable = self._z3.BitVec(f"{len(self._terms)}", self._bits, self._context)
        if term.values is None:
            self._inputs[term.step.params["number"]] = variable
            low, high = self._ranges[term.step.params["number"]]
        else:
            low, high = int(term.values.min()), int(term.values.max())
        self._facts += [variable >= low, variable <= high]
        return variable

    def _applied(self, term: ElementTerm, operands: Sequence[Any]) -> Any:
        """What an operation gives, as its dtype holds it."""
        z3, bits, is_bool = self._z3, floats.width(term.dtype), term.dtype.kind == "b"
        rules: dict[str, Callable[..., Any]] = {
            **_OPERATORS,
            "abs": lambda x: z3.If(x < 0, -x, x),
            "clamp": lambda low, x, high: z3.If(x < low, low, z3.If(x > high, high, x)),
            "convert_element_type": lambda x: x != 0 if is_bool else x,
            "div": lambda x, y: z3.If(y == 0, -1, x / y),  # as XLA has it
            "integer_pow": lambda x: reduce(operator.mul, [x] * term.step.params["y"]),
            "max": lambda x, y: z3.If(x > y, x, y),
            "min": lambda x, y: z3.If(x < y, x, y),
            "not": lambda x: x == 0 if is_bool else ~x,
            "rem": lambda x, y: z3.If(y == 0, x, z3.SRem(x, y)),
            "select_n": lambda which, *cases: reduce(
                lambda rest, each: z3.If(which == each[0], each[1], rest), enumerate(cases[:-1]), cases[-1]
            ),
            "shift_right_logical": lambda x, y: z3.LShR(x & ((1 << bits) - 1), y),
            "sign": lambda x: z3.If(x > 0, x - x + 1, z3.If(x < 0, x - x - 1, x)),
        }
        if term.step.name not in rules:
            raise NotCovered(f"{term.step} has no rule for z3")
        number = rules[term.step.name](*operands)
        if z3.is_bool(number):
            return z3.If(number, *(z3.BitVecVal(bit, self._bits, self._context) for bit in (1, 0)))
        extended = z3.SignExt if term.dtype.kind == "i" else z3.ZeroExt
        return number if is_bool else extended(self._bits - bits, z3.Extract(bits - 1, 0, number))


_OPERATORS = {
    **{
        name: getattr(operator, name)
        for name in ("add", "eq", "ge", "gt", "le", "lt", "mul", "ne", "neg", "sub", "xor")
    },
    **{
        "and": operator.and_,
        "or": operator.or_,
        "shift_left": operator.lshift,
        "shift_right_arithmetic": operator.rshift,
    },
}
"""By primitive, the operator of z3; of products that wrap only those are known that two bits show."""


# Integers at which a condition of either program comes out as it did at no value tried.
MOST_SOLUTIONS = 16
"""How many solutions are tried, of conditions and of two of them together."""

LANES = 512
"""How many elements of an array are looked at."""

_RARE = 12  # conditions of which two are asked for at once

_STEPS = 256  # between so many numbers of a range a condition with floats is followed

Ranges = Mapping[int, tuple[int, int]]
Solution = dict[int, int]
"""By number of an input, an integer."""


def solutions(question: Question, tried: Sequence[Question]) -> Iterator[Solution]:
    """Yield integers at which conditions come out as at nothing that was tried; then two conditions at once."""
    ranges = {
        number: argument.integers
        for number, argument in enumerate(question.inputs)
        if argument.integers is not None
        and (argument.magnitudes == "all" or (argument.magnitudes == "given" and argument.values.size == 1))
        and argument.values.size
    }
    sides: dict[int, tuple[ElementTerm, Condition]] = {}
    for each in question.sides if ranges else ():
        for condition in conditions(each):
            own = [side for side in condition.sides() if side.inputs and side.inputs <= ranges.keys()]
            sides |= {side.key: (side, condition) for side in own}
    return islice(_solutions(question, tried, ranges, list(sides.values())), MOST_SOLUTIONS)


def _solutions(
    question: Question, tried: Sequence[Question], ranges: Ranges, sides: Sequence[tuple[ElementTerm, Condition]]
) -> Iterator[Solution]:
    solver, at = None, _elements([question], ranges)
    known: dict[int, Array] = {}
    rare = [each for each in sides if np.mean(value_of(each[0], at, known)) < 0.125][:_RARE]
    pairs = ((both(side, other), None) for (side, own), (other, of) in combinations(rare, 2) if own is not of)
    at, known = _elements([question, *tried], ranges), {}
    for side, condition in chain(sides, pairs):
        if np.any(value_of(side, at, known)):
            continue
        solver = solver or IntegerSolver(ranges, max(question.inputs[number].values.itemsize * 8 for number in ranges))
        try:
            solution = solver.solution(side)
        except NotCovered:
            solution = None if condition is None else _along(condition, side, at, ranges)
        if solution is not None:
            at = {n: np.append(each, np.asarray(solution.get(n, each[0]), each.dtype)) for n, each in at.items()}
            known = {}
            yield solution


def _elements(questions: Sequence[Question], ranges: Ranges) -> dict[int, Array]:
    """The integers of some questions, of every input as many, side by side."""
    each: dict[int, list[Array]] = {number: [] for number in ranges}
    for question in questions if ranges else ():
        count = min(max(np.size(question.inputs[number].values) for number in ranges), LANES)
        for number, arrays in each.items():
            arrays.append(np.resize(question.inputs[number].values, count))
    return {number: np.concatenate(arrays) for number, arrays in each.items()}


def _along(condition: Condition, side: ElementTerm, tried: Mapping[int, Array], ranges: Ranges) -> Solution | None:
    """Integers at which a condition with floats in it comes out like this: one input changes from what was tried."""
    rows = min(MOST_SOLUTIONS, *(values.size for values in tried.values()))
    for number, row in product(sorted(side.inputs), range(rows)):
        others = {other: values[[row]] for other, values in tried.items() if other != number}
        low, high = ranges[number]
        numbers = dict.fromkeys(low + (high - low) * step // _STEPS for step in range(_STEPS + 1))
        values = condition.crossings(number, others, np.array(list(numbers), tried[number].dtype))
        holds = values[np.broadcast_to(value_of(side, {**others, number: values}, {}), values.shape)]
        if holds.size:
            return {other: int(holds[0] if other == number else tried[other][row]) for other in side.inputs}
    return None


MOST = 12
"""How many other values of one argument are tried."""

SMALL = (0, 1, 2)
"""The first steps of a training, or the shortest of anything: there formulas are compared, not only numbers."""

ZERO_ALONE = 3
"""How many arguments of one row are made zero each by itself; the others all at once."""

NOISE = 1e-11
"""A relative difference in float64 below which formulas are not compared again: it may be noise."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Other inputs at which an output of both programs differs.

    Args:
        words: the values there, and which input has which values.
        allowed: such an input may be given; else it perhaps does not occur: an array was given in its place, all of
            a mask is true or false, or a row is zero.
        where: these inputs, in words.
        question: both programs at these inputs, where the lines that make them differ are looked for; None where they
            cannot be interpreted.
        values: what both gave there, in the dtype of the output; None where only formulas differ.
        table: the errors of both sides at several magnitudes, where one of these shows it.
        kind: `compiler` where a compiled program is not what is written, `accuracy` where the variant is less accurate.
    """

    words: str
    allowed: bool
    where: str = "other inputs"
    question: Question | None = None
    values: tuple[Array, Array] | None = None
    table: tuple[MagnitudeRow, ...] = ()
    kind: Literal["inputs", "compiler", "accuracy"] = "inputs"

    def comparison(self, path: str) -> Comparison | None:
        """How both sides differ there, with a witness; None where they have the same bits, or no values are known."""
        if self.values is None:
            return None
        first, second = (Leaf(array=array) for array in self.values)
        compared = compare_leaf(path, first, second)
        return None if compared.equal else compared


@dataclass(frozen=True, slots=True)
class Other:
    """A question with other inputs; with a small integer, at which formulas are compared too.

    Args:
        parts: how it is with fewer of them changed, if it is.
    """

    question: Question
    words: str
    allowed: bool
    small: bool
    parts: Callable[[], list[Other]] = list


def counterexamples(question: Question) -> dict[str, Counterexample]:
    """By output, other values at which the programs differ; nothing of outputs for which none were found."""
    result: dict[str, Counterexample] = {}
    before: list[Question] = []
    drawn = other_integers(question), _untaken(question, before), _given(question)
    for other in chain(*drawn, _other_cotangents(question), _zero_rows(question), _ties(question)):
        before.append(other.question)
        open_ = [name for name in question.outputs if name not in result or not result[name].allowed]
        if not open_:
            break
        if not other.allowed and set(open_) <= set(result):
            continue
        for name, (words, shown) in _seen(other, open_).items():
            if other.allowed or name not in result:
                result[name] = Counterexample(
                    f"{words}, with {shown.words}",
                    other.allowed,
                    where=shown.words,
                    question=shown.question,
                    values=values_of(shown.question, name),
                )
    return result


def _seen(other: Other, outputs: list[str]) -> dict[str, tuple[str, Other]]:
    """By output that differs at other inputs, how, and at which: those with the fewest changed that show it."""
    seen = {name: f"{words}, in float64" for name, words in differences(other.question, outputs).items()}
    if other.small:
        seen |= _other_formulas(other.question, [name for name in outputs if name not in seen])
    result = {name: (words, other) for name, words in seen.items()}
    for part in other.parts() if seen else ():
        narrower = _seen(part, [name for name in seen if result[name][1] is other])
        result |= narrower
    return result


def _other_formulas(question: Question, outputs: list[str]) -> dict[str, str]:
    """By output that is another formula although rounding hides it at these inputs, the first place."""
    witnesses: dict[str, str] = {}
    for name in differences(question, outputs, NOISE) if outputs else ():
        try:
            proof = identity(question.only([name]))[name]
        except NotCovered:  # noqa: S112  this integer says nothing of the formulas
            continue
        if not proof.equal and not proof.undecided and proof.witness is not None:
            witnesses[name] = proof.witness
    return witnesses


def _given(question: Question) -> Iterator[Other]:
    """The question with other values of integers and booleans that were given: those like them, then all others.

    Where several arrays are not of one number, one of them alone perhaps does not change.
    """
    inputs, arrays = question.inputs, given_arrays(question)
    given_places = [place for place, each in enumerate(inputs) if any(each is array for array in arrays)]
    made_of: dict[int, tuple[int, Callable[[Array], Array | None]]] = {}
    for first, second in permutations(given_places, 2):
        if first not in made_of and second not in made_of and all(second != of for of, _ in made_of.values()):
            how = follows(inputs[first].values, inputs[second].values)
            made_of |= {} if how is None else {second: (first, how)}
    cases = []
    for place in (place for place in given_places if place not in made_of):
        argument, facts = inputs[place], facts_of(inputs[place], question)
        with_it = {other: how for other, (of, how) in made_of.items() if of == place}
        others = [inputs[other].values for other in given_places if other not in (place, *with_it)]
        alone = all(values.min() == values.max() for values in others)
        names = "".join(f", '{inputs[other].name}' with it" for other in with_it)
        for variation in islice(variations(argument, question, facts), MOST):
            changed: Question | None = question.having({place: variation.values})
            for other, how in with_it.items():
                values = how(variation.values)
                changed = None if changed is None or values is None else changed.having({other: values})
            if changed is not None:
                words = f"'{argument.name}' {variation.words}{names} (given: {facts})"
                cases.append(Other(changed, words, variation.like and alone, small=False))
    yield from sorted(cases, key=lambda case: not case.allowed)


def other_integers(question: Question, places: Sequence[int] = ()) -> Iterator[Other]:
    """The question with other values of each of its integer inputs in turn; of several given ones, see `_given`.

    At last those that are drawn, one each, are at the upper ends of their ranges together.

    Args:
        places: numbers that are tried besides those of the programs.
    """
    ends, drawn = question, list[str]()
    for place, argument in enumerate(question.inputs):
        if argument.integers is None or argument.magnitudes == "stated" or not argument.values.size:
            continue
        if argument.magnitudes == "given" and argument.values.size > 1:
            continue
        for values, words, allowed in _values(question, argument, places):
            if np.array_equal(values, argument.values):
                continue
            small = values.size == 1 and values.dtype.kind != "b" and int(values.reshape(-1)[0]) in SMALL
            yield Other(question.having({place: values}), f"'{argument.name}' {words}", allowed, small)
        if argument.magnitudes == "all" and argument.values.size == 1:
            high = argument.integers[1]
            ends = ends.having({place: np.full_like(argument.values, high)})
            drawn.append(f"'{argument.name}' = {_shown(high, argument.values.dtype)}")
    if len(drawn) > 1:
        yield Other(ends, " and ".join(drawn), allowed=True, small=False)


def _other_cotangents(question: Question) -> Iterator[Other]:
    """The question with other cotangents, where a program decides by them."""
    for other, words, allowed in other_cotangents(question):
        yield Other(other, words, allowed, small=False)


def _untaken(question: Question, tried: Sequence[Question]) -> Iterator[Other]:
    """The question at integers at which a condition comes out as at none of those tried: everywhere, then in places."""
    places, allowed = question, True
    for count, solution in enumerate(solutions(question, tried)):
        everywhere, words, own = question, list[str](), True
        for place, number in solution.items():
            values = question.inputs[place].values
            everywhere = everywhere.having({place: np.full_like(values, number)})
            if values.size > 1:
                mixed = np.array(places.inputs[place].values)
                mixed.reshape(-1)[count * max(1, values.size // MOST) % values.size] = number
                places = places.having({place: mixed})
            where = " everywhere" if values.size > 1 else ""
            words.append(f"'{question.inputs[place].name}' = {_shown(number, values.dtype)}{where}")
            own = own and question.inputs[place].magnitudes == "all"
        allowed = allowed and own
        yield Other(everywhere, " and ".join(words), own, small=False)
    if places is not question:
        yield Other(places, "such numbers in some elements", allowed, small=False)


def _zero_rows(question: Question) -> Iterator[Other]:
    """The question with rows of its float inputs zero; of what has no rows, elements.

    Not the same row of two arguments, since a product with zero hides what the other one does.
    """
    inputs = enumerate(question.inputs)
    free = [
        place for place, each in inputs if each.integers is None and each.magnitudes != "stated" and each.values.size
    ]
    counts = {place: len(_in_rows(question.inputs[place].values)) for place in free}
    several = [place for place in free if counts[place] > 1]
    scalars = [(place, 0) for place in free if counts[place] == 1]
    near_start = [(place, number % counts[place]) for number, place in enumerate(several)]
    near_end = [(place, counts[place] - 1 - row) for place, row in near_start if counts[place] > 3]
    for rows in (near_start + near_end, *([each] for each in scalars[:ZERO_ALONE]), scalars[ZERO_ALONE:]):
        rows = [(place, row) for place, row in rows if _in_rows(question.inputs[place].values)[row].any()]
        if rows:
            yield _with_zeros(question, rows)


def _with_zeros(question: Question, rows: Sequence[tuple[int, int]]) -> Other:
    """The question with some rows zero, each given as the place of an input and its own number there."""
    changed, words = question, []
    for place, row in rows:
        argument, values = question.inputs[place], np.array(changed.inputs[place].values)
        count, of_rows = len(_in_rows(values)), values.ndim > 1 and values.shape[-1] > 1
        _in_rows(values)[row] = 0
        changed = changed.having({place: values})
        kind = "row" if of_rows else "element"
        where = {0: f"its first {kind}", count - 1: f"its last {kind}"}.get(row, f"{kind} {row}")
        words.append(f"'{argument.name}' " + (f"zero in {where}" if count > 1 else "= 0"))
    middle = len(rows) // 2
    halves = (rows[:middle], rows[middle:]) if len(rows) > 1 else ()
    named = " and ".join(words[:2]) + (f" and {len(words) - 2} more" if len(words) > 2 else "")
    return Other(changed, named, False, False, lambda: [_with_zeros(question, half) for half in halves])


def _in_rows(values: Array) -> Array:
    """The same elements as rows along the last axis; of what has no rows, each by itself."""
    width = values.shape[-1] if values.ndim > 1 and values.shape[-1] > 1 else 1
    return values.reshape(-1, width)


def _ties(question: Question) -> Iterator[Other]:
    """The question with floats at which its conditions tie; a slope there is not promised, even of declared numbers."""
    is_gradient = any(argument.is_cotangent for argument in question.inputs)
    for other, words, declared in boundaries(question):
        yield Other(other, words, declared and not is_gradient, small=False)


def _values(question: Question, argument: Input, places: Sequence[int]) -> Iterator[tuple[Array, str, bool]]:
    """Other values of an input, how they are, in words, and whether they may be given."""
    assert argument.integers is not None
    (low, high), shape, dtype = argument.integers, argument.values.shape, argument.values.dtype
    count = argument.values.size
    drawn = argument.magnitudes == "all"
    numbers = _numbers(question, low, high, count, places)
    if count == 1:
        for number in numbers[: MOST + len(places)]:
            yield np.full(shape, number, dtype), f"= {_shown(number, dtype)}", drawn
        return
    if dtype.kind == "b":
        for other in variations(argument, question, facts_of(argument, question)):
            if not other.like:
                yield other.values, other.words, False
        return
    for start in range(0, min(len(numbers), MOST * count), count):
        chunk = numbers[start : start + count]
        whole = np.resize(np.array(chunk, object), count).astype(dtype).reshape(shape)
        yield whole, f"of {chunk[0]}, {chunk[1]}, ... {chunk[-1]}" if len(chunk) > 2 else f"of {chunk}", drawn
    for number in (low, high):
        yield np.full(shape, number, dtype), f"= {number} everywhere", drawn


def _shown(number: int, dtype: Any) -> str:
    return str(bool(number)) if dtype.kind == "b" else str(number)


def _numbers(question: Question, low: int, high: int, count: int, places: Sequence[int]) -> list[int]:
    """The numbers of a range to try: all of a small one, else its ends, small numbers, and those of the programs.

    Not the ends in an array of several elements: beside them, what small numbers do would be lost in the largest value.
    """
    if high - low < MOST * count:
        return list(range(low, high + 1))
    wanted = [*places, low, high, *SMALL] if count == 1 else [*places, 0, 1]
    for number in literals(question):
        wanted += [number, number - 1, number + 1]
    return list(dict.fromkeys(number for number in wanted if low <= number <= high))
