"""Formulas at other inputs: decisions that a proof took from the inputs of its case are tested at other ones.

Comparisons, sorts, branches and integers follow the numbers of the case, so a result that was stored for these numbers
looks like one that is computed. The same proof is tried with the elements of each input permuted: every element stays
in its domain, and what was decided is decided anew. Inputs that look structured stay as they are.

Thresholds that normally distributed numbers never pass, such as the 6 of `relu6` or a norm that is clipped at 1, decide
nothing until inputs are larger or smaller. Nor do the capacities of experts, until most tokens choose the same one.
Inputs whose distribution is declared are not changed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.complex_pairs import LINEAR
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.dead_code import live, only
from samebits.interpret.equation import Array, scan_sizes, type_of
from samebits.interpret.field_proof.float64_noise import Float64Noise, half_units
from samebits.interpret.float64_differences import outputs_of, values_of
from samebits.interpret.interpreter import CALLS, called
from samebits.interpret.problem import Question, first_place
from samebits.numerics.bits import free_places
from samebits.numerics.seeds import generator


def permuted(question: Question, seed: str, *, again: bool = False) -> Question | None:
    """The question with the elements of its free inputs in another order; None where there are none.

    Args:
        again: whether some come more than once and others not at all, so that counts and sums are others, too.
    """
    inputs, moved = [], False
    for argument, fixed in zip(question.inputs, question.is_fixed, strict=True):
        places = np.zeros(0, np.int64) if fixed else free_places(argument.values)
        if not places.size:
            inputs.append(argument)
            continue
        random = generator("permuted", seed, argument.name)
        order = random.integers(0, places.size, places.size) if again else random.permutation(places.size)
        values = argument.values.reshape(-1).copy()
        values[places] = values[places[order]]
        inputs.append(replace(argument, values=values.reshape(argument.values.shape)))
        moved = True
    return replace(question, inputs=inputs) if moved else None


STRETCHES = (64.0, 2.0**-10)
"""By how much inputs are stretched: beyond saturations such as 6, 30 and 100, and below clipped norms.

Powers of two, so that no number is rounded.
"""

_NAMED = 3  # of the inputs that are changed; the rest is counted
_NUDGE = 1 + 2.0**-11  # less than bfloat16 distinguishes


@dataclass(frozen=True, slots=True)
class Stretched:
    """A question with some of its inputs at other magnitudes, of the other sign, or with rows that are nearly alike.

    Args:
        how: the same, in words, with a place for these inputs.
        which: all of those that may be changed, or all that are drawn, in words; None for others.
    """

    asked: Question
    names: tuple[str, ...]
    change: Callable[[Array], Array]
    how: str
    which: str | None = None

    @property
    def question(self) -> Question:
        """The programs, with these inputs."""
        inputs = [
            replace(argument, values=self.change(np.asarray(argument.values, np.float64)))
            if argument.name in self.names
            else argument
            for argument in self.asked.inputs
        ]
        return replace(self.asked, inputs=inputs, in_range=False)

    @property
    def words(self) -> str:
        """How the inputs are those of the case, in words."""
        return self.how.format(self.which or named(self.names))

    @property
    def beyond_given(self) -> bool:
        """Whether an array was given instead of one of them, so that such numbers perhaps do not occur."""
        return any(each.magnitudes == "given" for each in self.asked.inputs if each.name in self.names)

    @property
    def halves(self) -> list[Stretched]:
        """The same with fewer inputs changed; none where that is one already, or all that are to be."""
        middle, several = len(self.names) // 2, len(self.names) > 1 and self.which is None
        halves = (self.names[:middle], self.names[middle:]) if several else ()
        return [replace(self, names=half) for half in halves]

    @property
    def nudged(self) -> Stretched:
        """The same with numbers that are a little larger, where some are equal to a threshold of the programs."""
        return replace(self, change=lambda values: self.change(values * _NUDGE))


def named(names: Sequence[str]) -> str:
    """Some inputs in words."""
    words = "'" + "', '".join(names[:_NAMED]) + "'"
    return words + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def stretched(question: Question, *, negated: bool = False) -> Iterator[Stretched]:
    """The question with inputs of other magnitudes, all of them and every other one, and with rows that are alike.

    Those that are drawn come by themselves, too: what differs at other magnitudes of given arrays refutes nothing.

    Args:
        negated: whether inputs of the other sign are tried, too: a root of a square is its number without the sign.
    """
    inputs = [argument for argument in question.inputs if argument.magnitudes != "stated" and not argument.integers]
    free = tuple(argument.name for argument in inputs)
    larger, smaller = STRETCHES
    if not free:
        return
    drawn = tuple(argument.name for argument in inputs if argument.magnitudes == "all")
    for chosen in (drawn, free) if drawn and len(drawn) < len(free) else (free,):
        which = "the inputs" if chosen is free else "the inputs that are drawn"
        yield Stretched(question, chosen, _times(larger), f"with {{}} {larger:g} times as large", which)
        yield Stretched(question, chosen, _times(smaller), f"with {{}} {1 / smaller:g} times smaller", which)
        if negated:
            yield Stretched(
                question, chosen, _times(-larger), f"with {{}} negated and {larger:g} times as large", which
            )
    for chosen in _alternating(free):
        yield Stretched(question, chosen, _times(larger), f"with {{}} {larger:g} times as large")
    tables = tuple(argument.name for argument in inputs if _has_rows(argument.values.shape))
    for chosen in (tables, *_alternating(tables)) if tables else ():
        yield Stretched(question, chosen, _nearly_alike, "with the rows of {} nearly alike")


def _alternating(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return (names[::2], names[1::2]) if len(names) > 1 else ()


def _has_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and math.prod(shape[:-1]) > 1 and shape[-1] > 1


def _nearly_alike(values: Array) -> Array:
    """Rows near the first one, so that all choose the same; not equal, since each two would be a tie then."""
    rows = values.reshape(-1, values.shape[-1])
    return np.asarray(rows[0] + (rows - rows[0]) * STRETCHES[1]).reshape(values.shape)


def _times(factor: float) -> Callable[[Array], Array]:
    return lambda values: np.asarray(values * factor)


def stored(question: Question) -> dict[str, str]:
    """By output: that one side computes it from no input at all, where on the other side it follows the inputs."""
    reference, variant = _reads(question.reference), _reads(question.variant)
    witnesses = {}
    for number, name in enumerate(question.outputs):
        if question.mismatch(number) is None and reference[number] != variant[number]:
            side, other = ("variant", "reference") if reference[number] else ("reference", "variant")
            if _follows(question, question.reference if reference[number] else question.variant, number):
                witnesses[name] = f"{name} depends on no input in the {side}, and on the inputs in the {other}"
    return witnesses


def _reads(program: Any) -> list[bool]:
    """Per output of a program, whether it is computed from an input."""
    return [any(inputs_of(program, number)) for number in range(len(program.jaxpr.outvars))]


def inputs_of(program: Any, number: int) -> list[bool]:
    """Which inputs an output of a program is computed from."""
    from jax.interpreters import partial_eval

    outputs = len(program.jaxpr.outvars)
    return list(partial_eval.dce_jaxpr(program.jaxpr, [number == other for other in range(outputs)])[1])


def _follows(question: Question, program: Any, number: int) -> bool:
    """Whether an output of a program is another one at other inputs.

    The inputs need not be sensible ones: this only distinguishes a result from a computed constant, such as the
    gradient of max(x, y) + min(x, y).
    """
    own = _output(question, program, number, lambda values: values)
    for change in _CHANGES:
        other = _output(question, program, number, change)
        if own is None or other is None:
            continue
        finite = np.isfinite(own) & np.isfinite(other)
        if np.any(finite & (np.abs(own - other) > 1e-9 * np.maximum(1, np.abs(own)))):
            return True
    return False


_CHANGES: tuple[Callable[[Array], Array], ...] = (
    lambda values: np.roll(values, 1),
    lambda values: np.roll(np.flip(values), values.shape[-1] // 2 if values.ndim else 0),
    lambda values: -values if values.dtype.kind == "f" else np.zeros_like(values),
    lambda values: 3 * values + 1 if values.dtype.kind == "f" else np.ones_like(values),
)


def _output(question: Question, program: Any, number: int, change: Callable[[Array], Array]) -> Array | None:
    inputs = [
        replace(
            argument, values=change(np.asarray(argument.values, np.float64 if argument.kind(aval).is_float else None))
        )
        for argument, aval in zip(question.inputs, question.reference.in_avals, strict=True)
    ]
    try:
        (output,) = outputs_of(replace(question, inputs=inputs), only(program, (number,)))
        return np.asarray(output, np.float64)
    except (NotCovered, ValueError, IndexError):  # changed values may be invalid where integers index
        return None


# Where outputs jump that only decisions make: integers, booleans, counts, whose formulas say nothing.
STEPS = 30
"""How often the line is divided: jumps that are 1e-9 of it apart are seen."""

_DRAWS = 4  # of other inputs: a count may be the same at both ends of a line
_BESIDE = 1e-10  # float64 moves a jump by less
_SPLIT = 0.4142135  # not a half, where two elements that change places are equal


def other_jumps(question: Question, outputs: Sequence[str], seed: str, *, covered: bool = True) -> dict[str, str]:
    """By output that jumps at other inputs in the variant than in the reference, where, in words.

    Args:
        covered: whether the fields decide at the inputs of the case; else float64 must, where outputs differ.
    """
    witnesses = {}
    for name in outputs:
        alone = question.only([name])
        try:
            words = _first_jump(alone, seed, covered)
        except (NotCovered, ValueError, IndexError):  # noqa: S112  inputs between these may be invalid
            continue
        if words:
            where = "with inputs between those of the case and others of their elements"
            witnesses[name] = f"{name}{words}, in float64, {where}"
    return witnesses


def _first_jump(alone: Question, seed: str, covered: bool) -> str | None:
    """Where the only output of a question differs at the first jump that is found of its reference."""
    start = _outputs(alone)[0]
    for draw in range(_DRAWS):
        other = permuted(alone, f"{seed} {draw}", again=True)
        if other is None:
            return None
        jumping = np.argwhere(start != _outputs(other)[0])
        if len(jumping):
            return _between(alone, other, tuple(jumping[0]), covered)
    return None


def _between(first: Question, last: Question, place: tuple[int, ...], covered: bool) -> str | None:
    """Where both sides differ on the line between two inputs, at which an element jumps, and stay so beside it."""
    start, low, high = _outputs(first)[0][place], 0.0, 1.0
    least = max([4 * unit for unit in half_units(first).values()], default=0.0) + _BESIDE
    for _ in range(STEPS):
        at = low + _SPLIT * (high - low)
        reference, variant = _outputs(_mixed(first, last, at))
        if (reference != variant).any():
            beside = [_outputs(_mixed(first, last, at + offset)) for offset in (-least, least)]
            apart = np.all([left != right for left, right in ((reference, variant), *beside)], 0)
            if not apart.any() or not (covered or Float64Noise(_mixed(first, last, at)).decides):
                return None  # within what rounding explains
            where = first_place(apart)
            values = f"{reference[where].item()!r} in the reference, {variant[where].item()!r} here"
            return f"[{', '.join(map(str, where))}] is {values}"
        low, high = (at, high) if reference[place] == start else (low, at)
    return None


def _outputs(question: Question) -> list[Array]:
    return [np.asarray(outputs_of(question, program)[0]) for program in question.sides]


def _mixed(first: Question, last: Question, at: float) -> Question:
    """The question at a place of the line between two inputs."""
    values = {}
    for place, (start, end) in enumerate(zip(first.inputs, last.inputs, strict=True)):
        if start is not end:
            low, high = (np.asarray(each.values, np.float64) for each in (start, end))
            values[place] = np.asarray(low + at * (high - low))
    return first.having(values)


# Other cotangents than those of the case, at which both programs are evaluated: large, small and zero ones.
FACTORS = (2.0**6, 2.0**20, 2.0**-10, 2.0**-30)
"""By how much cotangents are scaled: beyond a clip at 5, 50 or 1e5, and below a guard such as 1e-6.

Powers of two, so that no number is rounded.
"""

ONES = "cotangents of one"
_EACH = 4  # outputs that are tried with zero cotangents of all others: each costs an evaluation of both programs
_LAST = slice(-1, None)

_LINEAR = frozenset({*MOVES, *LINEAR, "conj", "fft", "imag", "real", "reduce_precision", "reduce_window_sum"})
"""Primitives that are linear in all float operands together; no integer depends on a cotangent linearly."""

_BILINEAR = frozenset({"conv_general_dilated", "dot_general", "mul", "ragged_dot_general"})

_LINEAR_IN = {"div": 0, "select_and_scatter_add": 0, "triangular_solve": 1}
"""By primitive, the only operand in which it is linear."""


def other_cotangents(question: Question) -> Iterator[tuple[Question, str, bool]]:
    """Yield the question at other cotangents, where programs decide by them: in words, and whether they are finite."""
    if not _decides(question):
        return
    places = [place for place, argument in enumerate(question.inputs) if argument.is_cotangent]
    drawn = [np.asarray(question.inputs[place].values, np.float64) for place in places]
    names = [question.inputs[place].name for place in places]
    for arrays, words, allowed in changed(
        drawn, names, [type_of(question.reference.in_avals[p]).dtype for p in places]
    ):
        yield question.having(dict(zip(places, arrays, strict=True))), words, allowed


def must_run(question: Question, output: str) -> bool:
    """Tell whether a program may decide by cotangents, and an output cannot be evaluated in float64 to see it."""
    return output in question.outputs and _decides(question) and values_of(question, output) is None


def _decides(question: Question) -> bool:
    places = tuple(place for place, argument in enumerate(question.inputs) if argument.is_cotangent)
    return any(decides_by(program, places) for program in question.sides)


def changed(
    drawn: Sequence[Array], names: Sequence[str], dtypes: Sequence[Any]
) -> Iterator[tuple[list[Array], str, bool]]:
    """Yield other cotangents, in words, and whether they are finite.

    Args:
        dtypes: whose range they keep.
    """
    for factor in FACTORS:
        if all(_holds(array, factor, dtype) for array, dtype in zip(drawn, dtypes, strict=True)):
            power = abs(int(math.log2(factor)))
            times = f"{2**power if power <= 10 else f'2^{power}'} times {'as large' if factor > 1 else 'smaller'}"
            yield [array * factor for array in drawn], f"cotangents {times}", True
    yield [np.zeros_like(array) for array in drawn], "cotangents of zero", True
    yield [np.ones_like(array) for array in drawn], ONES, True
    for number, name in enumerate(names[:_EACH] if len(names) > 1 else ()):
        alone = [array if n == number else np.zeros_like(array) for n, array in enumerate(drawn)]
        yield alone, f"all cotangents zero but {name}", True
    for part, indices in (
        ("last row", [(_LAST,) * min(array.ndim, 1) for array in drawn]),
        ("last column", [(..., _LAST) if array.ndim > 1 else () for array in drawn]),
        ("first element", [(slice(1),) * array.ndim for array in drawn]),
    ):
        if any(indices):  # else these are the drawn ones
            alone = [_alone(*each) for each in zip(drawn, indices, strict=True)]
            yield alone, f"cotangents of zero but in their {part}", True
    infinite = [np.array(array) for array in drawn]
    for array in infinite:
        array.reshape(-1)[:1] = math.inf
    yield infinite, "cotangents with an infinite first element", False


def _holds(array: Array, factor: float, dtype: Any) -> bool:
    """Tell whether scaled numbers of an array are in the normal range of a dtype."""
    info = ml_dtypes.finfo(dtype)
    sizes = np.abs(array[array != 0]) * factor
    return not sizes.size or bool(np.max(sizes) <= float(info.max) and np.median(sizes) >= float(info.tiny))


def _alone(array: Array, index: Any) -> Array:
    """Return an array that is zero except at an index."""
    other = np.zeros_like(array)
    other[index] = array[index]
    return other


@functools.lru_cache(maxsize=256)
def decides_by(closed: Any, places: tuple[int, ...]) -> bool:
    """Tell whether a program does anything to some of its inputs that is not linear in them."""
    program = live(closed).jaxpr
    try:
        _followed(program, [number in places for number in range(len(program.invars))])
    except _NotLinear:  # which is what was asked
        return True
    return False


class _NotLinear(Exception):
    """A program is not linear in the marked inputs, or an equation has a primitive that is not known to be."""


def _followed(jaxpr: Any, inputs: Sequence[bool]) -> list[bool]:
    """Tell which outputs depend on the marked inputs."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    marked = {var for var, is_marked in zip(jaxpr.invars, inputs, strict=True) if is_marked}

    def of(values: Sequence[Any]) -> list[bool]:
        return [not hasattr(var, "val") and var in marked for var in values]

    for equation in jaxpr.eqns:
        operands = of(equation.invars)
        if any(operands):
            results = _results(equation, operands)
            marked |= {var for var, is_marked in zip(equation.outvars, results, strict=True) if is_marked}
    return of(jaxpr.outvars)


def _results(equation: Any, operands: list[bool]) -> list[bool]:
    name, params = equation.primitive.name, equation.params
    if name in CALLS or name == "shard_map":
        return _followed(params["jaxpr"] if name == "shard_map" else called(equation), operands)
    if name == "scan":
        return _looped(params, operands)
    if name in STILL:
        return operands
    first = operands.index(True)
    if name == "cond" and first > 0:
        branches = [_followed(branch, operands[1:]) for branch in params["branches"]]
        return [any(each) for each in zip(*branches, strict=True)]
    alone = sum(operands) == 1 and (name in _BILINEAR or _LINEAR_IN.get(name) == first)
    kinds = [type_of(var.aval) for var in equation.outvars]
    if (alone or name in _LINEAR) and all(kind.is_float or kind.is_complex for kind in kinds):
        return [True] * len(kinds)
    raise _NotLinear


def _looped(params: Any, operands: list[bool]) -> list[bool]:
    """Tell which outputs of a scan depend on the marked inputs, by any number of iterations."""
    constants, carried = scan_sizes(params)
    while True:
        results = _followed(params["jaxpr"], operands)
        carry = slice(constants, constants + carried)
        grown = [before or after for before, after in zip(operands[carry], results[:carried], strict=True)]
        if grown == operands[carry]:
            return results
        operands[carry] = grown
