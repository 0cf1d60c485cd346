"""Relations of places: which outputs must not read which inputs, forward, and turned around for gradients."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.errors import CouldNotRun, RequestError
from samebits.properties.call import Call, NamedArray, TracedProgram
from samebits.properties.index_text import IndexText
from samebits.properties.outcome import PropertyOutcome
from samebits.properties.reading import Groups, Reading, Relation, decide

Names = str | Sequence[str]
Grouping = Callable[[NamedArray], Groups | None]
"""The group of each element of an array; None where it has none of the places that are asked."""


class _PulledBack(NamedTuple):
    """The program of gradients of some floats: the groups of its cotangents, and which of these are zero."""

    program: TracedProgram
    floats: list[int]
    cotangents: dict[int, Groups]
    zeros: dict[int, NDArray[np.bool_]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacesAsked:
    """What is asked of the places of one function.

    Args:
        name: of the property.
        call: of the function.
        on: the numbers of the inputs that must not be read.
        of_output, of_input: the places of outputs and inputs.
        forbidden: `[places of outputs, places of inputs]`.
        place: what a place is called, by its number.
        where, words: of the claim: where outputs are asked, and what they must not read.
    """

    name: str
    call: Call
    on: tuple[int, ...]
    of_output: Grouping
    of_input: Grouping
    forbidden: NDArray[np.bool_]
    place: Callable[[int], str]
    where: str
    words: str

    @property
    def names(self) -> str:
        """The names of the inputs that must not be read."""
        return ", ".join(self.call.inputs[number].name for number in self.on)

    def forward(self) -> tuple[Reading, list[str]]:
        """Decide it of the outputs; also return the names of those that have no such places.

        Raises:
            RequestError: no output has any.
        """
        leaves = self.call.forward.outputs
        groups = {number: self.of_output(leaf) for number, leaf in enumerate(leaves)}
        outputs, missing = _present(groups), [leaves[number].name for number, each in groups.items() if each is None]
        if not outputs:
            shapes = ", ".join(f"{leaf.name}{list(leaf.shape)}" for leaf in leaves)
            raise RequestError(f"no output has the places of {self.names} that {self.name} asks: {shapes}")
        inputs = _present({number: self.of_input(self.call.inputs[number]) for number in self.on})
        claim = f"an output {self.where} does not read {self.names} at {self.words}"
        words = (lambda n: f"an output at {self.place(n)}"), (lambda n: f"an input at {self.place(n)}")
        relation = Relation(outputs, inputs, self.forbidden, claim, words)
        return decide(self.call.forward, relation, "forward"), missing

    def _pulled_back(self, numbers: Sequence[int]) -> _PulledBack | None:
        """Return the gradients with respect to those of some inputs that are floats; None where there are none."""
        floats = [number for number in numbers if self.call.inputs[number].is_float]
        if not floats or not any(leaf.is_float for leaf in self.call.forward.outputs):
            return None
        program, first = self.call.gradient(floats), len(self.call.inputs)
        groups = {number: self.of_output(leaf) for number, leaf in enumerate(program.inputs) if number >= first}
        shapes = {number: program.inputs[number].shape for number in groups}
        zeros = {n: np.ones(shapes[n], bool) if each is None else each < 0 for n, each in groups.items()}
        zeros = {number: each for number, each in zeros.items() if each.any()}
        return _PulledBack(program, floats, _present(groups), zeros)

    def gradient(self) -> Reading | None:
        """Decide it of the gradients, which read cotangents where outputs read inputs; None where there are none."""
        back = self._pulled_back(self.on)
        if back is None or not back.cotangents:
            return None
        outputs = _present({place: self.of_input(self.call.inputs[number]) for place, number in enumerate(back.floats)})
        claim = f"a gradient of {self.names} reads no cotangent of an output that must not read it"
        words = (lambda n: f"the gradient at {self.place(n)}"), (lambda n: f"the cotangent at {self.place(n)}")
        relation = Relation(outputs, back.cotangents, self.forbidden.T, claim, words, back.zeros)
        return decide(back.program, relation, "gradient")

    def gradient_at_asked(self) -> Reading | None:
        """Decide that no gradient of the outputs that are asked reads the inputs; None where there are none."""
        call = self.call
        back = self._pulled_back([number for number, leaf in enumerate(call.inputs) if not leaf.exact])
        if back is None:
            return None
        inputs = _present({number: self.of_input(call.inputs[number]) for number in self.on})
        outputs = {
            place: np.where(inputs[number] < 0, 0, -1) if number in inputs else np.zeros(call.inputs[number].shape, int)
            for place, number in enumerate(back.floats)
        }
        claim = f"a gradient of outputs {self.where} is finite and does not read {self.names} at {self.words}"
        words = (lambda n: "a gradient"), (lambda n: f"an input at {self.words}")
        relation = Relation(outputs, inputs, self.forbidden, claim, words, back.zeros, finite=True)
        return decide(back.program, relation, "gradient")

    def outcome(self, *, gradient: bool, at_asked: bool = False) -> PropertyOutcome:
        """Decide it forward, and of gradients where these are asked."""
        forward, missing = self.forward()
        readings, notes = [forward], [f"not asked, without such places: {', '.join(missing)}"] if missing else []
        try:
            if gradient and (more := self.gradient_at_asked() if at_asked else self.gradient()):
                readings.append(more)
        except CouldNotRun as error:
            notes.append(f"the gradient was not asked: {error}")
        return PropertyOutcome(name=self.name, function=self.call.name, readings=tuple(readings), notes=tuple(notes))


def asked_inputs(
    call: Call, shapes: Collection[tuple[int, ...]], on: Names | None, without: Sequence[str] = ()
) -> tuple[int, ...]:
    """Return the inputs that are asked: those that are named, or the floats whose first axes are those of outputs.

    An argument is asked as a whole: weights are not, although one of them may have these axes by chance. Where no
    floats have them, the first integers that do are asked, such as tokens.

    Args:
        shapes: of the first axes.
        without: the names of what is never asked.

    Raises:
        RequestError: there is no such array, or a name is unknown.
    """
    if on is not None:
        return call.selected("on", on)
    others = {leaf.argument for leaf in call.inputs if not any(leaf.shape[: len(shape)] == shape for shape in shapes)}
    alike = [n for n, leaf in enumerate(call.inputs) if leaf.argument not in others and leaf.name not in without]
    floats = tuple(number for number in alike if call.inputs[number].is_float and not call.inputs[number].exact)
    if not alike:
        words = " or ".join(str([*shape]) for shape in shapes)
        raise RequestError(f"no array begins with the shape {words}; name in on= what must not be read: {call.listed}")
    return floats or tuple(alike[:1])


def along_axis(call: Call, numbers: Sequence[int], axis: int) -> tuple[int, Grouping]:
    """Return how many places an axis has in some inputs, and the place of each element along it.

    Raises:
        RequestError: an input has no such axis, or another length.
    """
    short = next((call.inputs[n] for n in numbers if len(call.inputs[n].shape) <= axis), None)
    if short is not None or not numbers:
        leaf = short or call.inputs[0]
        raise RequestError(
            f"{leaf.name} has the shape {list(leaf.shape)} and no axis {axis}; name arrays in on=, or axis="
        )
    length = call.inputs[numbers[0]].shape[axis]
    other = next((call.inputs[n] for n in numbers if call.inputs[n].shape[axis] != length), None)
    if other is not None:
        names = f"{call.inputs[numbers[0]].name} has {length} positions and {other.name} {other.shape[axis]}"
        raise RequestError(f"{names}; ask one by one, by on=")

    def groups(leaf: NamedArray) -> Groups | None:
        if len(leaf.shape) <= axis or leaf.shape[axis] != length:
            return None
        along = np.arange(length).reshape([-1 if dim == axis else 1 for dim in range(len(leaf.shape))])
        return np.broadcast_to(along, leaf.shape)

    return length, groups


def at_places(places: Groups, *, whole: bool = False) -> Grouping:
    """Return the group of each element of arrays `[batch, positions, ...]`; with `whole`, others are group 0."""

    def groups(leaf: NamedArray) -> Groups | None:
        if leaf.shape[:2] != places.shape:
            return np.zeros(leaf.shape, np.int64) if whole else None
        return np.broadcast_to(places.reshape(*places.shape, *[1] * (len(leaf.shape) - 2)), leaf.shape)

    return groups


def by_index(call: Call, of: IndexText, on: IndexText) -> Relation:
    """Return the relation of two index expressions.

    Raises:
        RequestError: an array does not exist, or no element is meant.
    """
    outputs = {leaf.name: number for number, leaf in enumerate(call.forward.outputs)}
    inputs = {leaf.name: number for number, leaf in enumerate(call.inputs)}
    for option, text, known in (("of", of, outputs), ("on", on, inputs)):
        if text.name not in known:
            raise RequestError(f"{option}={text.text!r}: no array '{text.name}'; there are {', '.join(known)}")
    output, own = call.forward.outputs[outputs[of.name]], call.inputs[inputs[on.name]]
    axes = zip(of.axes(len(output.shape)), output.shape, strict=True)
    names = {entry.id: size for entry, size in axes if isinstance(entry, ast.Name)}
    split = [dim for dim, entry in enumerate(on.axes(len(own.shape))) if entry is not None]
    sizes = [own.shape[dim] if dim in split else 1 for dim in range(len(own.shape))]
    own_groups = np.broadcast_to(np.arange(int(np.prod(sizes))).reshape(sizes), own.shape)
    groups = np.full(output.shape, -1, np.int64)
    forbidden = np.zeros((int(np.prod([*names.values()])), int(np.prod(sizes))), bool)
    for group, at in enumerate(np.ndindex(*names.values())):
        variables = dict(zip(names, map(int, at), strict=True))
        groups[of.index(output.shape, variables)] = group
        forbidden[group, np.unique(own_groups[on.index(own.shape, variables)])] = True
    if not forbidden.any() or not (groups >= 0).any():
        raise RequestError(
            f"on={on.text!r} names no element of {on.name}{list(own.shape)} for any index of {of.text!r}"
        )

    def at_output(number: int) -> str:
        at = np.unravel_index(number, [*names.values()]) if names else ()
        return f"{of.text} at {', '.join(f'{name}={int(n)}' for name, n in zip(names, at, strict=True))}".removesuffix(
            " at "
        )

    def at_input(number: int) -> str:
        place = np.unravel_index(number, sizes)
        return f"{on.name}[{', '.join(str(int(n)) if dim in split else ':' for dim, n in enumerate(place))}]"

    claim = f"{of.text} does not read {on.text}"
    words = at_output, at_input
    return Relation({outputs[of.name]: groups}, {inputs[on.name]: own_groups}, forbidden, claim, words)


def _present(groups: Mapping[int, Groups | None]) -> dict[int, Groups]:
    return {number: each for number, each in groups.items() if each is not None}
