"""Whether a difference reaches what a training step returns: its loss, its gradients and its new state.

A block that differs although its inputs are the good ones need not be at fault: one part may order rows otherwise, and
a later part not care. So the whole step is judged first, and before a tensor is blamed, the step runs once more with
the good configuration in place of what computed it. Where its outputs stay the same, the search goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samebits.bisect.endpoints import FIELDS
from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.bisect.search.trials import Trials


@dataclass(frozen=True, slots=True)
class StepMixture:
    """A step in which some differences are taken from the bad configuration.

    Args:
        words: a description for the table.
        taken: the differences that are taken from the bad configuration.
        skip: sites of parts whose inner tensors are not compared.
        whole: whether the step runs without replaced tensors, and its outputs are judged in place of its blocks.
        without: for a whole step, what was taken before: the outputs are compared with and without it.
    """

    words: str
    taken: frozenset[str]
    skip: frozenset[str] = frozenset()
    whole: bool = False
    without: frozenset[str] = frozenset()


Point = tuple[StepMixture, bool]
"""A mixture, and whether values are rounded to their dtypes."""


def forms(names: Iterable[str], containers: Iterable[str], gone: Iterable[str] = ()) -> list[StepMixture]:
    """The mixtures to try, innermost first: parts that call no other parts, each part that does, then all together.

    Args:
        names: the differences.
        containers: sites of parts that call other parts.
        gone: differences that are no longer taken, for the descriptions.
    """
    inside = set(containers)
    within = {pair for place in inside for pair in (place, place.partition("@")[0])}
    left = list(names)
    outer = [name for name in left if name in within]
    inner = frozenset(name for name in left if name not in within)
    after = f", without {', '.join(sorted(gone))}" if gone else ""
    mixtures = [StepMixture(f"parts that call no others{after}", inner)] if inner else []
    mixtures += [StepMixture(f"{name}{after}", frozenset({name}), frozenset({name})) for name in outer]
    if len(mixtures) > 1:
        mixtures.append(StepMixture(f"all together{after}", frozenset(left), frozenset(outer)))
    return mixtures


def whole_step(taken: Iterable[str], without: Iterable[str] = (), gone: Iterable[str] = ()) -> StepMixture:
    """The step with what is taken, and nothing replaced.

    Args:
        taken: the differences.
        without: what was taken before, and is left out now.
        gone: all that is left out.
    """
    after = f" without {', '.join(sorted(gone))}" if gone else ""
    return StepMixture(f"the whole step{after}", frozenset(taken), whole=True, without=frozenset(without))


def key(point: Point) -> str:
    """Everything that the judgement of a point depends on."""
    form, rounded = point
    return f"{form.words}: {', '.join(sorted(form.taken))}, {'rounded' if rounded else 'float64'}"


def label(point: Point) -> str:
    """A point in the table."""
    form, rounded = point
    return f"{form.words}, {'rounded' if rounded else 'in float64'}"


def origin(first: Any, form: StepMixture, nesting: Any) -> tuple[str, list[str]]:
    """The code that computed a wrong tensor, in words, and the differences that are taken there.

    Args:
        first: the tensor (`train.taps.Tensor`).
        form: the mixture.
        nesting: the parts in which each part is called (`train.taps.Nesting`).
    """
    part: str = first.part
    between = sorted(name for name in form.taken if name in FIELDS or name.startswith("option:"))
    if first.enters or part == "step":
        return "what the model computes between its parts", between
    if part in form.taken:
        return part, [part]
    inside = sorted(name for name in form.taken if part in nesting.within.get(name, ()))
    return (f"{' or '.join(inside)}, called in {part},", inside) if inside else (part, between)


OUTPUTS = "loss, gradients and new state"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The search over the blocks of a step that differs.

    Args:
        point: where a tensor is wrong; None if none is, or none matters.
        reaches: whether what computed it was replaced, and the outputs changed.
    """

    point: Point | None
    reaches: bool = False

    def remarks(self) -> list[str]:
        """What is not known of the difference."""
        return [] if self.reaches else [f"whether the difference reaches {OUTPUTS} was not tried"]


@dataclass(slots=True)
class BlockSearch:
    """The search for the first block whose difference reaches the outputs of the step.

    Args:
        names: all differences.
        containers: sites of parts that call other parts.
        trials: judges the points.
        idle: filled with the tensors that differ and do not matter, in words.
    """

    names: Sequence[str]
    containers: Iterable[str]
    trials: Trials[Point]
    idle: list[str] = field(default_factory=list)

    def run(self, rounded: bool) -> Outcome:
        """Search; differences that leave all outputs as they are, are left out one after the other.

        Args:
            rounded: whether values are rounded to their dtypes.
        """
        whole = whole_step(self.names), rounded
        judged = self.trials(whole) != "untestable"
        gone: set[str] = set()
        while True:
            left = [name for name in self.names if name not in gone]
            points = [(form, rounded) for form in forms(left, self.containers, gone)]
            point = next((point for point in points if self.trials(point) == "fail"), None)
            if point is None:
                return Outcome(None)
            wrong = self.trials.known(point)
            guilty = set(wrong.numbers["names"])
            rest = [name for name in left if name not in guilty]
            if not judged or not guilty:
                return Outcome(point)
            if not rest:  # nothing else differs, and the step does
                return Outcome(point, True)
            without = whole_step(rest, guilty, gone | guilty), rounded
            if self.trials(without) == "untestable":
                return Outcome(point)
            if self.trials.known(without).numbers["moved"]:
                return Outcome(point, True)
            self.idle.append(
                f"{wrong.signature} differs, but reaches neither loss nor gradients nor new state of this step, which "
                f"are the same without {', '.join(sorted(guilty))}"
            )
            gone |= guilty


def judged_outputs(
    good: Mapping[Any, Any],
    bounds: Mapping[Any, float],
    outputs: Mapping[Any, Any],
    before: Mapping[Any, Any] | None,
    distance: Callable[[Any, Any, Any], float],
) -> Judgement:
    """A whole step against the good one; `moved` are outputs that differ from those of another step.

    Args:
        good: the outputs of the good step.
        bounds: of each output.
        outputs: the outputs of this step.
        before: the outputs of the other step, if given.
        distance: of an output, from its name and two values.
    """
    import numpy as np

    if any(np.size(outputs[name]) != np.size(good[name]) for name in good):
        return untestable("the two steps return arrays of other sizes")
    far = {name: distance(name, good[name], outputs[name]) for name in good}
    beyond = [name for name in good if far[name] > bounds[name]]
    moved = [] if before is None else [str(x) for x in good if distance(x, before[x], outputs[x]) > bounds[x]]
    same = "" if before is None else "; as before" if not moved else f"; {moved[0]} changes"
    if not beyond:
        return passed(f"{len(good)} outputs of the step are the good ones{same}", moved=moved)
    first = beyond[0]
    return failed(
        str(first),
        f"{first} is off by {far[first]:.2e}, bound {bounds[first]:.1e}; {len(beyond)} of {len(good)} outputs "
        f"differ{same}",
        moved=moved,
    )
