"""The properties of one function by name: what it reads, proved for all values or refuted by two runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import RequestError
from samebits.properties.call import Call, TracedProgram
from samebits.properties.index_text import IndexText
from samebits.properties.outcome import PropertyOutcome
from samebits.properties.reading import Reading, Relation, decide
from samebits.properties.relations import Names, PlacesAsked, along_axis, asked_inputs, at_places, by_index


def independent(
    function: Callable[..., Any], /, *args: Any, of: str, on: str, exactly: Names = (), **keywords: Any
) -> PropertyOutcome:
    """Find out whether output elements do not depend on input elements, by any path, whatever the values.

    Equivalent to running the function twice for each index, with other numbers in `on`, and comparing `of`, if this
    could be done for all numbers: one interpretation of the program follows which inputs each element is computed from.

    Args:
        function: of any pytrees of arrays.
        args: what it is called with: arrays of any shape and dtype, or `jax.ShapeDtypeStruct`. Integers, booleans and
            float masks (of 0, 1 and numbers below -1000, not one-hot) are meant as passed, all other numbers are not.
        keywords: more of what it is called with.
        of: output elements, such as `out[:, t]` or `out['logits'][b, t]`; a bare name as an index takes all its values.
        on: input elements that these must not depend on, such as `tokens[:, t+1:]`.
        exactly: the names of arguments whose floats are meant as passed too.

    Returns:
        The verdict: `proved` under the conditions it lists, `refuted` with two inputs, or `undecided` with the reason.

    Raises:
        RequestError: an expression names no element or an array that does not exist.
        CouldNotRun: the function could not be traced.
    """
    call = Call(function, args, keywords, exactly)
    outputs, inputs = IndexText.parse("of", of), IndexText.parse("on", on)
    reading = decide(call.forward, by_index(call, outputs, inputs), "forward")
    return PropertyOutcome(name="independent", function=call.name, readings=(reading,))


def assert_independent(function: Callable[..., Any], /, *args: Any, of: str, on: str, **more: Any) -> None:
    """Fail unless output elements are proved not to depend on input elements; as `independent`.

    Args:
        function: as for `independent`.
        args: as for `independent`.
        of: as for `independent`.
        on: as for `independent`.
        more: as for `independent`.

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
    exactly: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether outputs at a position read no input at a later one, forward and gradient.

    Equivalent to `independent(f, x, of="out[:, t]", on="x[:, t+1:]")`; the gradient at a position must not read the
    cotangent of an earlier one.

    Args:
        function: as for `independent`.
        args: as for `independent`.
        keywords: as for `independent`.
        exactly: as for `independent`.
        axis: of positions, in inputs and outputs.
        on: the arguments that must not be read; by default the floats whose first axes are those of an output, up to
            the axis, or else the first integers that have them.
        gradient: whether the gradients with respect to their floats are asked too.

    Raises:
        RequestError: no output has the axis, or an argument does not exist.
        CouldNotRun: the function could not be traced.
    """
    call = Call(function, args, keywords, exactly)
    places = _by_position("causal", call, axis, on, lambda far: far < 0, "a later position")
    return places.outcome(gradient=gradient)


def window(
    function: Callable[..., Any],
    /,
    *args: Any,
    size: int,
    axis: int = 1,
    on: Names | None = None,
    exactly: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether outputs at a position read inputs of the last `size` positions alone, this one included.

    Args:
        size: of the window, in positions.
        axis: of positions, in inputs and outputs.
        function: as for `causal`.
        args: as for `causal`.
        keywords: as for `causal`.
        on: as for `causal`.
        exactly: as for `causal`.
        gradient: as for `causal`.
    """
    _require_size(size, "positions")
    call, words = Call(function, args, keywords, exactly), f"a position outside of its window of {size}"
    places = _by_position("window", call, axis, on, lambda far: (far < 0) | (far >= size), words)
    return places.outcome(gradient=gradient)


def batch_rows(
    function: Callable[..., Any],
    /,
    *args: Any,
    axis: int = 0,
    on: Names | None = None,
    exactly: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether each row of a batch reads itself alone; a balance loss, a capacity, batch statistics break it.

    Args:
        axis: of the batch, in inputs and outputs.
        function: as for `causal`.
        args: as for `causal`.
        keywords: as for `causal`.
        on: as for `causal`.
        exactly: as for `causal`.
        gradient: as for `causal`.
    """
    call = Call(function, args, keywords, exactly)
    places = _by_position("batch_rows", call, axis, on, lambda far: far != 0, "another row")
    return places.outcome(gradient=gradient)


def microbatches(
    function: Callable[..., Any],
    /,
    *args: Any,
    size: int,
    axis: int = 0,
    on: Names | None = None,
    exactly: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether each microbatch reads itself alone; its rows may read each other.

    Args:
        size: of a microbatch, in rows.
        axis: of the batch, in inputs and outputs.
        function: as for `causal`.
        args: as for `causal`.
        keywords: as for `causal`.
        on: as for `causal`.
        exactly: as for `causal`.
        gradient: as for `causal`.
    """
    _require_size(size, "rows")
    call, words = Call(function, args, keywords, exactly), f"a row of another microbatch of {size}"
    places = _by_position("microbatches", call, axis, on, lambda far: far != 0, words, size)
    return places.outcome(gradient=gradient)


def packed(
    function: Callable[..., Any],
    /,
    *args: Any,
    segment_ids: str = "segment_ids",
    on: Names | None = None,
    exactly: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether packed documents are apart: outputs of a segment read no input of another one, in any row.

    Positions are axis 1. The segment ids are meant as passed; give boundaries after the first and before the last.

    Args:
        segment_ids: the name of the argument that holds them, `[batch, positions]`; equal ids are one document.
        function: as for `causal`.
        args: as for `causal`.
        keywords: as for `causal`.
        on: as for `causal`.
        exactly: as for `causal`.
        gradient: as for `causal`.

    Raises:
        RequestError: the segment ids are not there, or hold one segment only.
    """
    call = Call(function, args, keywords, exactly, segment_ids=segment_ids)
    ids = _integers(call, "segment_ids", segment_ids)
    if ids.ndim != 2 or all(len(np.unique(row)) < 2 for row in ids):
        raise RequestError(
            f"{segment_ids} of shape {list(ids.shape)} holds no row of two segments; expected [batch, positions] with "
            "several documents in a row"
        )
    rows = np.broadcast_to(np.arange(ids.shape[0])[:, None], ids.shape).reshape(-1)
    flat = ids.reshape(-1)
    apart = (rows[:, None] != rows[None]) | (flat[:, None] != flat[None])
    groups = at_places(np.arange(ids.size).reshape(ids.shape))
    places = PlacesAsked(
        name="packed",
        call=call,
        on=_at_places(call, ids, on, segment_ids),
        of_output=groups,
        of_input=groups,
        forbidden=apart,
        place=lambda n: f"[{n // ids.shape[1]}, {n % ids.shape[1]}]",
        where="at any place",
        words="another document",
    )
    return places.outcome(gradient=gradient)


def padding(
    function: Callable[..., Any],
    /,
    *args: Any,
    mask: str = "mask",
    on: Names | None = None,
    exactly: Names = (),
    gradient: bool = True,
    **keywords: Any,
) -> PropertyOutcome:
    """Find out whether outputs at valid places, and gradients of them, do not depend on padded places.

    Positions are axis 1. Outputs that have no positions are asked too.

    Args:
        mask: the name of the argument that says which places are valid, `[batch, positions]`: True, or not 0.
        function: as for `causal`.
        args: as for `causal`.
        keywords: as for `causal`.
        on: as for `causal`.
        exactly: as for `causal`.
        gradient: as for `causal`.

    Raises:
        RequestError: the mask is not there, or masks nothing.
    """
    call = Call(function, args, keywords, exactly, mask=mask)
    valid = _integers(call, "mask", mask) != 0
    if valid.all() or not valid.any():
        raise RequestError(f"{mask} has {'no' if valid.all() else 'only'} padded places; pass one with both")
    places = PlacesAsked(
        name="padding",
        call=call,
        on=_at_places(call, valid, on, mask),
        of_output=at_places(np.where(valid, 0, -1), whole=True),
        of_input=at_places(np.where(valid, -1, 0)),
        forbidden=np.ones((1, 1), bool),
        place=lambda n: "any of these places",
        where="at valid places",
        words="a padded place",
    )
    return places.outcome(gradient=gradient, at_asked=True)


def gradient_stops(function: Callable[..., Any], /, *args: Any, param: str, **keywords: Any) -> PropertyOutcome:
    """Find out whether no gradient reaches an argument, whatever the values.

    Args:
        function: as for `independent`.
        args: as for `independent`.
        keywords: as for `independent`.
        param: the name of the argument, or of an array in it, such as `params.table`.

    Raises:
        RequestError: there is no such float array, or the function returns no floats.
    """
    call, _, program = _gradient_of(function, args, keywords, param)
    cotangents = [*enumerate(program.inputs)][len(call.inputs) :]
    inputs = {number: np.zeros(leaf.shape, np.int64) for number, leaf in cotangents}
    outputs = {number: np.zeros(leaf.shape, np.int64) for number, leaf in enumerate(program.outputs)}
    claim = f"the gradient of {param} reads no cotangent"
    words = (lambda n: f"the gradient of {param}"), (lambda n: "a cotangent")
    relation = Relation(outputs, inputs, np.ones((1, 1), bool), claim, words)
    return PropertyOutcome(name="gradient_stops", function=call.name, readings=(decide(program, relation, "gradient"),))


def gradient_reaches(function: Callable[..., Any], /, *args: Any, param: str, **keywords: Any) -> PropertyOutcome:
    """Find out whether a gradient reaches every array of an argument: some element of each is not zero in a run.

    Args:
        function: as for `independent`.
        args: as for `independent`.
        keywords: as for `independent`.
        param: the name of the argument, or of an array in it.
    """
    begin = time.perf_counter()
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
            reason = f"all elements of {name} are zero in one run"
            readings.append(Reading("gradient", claim, "undecided", reason=reason))
    readings[0] = replace(readings[0], seconds=time.perf_counter() - begin)
    return PropertyOutcome(name="gradient_reaches", function=call.name, readings=tuple(readings))


# -- what the properties share


def _require_size(size: int, of: str) -> None:
    if not isinstance(size, int) or size < 1:
        raise RequestError(f"size={size!r}; expected a number of {of}, at least 1")


def _integers(call: Call, option: str, name: str) -> NDArray[np.int64]:
    (number, *_) = call.selected(option, name)
    return np.asarray(call.inputs[number].array).astype(np.int64)


def _by_position(
    name: str,
    call: Call,
    axis: int,
    on: Names | None,
    forbid: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    words: str,
    size: int = 1,
) -> PlacesAsked:
    """Return what is asked of the positions along one axis: by how many blocks of a size an input lies before."""
    shapes = {leaf.shape[: axis + 1] for leaf in call.forward.outputs if len(leaf.shape) > axis}
    if not shapes:
        outputs = ", ".join(f"{leaf.name}{[*leaf.shape]}" for leaf in call.forward.outputs)
        raise RequestError(f"no output has an axis {axis}: {outputs}; name the axis of positions in axis=")
    numbers = asked_inputs(call, shapes, on)
    length, groups = along_axis(call, numbers, axis)
    block = np.arange(length) // size
    place = "row" if "row" in words else "position"
    return PlacesAsked(
        name=name,
        call=call,
        on=numbers,
        of_output=groups,
        of_input=groups,
        forbidden=forbid(block[:, None] - block),
        place=lambda n: f"{place} {n}",
        where=f"at any index of axis {axis}",
        words=words,
    )


def _at_places(call: Call, places: NDArray[Any], on: Names | None, without: str) -> tuple[int, ...]:
    """Return the inputs that are asked of places `[batch, positions]`."""
    numbers = asked_inputs(call, [places.shape], on, (without,))
    other = next((call.inputs[number] for number in numbers if call.inputs[number].shape[:2] != places.shape), None)
    if other is not None:
        raise RequestError(f"{other.name}{[*other.shape]} does not begin with the shape {[*places.shape]} of {without}")
    return numbers


def _gradient_of(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], param: str
) -> tuple[Call, tuple[int, ...], TracedProgram]:
    call = Call(function, args, keywords)
    numbers = tuple(number for number in call.selected("param", param) if call.inputs[number].is_float)
    if not numbers:
        raise RequestError(f"param={param!r} holds no floats, which alone have gradients")
    return call, numbers, call.gradient(numbers)
