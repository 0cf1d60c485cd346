"""Two functions for every size at once: the dimensions of their arguments get names, and these become symbols.

In: the declaration of a call, whose shapes are numbers, and `sizes=` of the call. Out: the same with named sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from samebits.errors import DeclarationError, RequestError
from samebits.programs.inputs import arg_below, arg_equals, check_values
from samebits.schema.case import Arg, Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Given

AS_IT_IS = "_"
"""In the text of a shape: the dimension stays the number that it is in the call."""

EXAMPLE = "sizes={'x': 'batch, length, dim', 'length': '4*cp*g'}"


@dataclass
class _Named:
    """The sizes of a call, by name."""

    numbers: dict[str, int] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    expressions: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, number: int, place: str) -> None:
        """Return a dimension of a name, which has one number."""
        if self.numbers.setdefault(name, number) != number:
            raise RequestError(
                f"sizes: '{name}' is {self.numbers[name]} in {self.places[name]} and {number} in {place}; expected one "
                "number in all of the call"
            )
        self.places.setdefault(name, place)


def with_sizes(pair: Pair, sizes: Mapping[str, str] | Literal["all"]) -> Pair:
    """Return the pair of two functions with symbols for sizes.

    Args:
        sizes: by array its shape as a text of symbols, and after it `; below EXPRESSION` for integers that select
            elements, or `; equals EXPRESSION` for ones that have no choice; by static argument or by name in a shape an
            expression; or `all` for one symbol for all dimensions of one number.

    Raises:
        RequestError: a name or an expression does not fit the call.
    """
    trees = pair.argument_trees(pair.cases[0], MeshSpec.parse((*pair.meshes, *pair.wide_meshes)[0]))
    leaves = {name: arg for argument, tree in trees.items() for name, arg in tree.leaves(argument).items()}
    named = _Named()
    if isinstance(sizes, str):
        shapes = _every_dimension(leaves, pair.cases[0])
    else:
        shapes = {name: text for name, text in sizes.items() if name in leaves}
    integers = {name: _of_integers(name, leaves[name], text) for name, text in shapes.items() if ";" in str(text)}
    shapes = {name: str(text).partition(";")[0] for name, text in shapes.items()}
    dimensions = {name: _dimensions(name, leaves[name], text, named) for name, text in shapes.items()}
    static = pair.cases[0].numbers
    for name, number in static.items():
        if name in named.numbers:
            named.add(name, number, f"the argument {name}")
    if isinstance(sizes, Mapping):
        rest = {name: text for name, text in sizes.items() if name not in leaves}
        _check_names(rest, {**named.numbers, **static}, [*named.expressions.values(), *rest.values()], leaves)
        named.expressions |= rest
    symbols = {**{name: name for name in static if name in named.numbers}, **named.expressions}

    def named_shape(leaf: str, arg: Arg) -> Arg:
        return replace(arg, shape=dimensions.get(leaf, arg.shape), **integers.get(leaf, {}))

    try:
        cases = tuple(replace(case, sizes=named.numbers, symbols=symbols) for case in pair.cases)
        cases[0].size_symbols("sizes", pair.axes)
        sized = {name: tree.changed(name, named_shape) for name, tree in trees.items()}
        for argument, tree in sized.items():
            for name, arg in tree.leaves(argument).items():
                arg_below(arg, name, cases[0])
                arg_equals(arg, name, cases[0], {f"index{axis}": 0 for axis in range(len(arg.shape))})
                if isinstance(arg.values, Given) and name in integers:
                    check_values(arg, name, np.asarray(arg.values.array), cases[0])
        return replace(pair, args=sized, cases=cases)
    except DeclarationError as error:
        raise RequestError(str(error)) from None


def _every_dimension(leaves: Mapping[str, Arg], case: Case) -> dict[str, str]:
    """Write the shape of every array as a text, in which dimensions of one number have one name."""
    names: dict[int, str] = {}
    taken = set(case.statics)
    texts = {}
    for leaf, arg in leaves.items():
        words = []
        for dimension, size in enumerate(arg.shape):
            number = int(size)
            if number > 1 and number not in names:
                names[number] = _free_name(f"{_identifier(leaf)}{dimension}", taken)
            words.append(names.get(number, AS_IT_IS))
        texts[leaf] = ", ".join(words)
    return texts


def _dimensions(leaf: str, arg: Arg, text: str, named: _Named) -> tuple[int | str, ...]:
    """Return the dimensions of an array by name; those of another expression get one of their own."""
    words = [word.strip() for word in str(text).strip().strip("()").rstrip(",").split(",")] if str(text).strip() else []
    shape = tuple(int(size) for size in arg.shape)
    if len(words) != len(shape):
        raise RequestError(
            f"sizes: '{leaf}' is '{text}', of {len(words)} dimensions, and the argument has the shape {shape}; "
            f"expected one symbol, expression, number or '{AS_IT_IS}' for each dimension"
        )
    sizes: list[int | str] = []
    for dimension, (word, number) in enumerate(zip(words, shape, strict=True)):
        place = f"dimension {dimension} of {leaf}"
        if word in (AS_IT_IS, str(number)):
            sizes.append(number)
        elif word.isidentifier():
            named.add(word, number, place)
            sizes.append(word)
        elif word.isdigit():
            raise RequestError(f"sizes: {place} is '{word}' and {number} in the call; expected the same number")
        else:
            named.add(place, number, place)
            named.expressions[place] = word
            sizes.append(place)
    return tuple(sizes)


def _check_names(
    rest: Mapping[str, str], known: Mapping[str, int], texts: Iterable[str], leaves: Mapping[str, Arg]
) -> None:
    """Reject names that stand for nothing in the call."""
    used = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", str(text))}
    for name, text in rest.items():
        if name not in known and not (str(text).strip().startswith(">=") and name in used):
            raise RequestError(
                f"sizes: '{name}' is not an array ({', '.join(leaves)}), an integer argument or a dimension in the "
                f"shape of an array; name dimensions as in {EXAMPLE}"
            )


def _of_integers(leaf: str, arg: Arg, text: str) -> dict[str, Any]:
    """Return what is said of the elements of an array of integers, as a field of its `Arg`."""
    word, _, expression = text.partition(";")[2].strip().partition(" ")
    if word not in ("below", "equals") or not expression.strip():
        raise RequestError(
            f"sizes: '{leaf}' is '{text}'; expected a bound after the shape as '; below vocab', or what the elements "
            "are as '; equals index1'"
        )
    if not np.issubdtype(np.dtype(arg.dtype), np.integer):
        raise RequestError(
            f"sizes: '{leaf}' is '{text}', and its elements are of {arg.dtype}; expected integers before '{word}'"
        )
    return {word: expression.strip()}


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
