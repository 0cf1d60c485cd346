"""What a program reads, decided: by one interpretation for all values, and by runs with changed inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.errors import CouldNotRun, NotCovered
from samebits.interpret.dead_code import once
from samebits.interpret.dependence.domain import Cut, DependenceDomain
from samebits.interpret.dependence.value import Dependent, opened
from samebits.interpret.equation import Type, type_of
from samebits.properties.call import NamedArray, TracedProgram, running

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
        seen = _ChangedRuns(program, relation).refuted(suspects)
    except CouldNotRun as error:
        seen, reason = None, reason or str(error)
    if program.not_run and not reason:
        reason = f"evaluated in float64, for it cannot run here: {program.not_run}"
    reads_it = reads is not None and bool(suspects.any())
    place = _place(program, relation, suspects, seen) if reads_it else ""
    verdict: Verdict = "refuted" if seen else "undecided" if reads is None or reads_it else "proved"
    if verdict == "undecided" and reads_it:
        out, own = (int(number) for number in np.argwhere(suspects)[0])
        reason = f"{relation.words[0](out)} may read {relation.words[1](own)}, and no run with changed inputs showed it"
    return Reading(
        direction,
        relation.claim,
        verdict,
        conditions if verdict == "proved" else (),
        seen.text if seen else "",
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
    outputs = Interpreter(domain, "cpu")(once(program.closed), *args)
    reads = np.zeros(relation.forbidden.shape, bool)
    for number, groups in relation.outputs.items():
        value = domain.plain(outputs[number])
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
    pairs = np.argwhere(suspects)
    out, own = pairs[np.abs(pairs[:, 0] - pairs[:, 1]).argmin()].tolist()
    if seen is not None and suspects[seen.out, seen.own]:
        out, own = seen.out, seen.own
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


# -- by runs


class _MovedOutput(NamedTuple):
    """A change of an input group that moved a group of outputs."""

    out: int
    own: int
    text: str


class _ChangedRuns:
    """Runs of a program, in which one group of inputs at a time is changed.

    Raises:
        CouldNotRun: the program does not run here.
    """

    def __init__(self, program: TracedProgram, relation: Relation) -> None:
        self._program, self._relation = program, relation
        self._base = [np.asarray(leaf.array) if _is_plain(leaf) else leaf.array for leaf in program.inputs]
        for number, zeros in relation.constants.items():
            self._base[number] = np.where(zeros, np.zeros((), self._base[number].dtype), self._base[number])
        self._before = self._run(self._base)

    def _run(self, arrays: Sequence[Any]) -> list[NDArray[Any]]:
        with running("the program does not run here:"):
            return self._program.executed(arrays)

    def refuted(self, suspects: NDArray[np.bool_]) -> _MovedOutput | None:
        """Look at the outputs that must not move, where groups that are suspected change, or else some of all."""
        if self._relation.finite and (infinite := self._not_finite()):
            return _MovedOutput(0, 0, infinite)
        columns, most = np.flatnonzero(suspects.any(0)), COLUMNS
        if not columns.size:
            columns, most = np.flatnonzero(self._relation.forbidden.any(0)), CHECKED
        if columns.size > most:
            columns = columns[np.unique(np.linspace(0, columns.size - 1, most).astype(int))]
        for own in columns.tolist():
            for attempt in range(3):
                changed = self._changed(own, attempt)
                after = self._run(changed)
                if moved := self._first_moved(after, own):
                    return self._smallest(changed, after, own, moved)
        return None

    def _not_finite(self) -> str:
        """Return the first number that is not finite, of a run or of one with zeros for what must not be read."""
        zero = list(self._base)
        for number, groups in self._relation.inputs.items():
            zero[number] = np.where(groups >= 0, np.zeros((), zero[number].dtype), zero[number])
        of_zero = f", where {self._relation.words[1](0)} is 0"
        for words, values in (("", self._before), (of_zero, self._run(zero))):
            for leaf, value in zip(self._program.outputs, values, strict=True):
                places = np.argwhere(~np.isfinite(value)) if leaf.is_float else np.empty((0, 0), int)
                if len(places):
                    return f"{leaf.name}{_index(places[0])} is {value[tuple(places[0])]}{words}"
        return ""

    def _changed(self, own: int, attempt: int) -> list[Any]:
        """Return inputs with other numbers in one group."""
        arrays = list(self._base)
        for number, groups in self._relation.inputs.items():
            mine = groups == own
            if mine.any():
                arrays[number] = np.array(arrays[number])
                arrays[number][mine] = _other(arrays[number], mine, attempt, self._program.inputs[number].is_float)
        return arrays

    def _first_moved(self, after: Sequence[Any], own: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the first output, with the index of its element, that moved and must not."""
        for number, groups in self._relation.outputs.items():
            first, second = self._before[number], after[number]
            alike = (first == second) | ((first != first) & (second != second))
            moved = (groups >= 0) & self._relation.forbidden[np.maximum(groups, 0), own] & ~alike
            if moved.any():
                return number, tuple(int(n) for n in np.argwhere(moved)[0])
        return None

    def _smallest(
        self, changed: Sequence[Any], after: Sequence[Any], own: int, moved: tuple[int, tuple[int, ...]]
    ) -> _MovedOutput:
        """Return a witness in which a single input element differs, where one alone moves an output; else the group."""
        inputs, outputs, base = self._program.inputs, self._program.outputs, self._base
        places = [
            (number, tuple(int(n) for n in place))
            for number, groups in self._relation.inputs.items()
            for place in np.argwhere(groups == own)
        ]
        words = f"all {len(places)} elements like {inputs[places[0][0]].name}{_index(places[0][1])}"
        for number, place in places[:: max(len(places) // ELEMENTS, 1)][:ELEMENTS]:
            arrays = list(base)
            arrays[number] = np.array(base[number])
            arrays[number][place] = changed[number][place]
            alone = self._run(arrays)
            if by_itself := self._first_moved(alone, own):
                values = f"from {_text(base[number][place])} to {_text(arrays[number][place])}"
                words, moved, after = f"{inputs[number].name}{_index(place)} {values}", by_itself, alone
                break
        output, place = moved
        values = f"from {_text(self._before[output][place])} to {_text(after[output][place])}"
        text = f"changing {words} moves {outputs[output].name}{_index(place)} {values}"
        return _MovedOutput(int(self._relation.outputs[output][place]), own, text)


def _is_plain(leaf: NamedArray) -> bool:
    return getattr(leaf.dtype, "kind", "V") in "biuf" or leaf.is_float


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


def _index(place: Sequence[int]) -> str:
    return f"[{', '.join(map(str, place))}]" if len(place) else ""


def _text(number: Any) -> str:
    return f"{float(number):.6g}" if np.asarray(number).dtype.kind not in "biu" else str(number)
