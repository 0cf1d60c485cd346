"""Where two functions differ at concrete sizes: by labels where both move data, else over finite fields.

In: two functions and sizes. Out: by output, the first place that differs. What is refuted for a family is confirmed
here, and what is undecided is tried at a few sizes that look different to code.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from samebits.errors import DeclarationError, NotCovered, NothingCompared
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.labels import movement
from samebits.interpret.problem import Input, Question
from samebits.numerics.floats import is_float
from samebits.sizes.places.equality import Doubt
from samebits.sizes.places.facts import Element, Integer, Reduction, Source, Term, parts_of
from samebits.sizes.places.linear_questions import in_order
from samebits.sizes.places.polynomial import Polynomial, of
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family import Family, SizeOf
from samebits.sizes.proofs.operators import is_of_code
from samebits.sizes.proofs.tracing import TracedFamily, each_once, traced

Function = Callable[..., Any]

MOST_ELEMENTS = 1 << 24
"""The most elements of an argument at which a counterexample is confirmed."""

MOST_VALUES = 1 << 12
"""The most elements of an argument at which formulas are evaluated where no doubt names the size."""

MOST_ITERATIONS = 1 << 10
"""The most iterations of a loop with which a counterexample is confirmed."""

MOST_CONSTANTS = 6
"""The most numbers in code near which sizes are tried."""

NARROW = (1 << 8, 1 << 16)
"""What narrow integers cannot count to."""

MOST_TRIALS = 40
"""The most sizes that are tried where nothing is known of them."""

MOST_COMPUTED = 8
"""The most of them at which formulas are evaluated, which takes long."""

MOST_DENIALS = 10
"""The most sizes at which a proof is tried because code names them."""

FEWEST = 2
"""How many small sizes besides."""

LARGEST_TABLE = 32
"""The most entries of a table whose integers code may compare with sizes."""

NESTED = 4
"""How deep functions within functions are searched for numbers."""


def moved_apart_at(
    functions: Sequence[Function], family: Family, direction: str, numbers: Mapping[str, int]
) -> dict[str, str]:
    """Return by output that holds other elements at concrete sizes the first place, by labels.

    Raises:
        NotCovered: the programs do more than move data, or cannot be traced at these sizes.
    """
    first, second = (traced(function, family.at(numbers), direction) for function in functions)
    other = _other_types(first, second)
    if other:
        return other
    longest = max(longest_scan(side.closed.jaxpr) for side in (first, second))
    if longest > MOST_ITERATIONS:
        raise NotCovered(f"a loop of {longest} iterations; at most {MOST_ITERATIONS} are interpreted")
    differing: dict[str, str] = {}
    for alike in (False, True) if has_free_integers(first, family) else (False,):
        inputs = inputs_at(first, 0, family.at(numbers), alike=alike)
        leaves = movement(Question(first.closed, second.closed, inputs, first.outputs, family.platform))
        for leaf, moved in leaves.items():
            if not moved.equal:
                differing.setdefault(leaf, moved.witness or "")
    return differing


def different_at(
    functions: Sequence[Function], family: Family, direction: str, numbers: Mapping[str, int]
) -> dict[str, str]:
    """Return by output that differs at concrete sizes the first place: by labels, else as formulas.

    Nothing where the outputs are equal, where that is not known, or where a side raises at these sizes.
    """
    if family.elements(numbers) > MOST_ELEMENTS:
        return {}
    try:
        return moved_apart_at(functions, family, direction, numbers)
    except NothingCompared:
        return {}  # nothing of an input is left at these sizes
    except NotCovered:  # labels cannot represent what is computed
        return _other_formulas_at(functions, family, direction, numbers)


def searched(functions: Sequence[Function], family: Family, direction: str) -> tuple[dict[str, int], dict[str, str]]:
    """Return sizes at which outputs differ, with the places; both empty where none of the sizes tried shows it.

    Of sizes that differ, those that a mesh divides are preferred: they can be run.
    """
    functions = each_once(functions)
    tried: list[dict[str, int]] = []
    best: tuple[dict[str, int], dict[str, str]] = ({}, {})
    computed, computes = 0, False
    for free in sizes_to_try(functions, family):
        numbers = family.numbers(free)
        if numbers in tried or family.elements(numbers) > MOST_ELEMENTS:
            continue
        if best[1] and not family.divides(numbers):
            continue
        if computes and family.elements(numbers) > MOST_VALUES:
            continue  # labels would compute there too, for long
        tried.append(numbers)
        try:
            differing = moved_apart_at(functions, family, direction, numbers)
        except NothingCompared:  # noqa: S112  nothing of an input is left at these sizes
            continue
        except NotCovered:
            computes = True
            if family.elements(numbers) > MOST_VALUES or computed >= MOST_COMPUTED:
                continue
            computed += 1
            differing = _other_formulas_at(functions, family, direction, numbers)
        if differing and family.divides(numbers):
            return numbers, differing
        best = best if best[1] else (numbers, differing)
        if len(tried) >= MOST_TRIALS:
            break
    return best if best[1] else ({}, {})


def denied(
    functions: Sequence[Function], family: Family, direction: str, turn: int | None = None
) -> tuple[dict[str, int], dict[str, str]]:
    """Try the smallest sizes and ones that code names, and return those at which outputs differ, with the places.

    Code may distinguish a symbol from an integer unseen (`n is 16`), and jax itself may, where a dimension is 1. With a
    `turn`, one of these sizes is tried, counted round: what is proved on several numbers of devices is tried at all
    sizes on one of them, and on each other one at the next size in turn.
    """
    functions = each_once(functions)
    small = itertools.islice(small_sizes(family.free), FEWEST)
    every = itertools.chain(itertools.islice(_of_code_and_smallest(functions, family), MOST_DENIALS), small)
    sizes: list[dict[str, int]] = []
    for numbers in map(family.numbers, every):
        if numbers not in sizes and family.elements(numbers) <= MOST_VALUES:
            sizes.append(numbers)
    for numbers in sizes if turn is None or not sizes else [sizes[turn % len(sizes)]]:
        differing = different_at(functions, family, direction, numbers)
        if differing:
            return numbers, differing
    return {}, {}


def _other_formulas_at(
    functions: Sequence[Function], family: Family, direction: str, numbers: Mapping[str, int]
) -> dict[str, str]:
    try:
        return formulas_differ_at(functions, family, direction, numbers)
    except NotCovered:  # a side raises at these sizes, or no rule covers what it does
        return {}


def sizes_to_try(functions: Sequence[Function], family: Family) -> Iterator[dict[str, int]]:
    """Yield values of free symbols that code may treat differently: small ones, and near the numbers that it names."""
    devices = math.lcm(*(family.sizes(text).constant or 1 for _, text in family.divided))
    for free in _different_looking(functions, family):
        yield free
        if devices > 1:
            yield {name: number * devices for name, number in free.items()}


def _different_looking(functions: Sequence[Function], family: Family) -> Iterator[dict[str, int]]:
    yield from _of_code_and_smallest(functions, family)
    yield from small_sizes(family.free)
    for number in NARROW:
        yield from _around(number, family)


def _of_code_and_smallest(functions: Sequence[Function], family: Family) -> Iterator[dict[str, int]]:
    yield dict(family.free)
    numbers = sorted({number for function in functions for number in numbers_in(function)})
    large = [number for number in numbers if number > 1]
    few = [*large[:MOST_CONSTANTS], *large[MOST_CONSTANTS:][-MOST_CONSTANTS:]]
    for number in few:
        yield from _around(number, family)


def _around(number: int, family: Family) -> Iterator[dict[str, int]]:
    """Yield sizes at which a dimension, its part on a device or a static argument is a number, or the next possible."""
    lowest = family.free
    statics = [value.text for value in family.statics.values() if isinstance(value, SizeOf)]
    texts = dict.fromkeys([*(str(size) for arg in family.args.values() for size in arg.shape), *statics])
    parts_of_dimensions = [family.sizes(text).quotient(family.sizes(devices)) for text, devices in family.divided]
    for size in dict.fromkeys([*map(family.sizes, texts), *filter(None, parts_of_dimensions)]):
        for name in sorted(size.variables):
            parts = size.substitute({other: of(low) for other, low in lowest.items() if other != name}).by(name)
            if parts is None or not parts[0].constant or parts[1].constant is None:
                continue
            value = -((parts[1].constant - number) // parts[0].constant)
            for near in (value, value + 1):
                if near >= lowest[name]:
                    yield {**lowest, name: near}


def _other_types(first: TracedFamily, second: TracedFamily) -> dict[str, str]:
    """Return by output of another shape or dtype both; the first where the programs have other outputs or inputs."""
    if first.outputs != second.outputs:
        return {
            first.outputs[0]: f"the outputs are {first.outputs} in the reference and {second.outputs} in the variant"
        }
    inputs = zip(first.inputs, first.closed.in_avals, second.closed.in_avals, strict=False)
    for name, text in _other_kinds(inputs).items():  # cotangents of outputs of other types
        return {first.outputs[0]: f"{name} {text}"}
    kinds = _other_kinds(zip(first.outputs, first.closed.out_avals, second.closed.out_avals, strict=True))
    return {leaf: f"{leaf} {text}" for leaf, text in kinds.items()}


def _other_kinds(sides: Iterable[tuple[str, Any, Any]]) -> dict[str, str]:
    return {
        name: f"is {a.str_short()} in the reference and {b.str_short()} in the variant"
        for name, a, b in sides
        if (a.shape, a.dtype) != (b.shape, b.dtype)
    }


def numbers_in(function: Any, depth: int = NESTED) -> set[int]:
    """Return the integers that stand in the code of a function and of the functions of its own module that it names."""
    numbers: set[int] = set()
    seen: dict[int, Any] = {}
    level = [function]
    for _ in range(depth):
        named: list[Any] = []
        while level:
            function = level.pop()
            if id(function) in seen:
                continue
            seen[id(function)] = function
            level += _parts(function)  # of one level: they are what is called
            function = inspect.unwrap(function)
            code = getattr(function, "__code__", None)
            if isinstance(code, types.CodeType):
                for value in _values_of(function, code):
                    if callable(value) and not isinstance(value, type):
                        named.append(value)
                    else:
                        numbers |= _of_value(value)
                numbers |= _of_code(code) if is_of_code(code, function.__globals__) else set()
        level = named
    return numbers


def _parts(function: Any) -> list[Any]:
    """Return the functions that an object calls: a part of one, one on a mesh, one with its own rules for gradients."""
    if isinstance(function, functools.partial):
        return [value for value in (function.func, *function.args, *function.keywords.values()) if callable(value)]
    if isinstance(function, types.FunctionType | types.MethodType | types.BuiltinFunctionType | type):
        return []
    slot = getattr(function, "function", None)
    return [part for part in (slot, *getattr(function, "__dict__", {}).values()) if callable(part)]


def _values_of(function: Any, code: types.CodeType) -> list[Any]:
    """Return what the code of a function names: what it closes over, and the user's globals."""
    values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    if is_of_code(code, function.__globals__):
        values += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    return values


def _of_value(value: Any) -> set[int]:
    """Return the integers of a number or of a small table that code names."""
    if isinstance(value, tuple | list | set | frozenset | dict):
        return {number for inner in value for number in _of_value(inner)} if len(value) <= LARGEST_TABLE else set()
    return {value} if isinstance(value, int) and not isinstance(value, bool) else set()


def _of_code(code: types.CodeType) -> set[int]:
    numbers: set[int] = set()
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            numbers |= _of_code(value)
        values = value if isinstance(value, tuple | frozenset) else (value,)
        numbers |= {number for number in values if isinstance(number, int) and not isinstance(number, bool)}
    return numbers


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # of a function that is defined further down
        return False
    return True


def longest_scan(jaxpr: Any) -> int:
    """Return the most steps of a loop in a program of concrete sizes, those of loops inside loops multiplied."""
    longest = 1
    for equation in jaxpr.eqns:
        inner = max((longest_scan(body) for body in _bodies(equation.params.values())), default=1)
        longest = max(longest, inner * (int(equation.params["length"]) if equation.primitive.name == "scan" else 1))
    return longest


def _bodies(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _bodies(value)
        elif hasattr(getattr(value, "jaxpr", value), "eqns"):
            yield getattr(value, "jaxpr", value)


# Concrete sizes at which two programs may differ: candidates of z3, to be confirmed by evaluating both there.
STEPS = 20_000_000
"""z3's resource limit for one candidate."""

LIMITS = (2, 3, 5, 9, 33)
"""The largest value of a symbol in each attempt: a small counterexample is read more easily."""

FEW = 4
"""The most numbers in a program near which sizes are tried."""

ALONE = 1 << 20
"""The largest value of a symbol in attempts where it alone is large."""


def candidates(space: Space, doubt: Doubt) -> Iterator[dict[str, int]]:
    """Yield sizes at which the place of a doubt may differ, small ones first."""
    import z3  # here, because only doubts need it

    context = z3.Context()  # its own, so that the sizes depend on nothing that was asked before

    def expression(p: Polynomial) -> z3.ArithRef:
        total = z3.IntVal(0, context)
        for monomial, factor in p.terms:
            product = z3.IntVal(factor, context)
            for name in monomial:
                product = product * z3.Int(name, context)
            total = total + product
        return total

    differences = [expression(p) for p in _differences(doubt.first, doubt.second)]
    known = {name for fact in doubt.facts for name in fact.polynomial.variables}
    facts = space.all_facts((*doubt.facts, *space.ranges_of(known | {n for p in doubt.index for n in p.variables})))
    bounded: list[dict[str, int]] = [dict.fromkeys(space.lowest, limit) for limit in LIMITS]
    bounded += [{**space.lowest, large: ALONE} for large in space.lowest]
    for largest in bounded:
        solver = z3.Solver(ctx=context)
        solver.set("rlimit", STEPS)
        for name, lowest in space.lowest.items():
            solver.add(z3.Int(name, context) >= lowest, z3.Int(name, context) <= max(largest[name], lowest))
        for fact in sorted(facts, key=in_order):
            value = expression(fact.polynomial)
            solver.add(value >= 0 if fact.kind == "not_negative" else value == 0)
        if differences:
            solver.add(z3.Or([difference != 0 for difference in differences]))
        if solver.check() == z3.sat:
            model = solver.model()
            yield {name: model.eval(z3.Int(name, context), model_completion=True).as_long() for name in space.lowest}


def small_sizes(lowest: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield sizes to try where z3 finds none: all alike, then no two alike."""
    for more in (1, 2, 4):
        yield {name: low + more for name, low in lowest.items()}
    yield {name: low + 1 + number for number, (name, low) in enumerate(lowest.items())}
    yield {name: low + len(lowest) - number for number, (name, low) in enumerate(lowest.items())}


def sizes_near_constants(space: Space, doubt: Doubt) -> Iterator[dict[str, int]]:
    """Yield sizes just above the numbers that sums in a doubt are cut at, which a smaller array does not reach."""
    numbers = {number for source in (doubt.first, doubt.second) for number in _constants(source)}
    for number in sorted(numbers)[:FEW]:
        for large in space.lowest:
            yield {name: number + 1 if name == large else low + 1 for name, low in space.lowest.items()}


def _constants(source: Source) -> set[int]:
    """Return the numbers in facts about bound indices."""
    sums = (part for part in parts_of(source) if isinstance(part, Reduction))
    facts = (fact for total in sums for piece in total.pieces for fact in piece.facts)
    return {number for fact in facts if (number := abs(dict(fact.polynomial.terms).get((), 0))) > 4}


def _differences(first: Source, second: Source) -> list[Polynomial]:
    """Return the polynomials one of which is not zero where two sources of a kind differ; none if they always do."""
    if isinstance(first, Element) and isinstance(second, Element) and first.name == second.name:
        return [a - b for a, b in zip(first.index, second.index, strict=True)]
    if isinstance(first, Integer) and isinstance(second, Integer):
        return [first.value - second.value]
    if isinstance(first, Term) and isinstance(second, Term) and first.operation == second.operation:
        pairs = zip(first.operands, second.operands, strict=True)
        return [difference for a, b in pairs if a != b for difference in _differences(a, b)]
    return []


# Whether two functions compute other formulas at concrete sizes: over finite fields, at a few random inputs.
MOST_DRAWN = 1 << 15
"""The most elements of an argument at which formulas are evaluated."""

DRAWS = 6
"""How many draws of inputs are tried."""

ENOUGH = 2
"""Draws at which formulas are equal before sizes are given up."""

ALIKE = 1
"""The draw at which free integers of an array are all the same: one place is then selected as often as can be."""

SMALL = 4
"""Integers are drawn below this, so that some are equal, and below every dimension, so that they select elements.

Where their bound is declared, some are larger."""


def formulas_at(
    functions: Sequence[Callable[..., Any]], family: Family, direction: str, numbers: Mapping[str, int]
) -> Iterator[dict[str, FieldIdentity]]:
    """Yield what fields say of every output at concrete sizes, for each draw of inputs of which they say something.

    Raises:
        NotCovered: the functions cannot be traced at these sizes.
    """
    if family.elements(numbers) > MOST_DRAWN:
        return
    first, second = (traced(function, family.at(numbers), direction) for function in functions)
    free = has_free_integers(first, family)
    for draw in range(DRAWS):
        inputs = inputs_at(first, draw, family.at(numbers), alike=free and draw == ALIKE)
        question = Question(first.closed, second.closed, inputs, first.outputs, family.platform)
        try:
            yield identity(question)
        except (NotCovered, NothingCompared):  # noqa: S112
            continue  # as of a draw at which a number is infinite, which shows nothing about the formulas


def formulas_differ_at(
    functions: Sequence[Callable[..., Any]], family: Family, direction: str, numbers: Mapping[str, int]
) -> dict[str, str]:
    """Return by output that is another formula at concrete sizes the first place; what is not shown is left out."""
    differing: dict[str, str] = {}
    for proofs in itertools.islice(formulas_at(functions, family, direction, numbers), ENOUGH):
        for leaf, proof in proofs.items():
            if not proof.equal and not proof.undecided and proof.unsure is None:
                differing.setdefault(leaf, proof.witness or "")
    return differing


def has_free_integers(side: TracedFamily, family: Family) -> bool:
    """Tell whether a program has arrays of integers that neither their case draws nor a formula gives."""
    return any(
        np.dtype(aval.dtype).kind in "iu" and aval.shape and name not in family.equals and not _is_drawn(family, name)
        for name, aval in zip(side.inputs, side.closed.in_avals, strict=True)
    )


def _is_drawn(family: Family, name: str) -> bool:
    return name in family.args and family.args[name].values is not None


def inputs_at(side: TracedFamily, draw: int, family: Family, *, alike: bool = False) -> list[Input]:
    """Draw the inputs of a program: numbers, and integers as they are declared, else small ones.

    With `alike`, free integers of an array are all the same, so that as many as can be select one place.

    Raises:
        NotCovered: the declared values are not drawn in these shapes.
    """
    few = max(1, min((SMALL, *(size for aval in side.closed.in_avals for size in aval.shape))))
    inputs = []
    # Other integers at other sizes: ones that do not distinguish functions, as [2, 0, 2] backwards, are not met twice.
    sizes = [aval.shape for aval in side.closed.in_avals]
    for name, aval in zip(side.inputs, side.closed.in_avals, strict=True):
        rng = np.random.default_rng(zlib.crc32(f"{name} {draw} {sizes}".encode()))
        arg = family.args.get(name)
        bound = family.below[name].constant if name in family.below else None
        if name in family.equals:
            values = _at_places(family.equals[name], aval.shape)
        elif is_float(np.dtype(aval.dtype)):
            values = rng.standard_normal(aval.shape)
        elif arg is not None and arg.values is not None:
            values = _declared(arg.values, rng, aval.shape)
            if bound is not None and values.size and not 0 <= values.min() <= values.max() < bound:
                raise NotCovered(f"{name} is drawn beyond its bound {bound}")
        else:
            values = rng.integers(0, min(few, bound or few), aval.shape)
            values = values if bound is None else _up_to(bound, values, rng)
            values = np.full_like(values, values.flat[0]) if alike and values.size else values
        inputs.append(Input(name, np.asarray(values).astype(aval.dtype)))
    return inputs


def _up_to(bound: int, small: Any, rng: np.random.Generator) -> Any:
    """Draw half of the integers below a bound, and make one the largest: what they select lies on any device.

    The others stay small, so that some are equal. A single integer is the largest half of the time: beside the end of
    an array, functions agree that do not elsewhere.
    """
    drawn = np.where(rng.integers(0, 2, small.shape) == 1, rng.integers(0, bound, small.shape), small)
    if drawn.size > 1 or (drawn.size and rng.integers(2)):
        drawn.flat[rng.integers(drawn.size)] = bound - 1
    return drawn


def _at_places(equals: Polynomial, shape: tuple[int, ...]) -> Any:
    """Return integers that are what a polynomial of their places says."""
    places: dict[str, Any] = {f"index{axis}": index for axis, index in enumerate(np.indices(shape, np.int64))}
    return np.broadcast_to(equals.value(places), shape)


def _declared(values: Callable[..., Any], rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    try:
        return values(rng, shape)
    except DeclarationError as error:  # which draws for its own sizes alone
        raise NotCovered(str(error)) from error
