"""The properties of one function by name: what it reads, proved for all values or refuted by two runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import CouldNotRun, RequestError
from samebits.properties.call import Call, Leaf
from samebits.properties.index_text import IndexText
from samebits.properties.outcome import PropertyOutcome
from samebits.properties.reading import Groups, Reading, Relation, decide

Names = str | Sequence[str]


def independent(
    function: Callable[..., Any], /, *args: Any, of: str, on: str, given: Names = (), **keywords: Any
) -> PropertyOutcome:
    """Find out whether output elements do not depend on input elements, by any path, whatever the values.

    Equivalent to running the function twice for each index, with other numbers in `on`, and comparing `of`, if this
    could be done for all numbers: one interpretation of the program follows which inputs each element is computed from.

    Args:
        function: of any pytrees of arrays.
        args, keywords: what it is called with: arrays of any shape and dtype, or `jax.ShapeDtypeStruct`. Integers,
            booleans and float masks (of 0, 1 and numbers below -1000) are meant as passed, all other numbers are not.
        of: output elements, such as `out[:, t]` or `out['logits'][b, t]`; a bare name as an index takes all its values.
        on: input elements that these must not depend on, such as `tokens[:, t+1:]`.
        given: the names of arguments whose floats are meant as passed too.

    Returns:
        The verdict: `proved` under the conditions it lists, `refuted` with two inputs, or `undecided` with the reason.

    Raises:
        RequestError: an expression names no element or an array that does not exist.
        CouldNotRun: the function could not be traced.
    """
    call = Call(function, args, keywords, _tuple(given))
    outputs, inputs = IndexText.parse("of", of), IndexText.parse("on", on)
    relation = _by_index(call, outputs, inputs)
    return PropertyOutcome(
        property="independent", function=call.name, readings=(decide(call.forward, relation, "forward"),)
    )


def assert_independent(function: Callable[..., Any], /, *args: Any, of: str, on: str, **more: Any) -> None:
    """Fail unless output elements are proved not to depend on input elements; as `independent`.

    Raises:
        AssertionError: they do; the message has two inputs that differ, and the output that moves.
        CouldNotRun: it is undecided.
    """
    __tracebackhide__ = True
    independent(function, *args, of=of, on=on, **more).raise_for_status()


def causal(
    function: Callable[..., Any],
    /,
    *args: Any,
    axis: int = 1,
    on: Names | None = None,
    given: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether outputs at a position read no input at a later one, forward and gradient.

    Equivalent to `independent(f, x, of="out[:, t]", on="x[:, t+1:]")`; the gradient at a position must not read the
    cotangent of an earlier one.

    Args:
        function, args, keywords, given: as for `independent`.
        axis: of positions, in inputs and outputs.
        on: the arguments that are asked; by default those whose shape begins like that of the first, up to the axis.
        gradient: whether the gradients with respect to their floats are asked too.

    Raises:
        RequestError: no output has the axis, or an argument does not exist.
        CouldNotRun: the function could not be traced.
    """

    def later(length: int) -> NDArray[np.bool_]:
        return np.triu(np.ones((length, length), bool), 1)

    return _by_position(
        "causal", Call(function, args, keywords, _tuple(given)), axis, on, later, "a later position", gradient
    )


def window(
    function: Callable[..., Any],
    /,
    *args: Any,
    size: int,
    axis: int = 1,
    on: Names | None = None,
    given: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether outputs at a position read inputs of the last `size` positions alone, this one included.

    Args:
        size: of the window, in positions.
        function, args, keywords, given, axis, on, gradient: as for `causal`.

    Raises:
        RequestError, CouldNotRun: as for `causal`.
    """
    if not isinstance(size, int) or size < 1:
        raise RequestError(f"size={size!r}; expected a number of positions, at least 1")

    def outside(length: int) -> NDArray[np.bool_]:
        inside = np.tril(np.ones((length, length), bool)) & ~np.tril(np.ones((length, length), bool), -size)
        return ~inside

    words = f"a position outside of its window of {size}"
    return _by_position("window", Call(function, args, keywords, _tuple(given)), axis, on, outside, words, gradient)


def batch_rows(
    function: Callable[..., Any],
    /,
    *args: Any,
    axis: int = 0,
    size: int = 1,
    on: Names | None = None,
    given: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether each row of a batch reads itself alone; a balance loss, a capacity, batch statistics break it.

    Args:
        axis: of the batch, in inputs and outputs.
        size: of a microbatch: rows of one microbatch may read each other.
        function, args, keywords, given, on, gradient: as for `causal`.

    Raises:
        RequestError, CouldNotRun: as for `causal`.
    """
    if not isinstance(size, int) or size < 1:
        raise RequestError(f"size={size!r}; expected a number of rows, at least 1")

    def others(length: int) -> NDArray[np.bool_]:
        batch = np.arange(length) // size
        return np.asarray(batch[:, None] != batch[None])

    words = "another row" if size == 1 else f"a row of another microbatch of {size}"
    return _by_position("batch_rows", Call(function, args, keywords, _tuple(given)), axis, on, others, words, gradient)


def packed(
    function: Callable[..., Any],
    /,
    *args: Any,
    segment_ids: str = "segment_ids",
    on: Names | None = None,
    given: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether packed documents are apart: outputs of a segment read no input of another one, in any row.

    The segment ids are meant as passed; pass some with a boundary after the first and before the last position.

    Args:
        segment_ids: the name of the argument that holds them, `[batch, positions]`; equal ids are one document.
        function, args, keywords, given, on, gradient: as for `causal`; positions are axis 1.

    Raises:
        RequestError: the segment ids are not there, or hold one segment only.
        CouldNotRun: as for `causal`.
    """
    call = Call(function, args, keywords, _tuple(given))
    ids = _integers(call, "segment_ids", segment_ids)
    if ids.ndim != 2 or all(len(np.unique(row)) < 2 for row in ids):
        raise RequestError(
            f"{segment_ids} of shape {list(ids.shape)} holds no row of two segments; expected [batch, positions] with "
            "several documents in a row"
        )
    rows = np.broadcast_to(np.arange(ids.shape[0])[:, None], ids.shape).reshape(-1)
    flat = ids.reshape(-1)
    apart = (rows[:, None] != rows[None]) | (flat[:, None] != flat[None])
    places = np.arange(ids.size).reshape(ids.shape)
    return _by_places("packed", call, places, places, apart, on, (segment_ids,), "another document", gradient)


def padding(
    function: Callable[..., Any],
    /,
    *args: Any,
    mask: str = "mask",
    on: Names | None = None,
    given: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether outputs at valid places, and gradients of them, do not depend on padded places.

    Args:
        mask: the name of the argument that says which places are valid, `[batch, positions]`: True, or not 0.
        function, args, keywords, given, on, gradient: as for `causal`. Outputs that have no positions are asked too.

    Raises:
        RequestError: the mask is not there, or masks nothing.
        CouldNotRun: as for `causal`.
    """
    call = Call(function, args, keywords, _tuple(given))
    valid = _integers(call, "mask", mask) != 0
    if valid.all() or not valid.any():
        raise RequestError(f"{mask} has {'no' if valid.all() else 'only'} padded places; pass one with both")
    asked, padded = np.where(valid, 0, -1), np.where(valid, -1, 0)
    return _by_places(
        "padding", call, asked, padded, np.ones((1, 1), bool), on, (mask,), "a padded place", gradient, whole=True
    )


def gradient_stops(function: Callable[..., Any], /, *args: Any, param: str, **keywords: Any) -> PropertyOutcome:
    """Find out whether no gradient reaches an argument, whatever the values.

    Args:
        function, args, keywords: as for `independent`.
        param: the name of the argument, or of an array in it, such as `params.table`.

    Raises:
        RequestError: there is no such float array, or the function returns no floats.
    """
    call, numbers, program = _gradient_of(function, args, keywords, param)
    inputs = {number: np.full(leaf.shape, 0, np.int64) for number, leaf in enumerate(program.inputs) if number >= len(call.inputs)}
    outputs = {number: np.zeros(leaf.shape, np.int64) for number, leaf in enumerate(program.outputs)}
    claim = f"the gradient of {param} reads no cotangent"
    relation = Relation(outputs, inputs, np.ones((1, 1), bool), claim)
    return PropertyOutcome(
        property="gradient_stops", function=call.name, readings=(decide(program, relation, "gradient"),)
    )


def gradient_reaches(function: Callable[..., Any], /, *args: Any, param: str, **keywords: Any) -> PropertyOutcome:
    """Find out whether a gradient reaches every array of an argument: some element of each is not zero in a run.

    Args:
        function, args, keywords, param: as for `gradient_stops`.

    Raises:
        RequestError: as for `gradient_stops`.
    """
    call, numbers, program = _gradient_of(function, args, keywords, param)
    values = program.executed([leaf.array for leaf in program.inputs])
    readings = []
    for number, value in zip(numbers, values, strict=True):
        name, nonzero = call.inputs[number].name, int(np.count_nonzero(value))
        claim = f"a gradient reaches {name}"
        if nonzero:
            words = (f"the values of this run: {nonzero} of {value.size} elements are not zero",)
            readings.append(Reading("gradient", claim, "proved", conditions=words))
            continue
        stops = gradient_stops(function, *args, param=name, **keywords).readings[0]
        if stops.verdict == "proved":
            witness = f"the gradient of {name} is zero, whatever the values"
            readings.append(Reading("gradient", claim, "refuted", witness=witness))
        else:
            readings.append(Reading("gradient", claim, "undecided", reason=f"all elements of {name} are zero in one run"))
    return PropertyOutcome(property="gradient_reaches", function=call.name, readings=tuple(readings))


# -- relations


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _integers(call: Call, option: str, name: str) -> NDArray[np.int64]:
    (number, *_) = call.selected(option, name)
    return np.asarray(call.inputs[number].array).astype(np.int64)


def _asked(call: Call, axes: int, on: Names | None, without: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the inputs that are asked: those that are named, or whose first axes are like those of the first one."""
    if on is not None:
        return call.selected("on", on)
    rest = [number for number, leaf in enumerate(call.inputs) if leaf.name not in without]
    if not rest:
        raise RequestError(f"no array to ask besides {', '.join(without)}; name it in on=")
    first = call.inputs[rest[0]].shape[:axes]
    return tuple(
        number
        for number in rest
        if call.inputs[number].shape[:axes] == first
        and len(first) == axes
        and (number == rest[0] or not call.inputs[number].given)
    )


def _by_position(
    name: str,
    call: Call,
    axis: int,
    on: Names | None,
    forbid: Callable[[int], NDArray[np.bool_]],
    words: str,
    gradient: bool,
) -> PropertyOutcome:
    """Decide a property of the positions along one axis."""
    numbers = _asked(call, axis + 1, on)
    short = next((call.inputs[n] for n in numbers if len(call.inputs[n].shape) <= axis), None)
    if short is not None or not numbers:
        leaf = short or call.inputs[0]
        raise RequestError(f"{leaf.name} has the shape {list(leaf.shape)} and no axis {axis}; name arrays in on=, or axis=")
    length = call.inputs[numbers[0]].shape[axis]
    other = next((call.inputs[n] for n in numbers if call.inputs[n].shape[axis] != length), None)
    if other is not None:
        raise RequestError(
            f"{call.inputs[numbers[0]].name} has {length} positions and {other.name} {other.shape[axis]}; ask one by one"
        )
    forbidden = forbid(length)

    def groups(leaf: Leaf) -> Groups | None:
        if len(leaf.shape) <= axis or leaf.shape[axis] != length:
            return None
        along = np.arange(length).reshape([-1 if dim == axis else 1 for dim in range(len(leaf.shape))])
        return np.broadcast_to(along, leaf.shape)

    return _both_ways(name, call, numbers, groups, groups, forbidden, f"at any index of axis {axis}", words, gradient)


def _by_places(
    name: str,
    call: Call,
    asked: Groups,
    read: Groups,
    forbidden: NDArray[np.bool_],
    on: Names | None,
    without: Sequence[str],
    words: str,
    gradient: bool,
    *,
    whole: bool = False,
) -> PropertyOutcome:
    """Decide a property of places `[batch, positions]`; with `whole`, outputs without them are asked as a whole."""
    numbers = tuple(n for n in _asked(call, 2, on, without) if call.inputs[n].shape[:2] == read.shape)
    if not numbers:
        raise RequestError(f"no array of shape {[*read.shape]} and more, as {without[0]}; the arrays are {call.names}")

    def spread(places: Groups, leaf: Leaf) -> Groups | None:
        if leaf.shape[:2] != places.shape:
            return None
        return np.broadcast_to(places.reshape(*places.shape, *[1] * (len(leaf.shape) - 2)), leaf.shape)

    def of_output(leaf: Leaf) -> Groups | None:
        groups = spread(asked, leaf)
        return np.zeros(leaf.shape, np.int64) if groups is None and whole else groups

    where = "at valid places" if whole else "at any place"
    if not whole:
        return _both_ways(name, call, numbers, of_output, lambda leaf: spread(read, leaf), forbidden, where, words, gradient)
    return _padded(name, call, numbers, of_output, lambda leaf: spread(read, leaf), words, gradient)


Grouping = Callable[[Leaf], Groups | None]


def _both_ways(
    name: str,
    call: Call,
    numbers: tuple[int, ...],
    of_output: Grouping,
    of_input: Grouping,
    forbidden: NDArray[np.bool_],
    where: str,
    words: str,
    gradient: bool,
) -> PropertyOutcome:
    """Decide a relation forward, and turned around of gradients, which read cotangents where outputs read inputs."""
    outputs, missing = _grouped(call.forward.outputs, of_output)
    if not outputs:
        shapes = ", ".join(f"{leaf.name}{list(leaf.shape)}" for leaf in call.forward.outputs)
        raise RequestError(f"no output has what {name} asks of {call.inputs[numbers[0]].name}: {shapes}")
    inputs = {number: of_input(call.inputs[number]) for number in numbers}
    asked = ", ".join(call.inputs[number].name for number in numbers)
    claim = f"outputs {where} read {asked} at no {words.removeprefix('a ').removeprefix('an')}"
    claim = f"an output {where} does not read {asked} at {words}"
    readings = [decide(call.forward, Relation(outputs, _present(inputs), forbidden, claim), "forward")]
    notes = [f"not asked, without such an axis: {', '.join(missing)}"] if missing else []
    floats = [number for number in numbers if call.inputs[number].is_float]
    if gradient and floats and any(call.forward.outputs[n].is_float for n in outputs):
        try:
            program = call.gradient(floats)
        except CouldNotRun as error:
            notes.append(f"the gradient was not asked: {error}")
            return PropertyOutcome(property=name, function=call.name, readings=tuple(readings), notes=tuple(notes))
        first = len(call.inputs)
        cotangents, others = _grouped(program.inputs[first:], of_output)
        shifted = {number + first: groups for number, groups in cotangents.items()}
        zeros = {first + n: np.ones(leaf.shape, bool) for n, leaf in enumerate(program.inputs[first:]) if leaf.name in others}
        back = {place: of_input(call.inputs[number]) for place, number in enumerate(floats)}
        turned = f"a gradient of {asked} reads no cotangent of an output that must not read it"
        relation = Relation(_present(back), shifted, forbidden.T, turned, zeros)
        readings.append(decide(program, relation, "gradient"))
    return PropertyOutcome(property=name, function=call.name, readings=tuple(readings), notes=tuple(notes))


def _padded(
    name: str,
    call: Call,
    numbers: tuple[int, ...],
    of_output: Grouping,
    of_input: Grouping,
    words: str,
    gradient: bool,
) -> PropertyOutcome:
    """Decide that padded places are not read: by outputs at valid ones, nor by any gradient of these outputs."""
    outputs, _ = _grouped(call.forward.outputs, of_output)
    inputs = _present({number: of_input(call.inputs[number]) for number in numbers})
    asked = ", ".join(call.inputs[number].name for number in numbers)
    forbidden = np.ones((1, 1), bool)
    claim = f"an output at valid places does not read {asked} at {words}"
    readings = [decide(call.forward, Relation(outputs, inputs, forbidden, claim), "forward")]
    floats = [number for number, leaf in enumerate(call.inputs) if leaf.is_float and not leaf.given]
    if gradient and floats and any(leaf.is_float for leaf in call.forward.outputs):
        program, first = call.gradient(floats), len(call.inputs)
        zeros = {}
        for place, leaf in enumerate(program.inputs[first:], first):
            groups = of_output(leaf)
            if groups is not None and (groups < 0).any():
                zeros[place] = groups < 0
        back = {}
        for place, number in enumerate(floats):
            padded = of_input(call.inputs[number]) if number in numbers else None
            back[place] = np.zeros(call.inputs[number].shape, np.int64) if padded is None else np.where(padded < 0, 0, -1)
        turned = f"a gradient of outputs at valid places does not read {asked} at {words}"
        readings.append(decide(program, Relation(back, inputs, forbidden, turned, zeros), "gradient"))
    return PropertyOutcome(property=name, function=call.name, readings=tuple(readings))


def _grouped(leaves: Sequence[Leaf], grouping: Grouping) -> tuple[dict[int, Groups], list[str]]:
    """Return the groups of arrays by number, and the names of those that have none."""
    groups = {number: grouping(leaf) for number, leaf in enumerate(leaves)}
    return _present(groups), [leaves[number].name for number, each in groups.items() if each is None]


def _present(groups: Mapping[int, Groups | None]) -> dict[int, Groups]:
    return {number: each for number, each in groups.items() if each is not None}


def _gradient_of(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], param: str
) -> tuple[Call, tuple[int, ...], Any]:
    call = Call(function, args, keywords)
    numbers = tuple(number for number in call.selected("param", param) if call.inputs[number].is_float)
    if not numbers:
        raise RequestError(f"param={param!r} holds no floats, which alone have gradients")
    return call, numbers, call.gradient(numbers)


def _by_index(call: Call, of: IndexText, on: IndexText) -> Relation:
    """Return the relation of two index expressions."""
    outputs = {leaf.name: number for number, leaf in enumerate(call.forward.outputs)}
    inputs = {leaf.name: number for number, leaf in enumerate(call.inputs)}
    for option, text, known in (("of", of, outputs), ("on", on, inputs)):
        if text.name not in known:
            raise RequestError(f"{option}={text.text!r}: no array '{text.name}'; there are {', '.join(known)}")
    output, own = call.forward.outputs[outputs[of.name]], call.inputs[inputs[on.name]]
    axes = of.axes(len(output.shape))
    names = {entry.id: size for entry, size in zip(axes, output.shape, strict=True) if hasattr(entry, "id")}
    split = [dim for dim, entry in enumerate(on.axes(len(own.shape))) if entry is not None]
    sizes = [own.shape[dim] for dim in split]
    numbers = np.arange(int(np.prod(sizes))).reshape([own.shape[d] if d in split else 1 for d in range(len(own.shape))])
    own_groups = np.broadcast_to(numbers, own.shape)
    groups = np.full(output.shape, -1, np.int64)
    forbidden = np.zeros((int(np.prod([*names.values()])), max(numbers.size, 1)), bool)
    for group, at in enumerate(np.ndindex(*names.values())):
        variables = dict(zip(names, map(int, at), strict=True))
        groups[of.index(output.shape, variables)] = group
        forbidden[group, np.unique(own_groups[on.index(own.shape, variables)])] = True
    if not forbidden.any() or not (groups >= 0).any():
        raise RequestError(f"on={on.text!r} names no element of {on.name}{list(own.shape)} for any index of {of.text!r}")
    claim = f"{of.text} does not read {on.text}"
    return Relation({outputs[of.name]: groups}, {inputs[on.name]: own_groups}, forbidden, claim)
