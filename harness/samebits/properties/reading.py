"""What a program reads, decided: by one interpretation for all values, and by runs with changed inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from samebits.errors import CouldNotRun, NotCovered
from samebits.interpret.dependence.domain import Cut, DependenceDomain
from samebits.interpret.dependence.value import Dependent, opened
from samebits.interpret.equation import Type, type_of
from samebits.properties.call import NamedArray, TracedProgram
from samebits.user_errors import one_line

Groups = NDArray[np.int64]
Verdict = Literal["proved", "refuted", "undecided"]

COLUMNS, CHECKED = 12, 3
"""How many groups of inputs are changed by themselves, to see whether an output moves; where none should, fewer."""

ELEMENTS = 24
"""How many single elements of a group are changed to make a witness smaller."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Which groups of input elements a group of output elements must not read.

    Args:
        outputs: by the number of an output, the group of each of its elements; negative of those that are not asked.
        inputs: by the number of an input, likewise.
        forbidden: `[groups of outputs, groups of inputs]`.
        claim: in words what must hold.
        words: what a group of outputs and one of inputs are called, by their numbers.
        finite: whether all outputs must be finite too, also where the inputs that must not be read are zero.
        constants: by the number of an input, its elements that are zero, such as cotangents of what nobody uses.
    """

    outputs: Mapping[int, Groups]
    inputs: Mapping[int, Groups]
    forbidden: NDArray[np.bool_]
    claim: str
    words: tuple[Callable[[int], str], Callable[[int], str]]
    constants: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)
    finite: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The verdict on one program.

    Args:
        direction: `forward` or `gradient`.
        claim: what was asked.
        verdict: `proved` for all values under the conditions, `refuted` by a run, or `undecided`.
        conditions: what a proof assumes.
        witness: two inputs that differ, and the output that moves; empty where none was seen.
        reason: of `undecided`, and why a program was not run.
        place: the equation by which a forbidden group gets in, with its line; empty where none does.
        reads: `[groups of outputs, groups of inputs]`, what the interpretation gave; None where it stopped.
        forbidden: as in the relation.
        seconds: that it took.
    """

    direction: str
    claim: str
    verdict: Verdict
    conditions: tuple[str, ...] = ()
    witness: str = ""
    reason: str = ""
    place: str = ""
    reads: NDArray[np.bool_] | None = None
    forbidden: NDArray[np.bool_] | None = None
    seconds: float = 0.0


def decide(program: TracedProgram, relation: Relation, direction: str) -> Reading:
    """Decide a relation: proved by interpretation and not refuted by a run, refuted by a run, or undecided."""
    begin = time.perf_counter()
    reads, conditions, reason = None, tuple[str, ...](), ""
    try:
        domain, reads = _interpreted(program, relation)
        conditions = _given(program, relation) + domain.conditions
    except NotCovered as error:
        reason = f"the program cannot be followed: {error}"
    suspects = relation.forbidden if reads is None else relation.forbidden & reads
    try:
        seen = _refuted(program, relation, *((suspects, COLUMNS) if suspects.any() else (relation.forbidden, CHECKED)))
    except CouldNotRun as error:
        seen, reason = None, reason or str(error)
    if program.not_run and not reason:
        reason = f"evaluated in float64, for it cannot run here: {program.not_run}"
    place = _place(program, relation, suspects, seen) if reads is not None and suspects.any() else ""
    verdict: Verdict = "refuted" if seen is not None else "undecided"
    if seen is None and reads is not None and not suspects.any():
        verdict = "proved"
    if verdict == "undecided" and suspects.any() and reads is not None:
        out, own = (int(number) for number in np.argwhere(suspects)[0])
        words = relation.words[0](out), relation.words[1](own)
        reason = f"{words[0]} may read {words[1]}, and no run with changed inputs showed it"
    return Reading(
        direction,
        relation.claim,
        verdict,
        conditions if verdict == "proved" else (),
        seen.text if seen is not None else "",
        reason,
        place,
        reads,
        relation.forbidden,
        time.perf_counter() - begin,
    )


# -- by interpretation


def _interpreted(
    program: TracedProgram, relation: Relation, cut: Cut | None = None
) -> tuple[DependenceDomain, NDArray[np.bool_]]:
    """Return the domain after one interpretation, and which groups each group of outputs may read."""
    from samebits.interpret.interpreter import Interpreter  # here, because it starts jax

    domain = DependenceDomain(relation.forbidden.shape[1], cut)
    args = [
        _argument(domain, leaf, relation.inputs.get(number), relation.constants.get(number))
        for number, leaf in enumerate(program.inputs)
    ]
    outputs = Interpreter(domain, "cpu")(program.closed, *args)
    reads = np.zeros(relation.forbidden.shape, bool)
    for number, groups in relation.outputs.items():
        value = outputs[number]
        if not isinstance(value, Dependent):
            continue
        for group in np.unique(groups[groups >= 0]).tolist():
            reads[group] |= domain.table.members(value.sets[groups == group])
    return domain, reads


def _argument(
    domain: DependenceDomain, leaf: NamedArray, groups: Groups | None, zeros: NDArray[np.bool_] | None
) -> Any:
    if groups is None and leaf.exact:
        return leaf.array if getattr(leaf.dtype, "kind", "V") == "V" else np.asarray(leaf.array)
    kind = type_of(leaf)
    sets = np.zeros(kind.shape, np.int32) if groups is None else domain.table.single(groups)
    value = opened(sets, Type(kind.shape, kind.dtype))
    return value if zeros is None else domain.zeroed(value, zeros)


def _given(program: TracedProgram, relation: Relation) -> tuple[str, ...]:
    exact = [leaf.name for number, leaf in enumerate(program.inputs) if leaf.exact and number not in relation.inputs]
    return (f"{', '.join(exact)} as given",) if exact else ()


def _place(program: TracedProgram, relation: Relation, suspects: NDArray[np.bool_], seen: _MovedOutput | None) -> str:
    """Return the last equation by which a forbidden group joins the group of outputs that must not read it.

    Up to an equation, the group is taken out of each set that has the other one too; the first equation from which on
    this is enough to keep it out is the last that brings the two together.
    """
    if suspects.shape[0] != suspects.shape[1]:
        return ""
    out, own = (seen.out, seen.own) if seen is not None and suspects[seen.out, seen.own] else _nearest(suspects)
    if out == own:
        return ""
    alone = _of_two(relation, out, own)  # with two groups alone an interpretation is fast
    domain, _ = _interpreted(program, alone)
    low, high = 0, domain.equations + 1
    while low < high:
        middle = (low + high) // 2
        _, reads = _interpreted(program, alone, Cut(group=0, beside=1, until=middle))
        low, high = (middle + 1, high) if reads[0, 0] else (low, middle)
    step = domain.places.get(low)
    return str(step) if step is not None else ""


def _of_two(relation: Relation, out: int, own: int) -> Relation:
    """Return a relation of one group of outputs, and of two groups of inputs: what it must not read, and its own."""
    return replace(
        relation,
        outputs={number: np.where(groups == out, 0, -1) for number, groups in relation.outputs.items()},
        inputs={
            number: np.where(groups == own, 0, np.where(groups == out, 1, -1))
            for number, groups in relation.inputs.items()
        },
        forbidden=np.array([[True, False]]),
    )


def _nearest(suspects: NDArray[np.bool_]) -> tuple[int, int]:
    pairs = np.argwhere(suspects)
    out, own = pairs[np.abs(pairs[:, 0] - pairs[:, 1]).argmin()].tolist()
    return out, own


# -- by runs


@dataclass(frozen=True, slots=True)
class _MovedOutput:
    """A change of an input group that moved a group of outputs."""

    out: int
    own: int
    text: str


def _refuted(program: TracedProgram, relation: Relation, suspects: NDArray[np.bool_], most: int) -> _MovedOutput | None:
    """Change one group of inputs at a time, and look at the outputs that must not move.

    Raises:
        CouldNotRun: the program does not run here.
    """
    base = [np.asarray(leaf.array) if _is_plain(leaf) else leaf.array for leaf in program.inputs]
    for number, zeros in relation.constants.items():
        base[number] = np.where(zeros, np.zeros((), base[number].dtype), base[number])
    before = _run(program, base)
    if relation.finite and (infinite := _not_finite(program, relation, base, before)):
        return _MovedOutput(0, 0, infinite)
    columns = np.flatnonzero(suspects.any(0))
    if columns.size > most:
        columns = columns[np.unique(np.linspace(0, columns.size - 1, most).astype(int))]
    for own in columns.tolist():
        for attempt in range(3):
            changed = _changed(program, relation, base, own, attempt)
            after = _run(program, changed)
            moved = _first_moved(relation, before, after, own)
            if moved is not None:
                return _smallest(program, relation, base, changed, before, own, moved)
    return None


def _not_finite(program: TracedProgram, relation: Relation, base: Sequence[Any], before: Sequence[Any]) -> str:
    """Return the first number that is not finite, of a run or of one with zeros for what must not be read."""
    zero = [
        np.where(relation.inputs[number] >= 0, np.zeros((), array.dtype), array) if number in relation.inputs else array
        for number, array in enumerate(base)
    ]
    for words, values in (("", before), (f", where {relation.words[1](0)} is 0", _run(program, zero))):
        for leaf, value in zip(program.outputs, values, strict=True):
            places = np.argwhere(~np.isfinite(value)) if leaf.is_float else np.empty((0, 0), int)
            if len(places):
                return f"{leaf.name}{_index(places[0].tolist())} is {value[tuple(places[0])]}{words}"
    return ""


def _is_plain(leaf: NamedArray) -> bool:
    return getattr(leaf.dtype, "kind", "V") in "biuf" or leaf.is_float


def _run(program: TracedProgram, arrays: Sequence[Any]) -> list[NDArray[Any]]:
    try:
        return program.executed(arrays)
    except Exception as error:
        raise CouldNotRun(f"the program does not run here: {one_line(error)}") from error


def _changed(program: TracedProgram, relation: Relation, base: Sequence[Any], own: int, attempt: int) -> list[Any]:
    """Return inputs with other numbers in one group."""
    arrays = list(base)
    for number, groups in relation.inputs.items():
        mine = groups == own
        if mine.any():
            array = np.array(base[number])
            array[mine] = _other(array, mine, attempt, program.inputs[number].is_float)
            arrays[number] = array
    return arrays


def _other(array: NDArray[Any], mine: NDArray[np.bool_], attempt: int, is_float: bool) -> Any:
    """Return other numbers: of floats near and far ones, of integers others of the same range."""
    rng = np.random.default_rng([int(mine.argmax()), attempt])
    if is_float:
        scale = (1.0, 30.0, 0.1)[attempt]
        return (array[mine].astype(np.float64) + scale * rng.standard_normal(int(mine.sum()))).astype(array.dtype)
    if array.dtype.kind == "b":
        return ~array[mine]
    if attempt == 2 and array.min() > 0:  # what marks padding, where there is none
        return np.zeros(int(mine.sum()), array.dtype)
    low, high = int(array.min()), max(int(array.max()), int(array.min()) + 1)
    drawn = rng.integers(low, high, int(mine.sum()))
    return (drawn + (drawn >= array[mine])).astype(array.dtype)


def _first_moved(
    relation: Relation, before: Sequence[Any], after: Sequence[Any], own: int
) -> tuple[int, tuple[int, ...]] | None:
    """Return the first output, with the index of its element, that moved and must not."""
    for number, groups in relation.outputs.items():
        must_stay = (groups >= 0) & relation.forbidden[np.maximum(groups, 0), own]
        moved = must_stay & ~_alike(before[number], after[number])
        if moved.any():
            return number, tuple(int(n) for n in np.argwhere(moved)[0])
    return None


def _alike(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((first == second) | ((first != first) & (second != second)))


def _smallest(
    program: TracedProgram,
    relation: Relation,
    base: Sequence[Any],
    changed: Sequence[Any],
    before: Sequence[Any],
    own: int,
    moved: tuple[int, tuple[int, ...]],
) -> _MovedOutput:
    """Return a witness in which a single input element differs, where one alone moves an output; else the group."""
    places = [
        (number, tuple(int(n) for n in place))
        for number, groups in relation.inputs.items()
        for place in np.argwhere(groups == own)
    ]
    after = _run(program, changed)
    words = f"all {len(places)} elements like {program.inputs[places[0][0]].name}{_index(places[0][1])}"
    for number, place in places[:: max(len(places) // ELEMENTS, 1)][:ELEMENTS]:
        arrays = list(base)
        arrays[number] = np.array(base[number])
        arrays[number][place] = changed[number][place]
        alone = _run(program, arrays)
        by_itself = _first_moved(relation, before, alone, own)
        if by_itself is not None:
            words = (
                f"{program.inputs[number].name}{_index(place)} from {_text(base[number][place])} to "
                f"{_text(arrays[number][place])}"
            )
            moved, after = by_itself, alone
            break
    output, place = moved
    out = int(relation.outputs[output][place])
    text = (
        f"changing {words} moves {program.outputs[output].name}{_index(place)} from {_text(before[output][place])} to "
        f"{_text(after[output][place])}"
    )
    return _MovedOutput(out, own, text)


def _index(place: Sequence[int]) -> str:
    return f"[{', '.join(map(str, place))}]" if len(place) else ""


def _text(number: Any) -> str:
    return f"{float(number):.6g}" if np.asarray(number).dtype.kind not in "biu" else str(number)
