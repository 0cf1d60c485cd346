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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret.label_proof import movement
from samebits.interpret.problem import Question
from samebits.sizes.places.models import small_sizes
from samebits.sizes.places.polynomial import of
from samebits.sizes.proofs.family import Family, SizeOf
from samebits.sizes.proofs.operators import is_of_code
from samebits.sizes.proofs.tracing import TracedFamily, each_once, traced
from samebits.sizes.proofs.values import formulas_differ_at, has_free_integers, inputs_at

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
        for leaf, identity in leaves.items():
            if not identity.equal:
                differing.setdefault(leaf, identity.witness or "")
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
