"""`samebits.assert_resumes`: a training that is saved and restored goes on as the one that was not interrupted.

Three runs: uninterrupted; saved, restored and resumed; and a cold start from the first state on the same later batches.
The first two must be the same, leaf by leaf, and must differ from the third: else the steps do not show what was
restored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from samebits.errors import CouldNotRun, NothingCompared, RequestError
from samebits.host.backend_start import require_answer
from samebits.interpret.equation import is_key
from samebits.numerics.bits import Comparison, Leaf, compare_leaf
from samebits.numerics.floats import digits, from_ordinals, is_float, ordinals
from samebits.programs.like import is_array
from samebits.properties.call import name_of, running
from samebits.properties.outcome import Conclusion
from samebits.properties.row_batch import on_host
from samebits.schema.difference import extent

FACTOR = 3.0
"""How many times as far as one ulp of every float of the state moves a leaf, rounding may: as `train` bounds it."""

OUTSIDE = "the step reads what is not in the state, as a data iterator or a host's random generator"

SHOWN = 6
"""Leaves that a message shows."""

Accepted = Literal["rounding", "anything"]
Step = Callable[[Any, Any], Any]
Leaves = dict[str, Leaf]


class ResumedRun(NamedTuple):
    """A run that was saved and restored after `at` steps.

    Args:
        at: how many steps came before.
        lost: the leaves that were not restored as they were saved, each in words.
        first: after how many steps a leaf differed first from the uninterrupted run; None where none did.
        differences: the leaves that differ after the last step.
        error: what the resumed run raised; None where it ran.
        silent: the leaves that are the same after a cold start, of which the comparison says nothing.
    """

    at: int
    lost: tuple[str, ...] = ()
    first: int | None = None
    differences: tuple[Comparison, ...] = ()
    error: str | None = None
    silent: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether it went on as the uninterrupted run did."""
        return self.first is None and self.error is None

    def lines(self, place: str) -> list[str]:
        """Return the result as lines, of which the first has its place."""
        lost = [f"not restored: {line}" for line in self.lost]
        if self.ok:
            silent = f"the same after a cold start, so that nothing is said of them: {', '.join(self.silent)}"
            return [f"{place}: the uninterrupted run", *lost, *([silent] if self.silent else [])]
        if self.error is not None:
            return [f"{place}: the resumed run raised: {self.error}", *lost]
        more = len(self.differences) - SHOWN
        return [
            f"{place}: not the uninterrupted run, from step {self.first} on",
            *(lost or [f"every leaf was restored; {OUTSIDE}, or the arrays lie elsewhere"]),
            *(_line(each, "uninterrupted", "resumed") for each in self.differences[:SHOWN]),
            *([f"and {more} more leaves differ"] if more > 0 else []),
        ]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Resuming(Conclusion):
    """Whether a training goes on after it is restored as it would have without.

    Args:
        name: of the step.
        steps: how many steps the uninterrupted run has.
        runs: one for each place at which it was saved and restored.
    """

    name: str
    steps: int
    runs: tuple[ResumedRun, ...]

    @property
    def ok(self) -> bool:
        """Tell whether every resumed run is the uninterrupted one."""
        return all(run.ok for run in self.runs)

    def text(self) -> str:
        """Return the result as lines."""
        places = (f"{self.name}, restored after step {run.at} of {self.steps}" for run in self.runs)
        return "\n".join(line for run, place in zip(self.runs, places, strict=True) for line in run.lines(place))


def assert_resumes(
    step: Step,
    save: Callable[[Any], Any],
    restore: Callable[[Any], Any],
    state: Any,
    batches: Sequence[Any],
    *,
    at: Sequence[int] | int | None = None,
    accept: Mapping[str, Accepted] = MappingProxyType({}),
) -> None:
    """Fail unless a training that is saved and restored goes on with the bits of the uninterrupted one.

    Equivalent to `resuming(...).raise_for_status()`.

    Args:
        step: `(state, batch)` to the next state, or to the state and outputs such as the loss, which are compared too.
        save: stores a state; what it returns, as a path, is what `restore` gets.
        restore: returns the state that was stored.
        state: what the training begins with, a pytree of arrays and numbers; or a function that returns it.
        batches: one for each step; where the state has the position in the data, anything, as `range(8)`.
        at: after how many steps it is saved and restored, once or several times; half of them by default.
        accept: what else than the same bits is accepted of leaves, by shell patterns over their paths with dots: of
            `{"params.*": "rounding"}` three times what one ulp of every float of the state moves them by, or two ulps;
            of `{"metrics.*": "anything"}` any values, and none.

    Raises:
        AssertionError: the resumed run is another; the message names the leaves that were not restored, with the values
            before and after, the first step that differs, and the leaves that differ after the last.
        NothingCompared: a cold start from `state` gives the same leaves, so that nothing is said about restoring.
        RequestError: `at` is not between two steps, a pattern names no leaf, or `step` does not return the state.
        CouldNotRun: a run raised, or the uninterrupted one does not repeat its bits.
    """
    __tracebackhide__ = True
    resuming(step, save, restore, state, batches, at=at, accept=accept).raise_for_status()


def resuming(
    step: Step,
    save: Callable[[Any], Any],
    restore: Callable[[Any], Any],
    state: Any,
    batches: Sequence[Any],
    *,
    at: Sequence[int] | int | None = None,
    accept: Mapping[str, Accepted] = MappingProxyType({}),
) -> Resuming:
    """Say whether a training goes on after it is restored; arguments and errors are those of `assert_resumes`.

    Args:
        step: as for `assert_resumes`.
        save: as for `assert_resumes`.
        restore: as for `assert_resumes`.
        state: as for `assert_resumes`.
        batches: as for `assert_resumes`.
        at: as for `assert_resumes`.
        accept: as for `assert_resumes`.

    Returns:
        One record for each place at which it was restored; `text()` is the message of `assert_resumes`.
    """
    require_answer()
    batches = list(batches)
    places = (at,) if isinstance(at, int) else (len(batches) // 2,) if at is None else tuple(at)
    if not places or not all(0 < place < len(batches) for place in places):
        raise RequestError(
            f"at={at} of {len(batches)} batches; expected a number of steps between the first and the last"
        )
    wrong = [each for each in accept.items() if each[1] not in get_args(Accepted)]
    if wrong:
        raise RequestError(f"accept={dict(wrong[:1])}; expected 'rounding' or 'anything'")
    training = _Training(step, state, batches, accept)
    unused = [each for each in accept if not any(fnmatchcase(name, each) for name in training.names)]
    if unused:
        raise RequestError(f"'{unused[0]}' names no leaf; the leaves are {', '.join(training.names)}")
    runs = tuple(training.resumed(save, restore, place) for place in places)
    return Resuming(name=name_of(step), steps=len(batches), runs=runs)


class _TrainedSteps(NamedTuple):
    """The digests of all leaves after each step, the leaves after the last, and the state then."""

    digests: list[dict[str, str]]
    last: Leaves
    state: Any


class _Training:
    """A training with its uninterrupted run; each run is from a copy of the first state, which a step may donate.

    Leaves of which anything is accepted are left out everywhere, but for `names`.
    """

    def __init__(self, step: Step, state: Any, batches: Sequence[Any], accept: Mapping[str, Accepted]) -> None:
        import jax

        self._step, self._state, self._batches, self._accept = step, state, batches, accept
        self._makes = callable(state) and jax.tree.leaves(state)[:1] == [state]
        self.names: dict[str, None] = {}
        first = self._start()
        self._first, self._structure = self._leaves(first), jax.tree.structure(first)
        self._whole = self._run(self._start(), batches)

    def _start(self) -> Any:
        """Return the first state."""
        import jax

        if self._makes:
            return self._state()
        return jax.tree.map(lambda leaf: leaf.copy() if is_array(leaf) and hasattr(leaf, "copy") else leaf, self._state)

    def _run(self, state: Any, batches: Sequence[Any]) -> _TrainedSteps:
        """Run one step for each batch.

        Raises:
            CouldNotRun: a step raised.
        """
        digests: list[dict[str, str]] = []
        leaves: Leaves = {}
        for batch in batches:
            with running(""):
                result = self._step(state, batch)
            state, outputs = self._parts(result, state)
            leaves = {**self._leaves(state), **self._leaves(outputs, "out")}
            digests.append({name: _digest(leaf) for name, leaf in leaves.items()})
        return _TrainedSteps(digests, leaves, state)

    def _parts(self, result: Any, state: Any) -> tuple[Any, Any]:
        """Return the state that a step returns, and what it returns besides."""
        import jax

        expected = (jax.tree.structure(state), self._structure)
        if jax.tree.structure(result) in expected:
            return result, ()
        if isinstance(result, tuple) and len(result) > 1:
            for which, rest in ((0, result[1:]), (-1, result[:-1])):
                if jax.tree.structure(result[which]) in expected:
                    return result[which], rest[0] if len(rest) == 1 else rest
        raise RequestError(
            f"the step returns {jax.tree.structure(result)}; expected the state, or the state and outputs, where the "
            f"state is {expected[0]}"
        )

    def _leaves(self, tree: Any, name: str = "") -> Leaves:
        """Return the leaves of a tree on the host, by their paths with dots."""
        import jax

        leaves: Leaves = {}
        for path, value in jax.tree_util.tree_leaves_with_path(tree):
            inner = jax.tree_util.keystr(path, simple=True, separator=".")
            label = ".".join(part for part in (name, inner) if part) or "state"
            self.names[label] = None
            if self._accepts(label, "anything"):
                continue
            weak = bool(getattr(value, "weak_type", False))
            if not is_array(value) and isinstance(value, bool | int | float | complex):
                value = jax.numpy.asarray(value)  # in the dtype that jax gives it
            leaves[label] = Leaf(array=Leaf.of(on_host(value)).array, weak_type=weak)
        return leaves

    def _accepts(self, name: str, accepted: Accepted) -> bool:
        return any(each == accepted and fnmatchcase(name, pattern) for pattern, each in self._accept.items())

    def resumed(self, save: Callable[[Any], Any], restore: Callable[[Any], Any], at: int) -> ResumedRun:
        """Save and restore after some steps, go on, and compare."""
        before, later = self._run(self._start(), self._batches[:at]), self._batches[at:]
        self._require_repeat(before)
        saved = self._leaves(before.state)
        with running(f"saving and restoring after step {at}"):
            state = restore(save(before.state))
        restored = self._leaves(state)
        lost = tuple(self._lost(saved, restored))
        try:
            run = self._run(state, later)
        except (CouldNotRun, RequestError) as error:
            return ResumedRun(at, lost, error=str(error))
        differences = tuple(self._differences(run.last, at))
        steps = enumerate(zip(self._whole.digests[at:], run.digests, strict=True), at + 1)
        first = next((number for number, (whole, resumed) in steps if whole != resumed), None)
        if first is None or (not differences and "rounding" in self._accept.values()):
            return ResumedRun(at, lost, silent=self._silent(run.last, at))
        self._require_repeat(self._run(self._start(), self._batches))
        weak = [name for name, leaf in saved.items() if name in restored and leaf.weak_type != restored[name].weak_type]
        return ResumedRun(at, lost or tuple(f"{name}: its weak type" for name in weak), first, differences)

    def _silent(self, last: Leaves, at: int) -> tuple[str, ...]:
        """Return the leaves that are the same after a cold start.

        Raises:
            NothingCompared: all of them are.
        """
        cold = self._run(self._start(), self._batches[at:]).last
        silent = tuple(name for name, leaf in last.items() if _equal(leaf, cold.get(name)))
        if len(silent) == len(last):
            raise NothingCompared(
                f"a cold start after step {at} gives the same leaves: the steps do not show what was restored"
            )
        return silent

    def _lost(self, saved: Leaves, restored: Leaves) -> list[str]:
        """Say which leaves were not restored as they were saved."""
        lines = list[str]()
        for name in saved:
            if name not in restored:
                lines.append(f"{name}: not in the restored state")
            elif (comparison := _compared(name, saved[name], restored[name])).kinds:
                afresh = ", which is its first value" if _equal(restored[name], self._first.get(name)) else ""
                lines.append(f"{_line(comparison, 'saved', 'restored')}{afresh}")
        return lines + [f"{name}: not in the saved state" for name in restored if name not in saved]

    def _differences(self, last: Leaves, at: int) -> list[Comparison]:
        """Compare the leaves after the last step; those that may round with what an ulp of the state moves them by."""
        whole = self._whole.last
        differing = [each for name in whole if (each := _compared(name, whole[name], last.get(name))).kinds]
        rounds = [each.path for each in differing if each.path in last and self._accepts(each.path, "rounding")]
        if not rounds:
            return differing
        state = self._run(self._start(), self._batches[:at]).state
        moved = self._run(_one_ulp_up(state), self._batches[at:]).last
        limits = {name: max(FACTOR * _distance(whole[name], moved[name]), _floor(whole[name])) for name in rounds}
        within = {name for name, limit in limits.items() if _distance(whole[name], last[name]) <= limit}
        return [each for each in differing if each.path not in within]

    def _require_repeat(self, run: _TrainedSteps) -> None:
        """Reject a training whose steps give other bits each time."""
        for number, (whole, again) in enumerate(zip(self._whole.digests, run.digests, strict=False), 1):
            names = [name for name in {**whole, **again} if whole.get(name) != again.get(name)]
            if names:
                where = f"from step {number} on, in {', '.join(names[:SHOWN])}; {OUTSIDE}"
                raise CouldNotRun(f"the same steps do not repeat their bits: {where}")


def _digest(leaf: Leaf) -> str:
    array = np.ascontiguousarray(leaf.array)
    head = f"{array.dtype} {array.shape} "
    return hashlib.blake2b(head.encode() + array.tobytes(), digest_size=16).hexdigest()


def _compared(name: str, first: Leaf, second: Leaf | None) -> Comparison:
    """Compare values and dtypes; a weak type alone, as of a counter, is not a loss."""
    if second is None:
        detail = "reference=a leaf, variant=none"
        return Comparison(path=name, elements=0, mismatches=1, max_ulp=None, kinds={"structure": 1}, detail=detail)
    return compare_leaf(name, Leaf(array=first.array), Leaf(array=second.array))


def _line(comparison: Comparison, first: str, second: str) -> str:
    if comparison.witness is None:
        text = f"another {comparison.kind}: {comparison.detail}"
        return f"{comparison.path}: {text.replace('reference=', f'{first} ').replace('variant=', f'{second} ')}"
    one_side, other = comparison.witness.values
    extents = extent(comparison.differences, comparison.elements)
    return f"{comparison.witness.at}: {first} {one_side}, {second} {other}; {extents}"


def _equal(first: Leaf, second: Leaf | None) -> bool:
    return second is not None and _digest(first) == _digest(second)


def _distance(first: Leaf, second: Leaf) -> float:
    """Return the largest difference of two leaves; infinity where they cannot be subtracted."""
    if first.array.shape != second.array.shape or first.array.dtype != second.array.dtype or not first.array.size:
        return np.inf
    with np.errstate(invalid="ignore"):
        far = np.abs(first.array.astype(np.float64) - second.array.astype(np.float64)).max()
    return float(far) if np.isfinite(far) else np.inf


def _floor(leaf: Leaf) -> float:
    """Return two ulps of the largest value: one ulp of the state may move a leaf by none."""
    if not is_float(leaf.array.dtype):
        return 0.0
    return float(np.max(np.abs(leaf.array.astype(np.float64)), initial=0.0)) * 2.0 ** (2 - digits(leaf.array.dtype))


def _one_ulp_up(state: Any) -> Any:
    """Return a state of which every float is the next larger number."""
    import jax

    def up(leaf: Any) -> Any:
        if not is_array(leaf) or is_key(leaf.dtype) or not is_float(leaf.dtype):
            return leaf
        return jax.numpy.asarray(from_ordinals(ordinals(np.asarray(leaf)) + 1, np.dtype(leaf.dtype)))

    return jax.tree.map(up, state)
