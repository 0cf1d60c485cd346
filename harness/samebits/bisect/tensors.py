"""Finds the first wrong tensor of a training step: one that differs although its inputs are the good ones.

Both steps are interpreted in float64 at the smallest sizes. The inputs of each part of the bad step, and the cotangents
of its outputs, are replaced by the good step's values, so that each block is judged alone: Jiang et al., "TTrace"
(arXiv 2506.09280), section 4, with an interpreter in place of hooks. Errors are not monotone along a step, so there is
no binary search: every tensor is compared, in the order in which the good step computes them.

Before that, the whole step is judged: where its loss, gradients and new state are the good ones, there is nothing to
search for. A block that differs although its inputs are the good ones need not be at fault: one part may order rows
otherwise, and a later part not care. So before a tensor is blamed, the step runs once more with the good configuration
in place of what computed it; where its outputs stay the same, the search goes on without it.

If nothing differs in float64, the search is repeated with every value rounded to its dtype; a tensor that differs only
then differs by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.bisect.endpoints import FIELDS, Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.search.trials import (
    Judgement,
    SearchFinding,
    SearchSpace,
    Trials,
    failed,
    passed,
    space_of_sets,
    untestable,
)
from samebits.bisect.session import Session, again
from samebits.schema.model import Config, Defect


@dataclass(frozen=True, slots=True)
class StepMixture:
    """A step in which some differences are taken from the bad configuration.

    Args:
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
    """Return the mixtures to try, innermost first: parts that call no others, each that does, all together.

    Args:
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
    """Return the step with what is taken, and nothing replaced.

    Args:
        without: what was taken before, and is left out now.
    """
    after = f" without {', '.join(sorted(gone))}" if gone else ""
    return StepMixture(f"the whole step{after}", frozenset(taken), whole=True, without=frozenset(without))


def key(point: Point) -> str:
    """Return everything that the judgement of a point depends on."""
    form, rounded = point
    return f"{form.words}: {', '.join(sorted(form.taken))}, {'rounded' if rounded else 'float64'}"


def label(point: Point) -> str:
    """Return a point in the table."""
    form, rounded = point
    return f"{form.words}, {'rounded' if rounded else 'in float64'}"


def origin(first: Any, form: StepMixture, nesting: Any) -> tuple[str, list[str]]:
    """Return the code that computed a wrong tensor, in words, and the differences that are taken there."""
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
        """Return what is not known of the difference."""
        return [] if self.reaches else [f"whether the difference reaches {OUTPUTS} was not tried"]


@dataclass(slots=True)
class BlockSearch:
    """The search for the first block whose difference reaches the outputs of the step.

    Args:
        containers: sites of parts that call other parts.
        idle: filled with the tensors that differ and do not matter, in words.
    """

    names: Sequence[str]
    containers: Iterable[str]
    trials: Trials[Point]
    idle: list[str] = field(default_factory=list)

    def run(self, rounded: bool) -> Outcome:
        """Search; differences that leave all outputs as they are, are left out one after the other."""
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
            faulty = set(wrong.numbers["names"])
            rest = [name for name in left if name not in faulty]
            if not judged or not faulty:
                return Outcome(point)
            if not rest:  # nothing else differs, and the step does
                return Outcome(point, True)
            without = whole_step(rest, faulty, gone | faulty), rounded
            if self.trials(without) == "untestable":
                return Outcome(point)
            if self.trials.known(without).numbers["moved"]:
                return Outcome(point, True)
            self.idle.append(
                f"{wrong.signature} differs, but reaches neither loss nor gradients nor new state of this step, which "
                f"are the same without {', '.join(sorted(faulty))}"
            )
            gone |= faulty


def judged_outputs(
    good: Mapping[Any, Any],
    bounds: Mapping[Any, float],
    outputs: Mapping[Any, Any],
    before: Mapping[Any, Any] | None,
    distance: Callable[[Any, Any, Any], float],
) -> Judgement:
    """Hold a whole step against the good one; `moved` are outputs that differ from those of another step.

    Args:
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


FACTOR = 3.0
"""The bound, as a multiple of the good step's own response to one ulp of its parameters."""

FLOOR = {False: 2.0**-33, True: 2.0**-21}
"""The smallest bound, relative to a tensor's norm: in float64, and rounded to float32. In healthy runs
(moe_parallelism, hybrid) blocks with the good inputs are off by at most 1.1e-15 and 2.8e-7; for eight planted defects
the first wrong tensor is off by at least 1.0e-3."""

DITHERS = 2


@dataclass(slots=True)
class _GoodStep:
    """The good step, interpreted on first use, and the bounds of its tensors.

    Args:
        good: by whether values are rounded: the tensors in order of computation, and the bound of each.
        containers: sites of parts that call other parts.
        scales: by whether values are rounded: for each tensor of zeros that the dither moves, the norm of ones, which
            its distances are relative to.
        outputs: of whole steps, by what they take and whether values are rounded.
    """

    sides: Endpoints
    good: dict[bool, tuple[dict[Any, Any], dict[Any, float]]] = field(default_factory=dict)
    containers: set[str] = field(default_factory=set)
    scales: dict[bool, dict[Any, float]] = field(default_factory=dict)
    outputs: dict[tuple[frozenset[str], bool], dict[Any, Any]] = field(default_factory=dict)

    def whole(self, taken: frozenset[str], rounded: bool) -> dict[Any, Any]:
        """Return the outputs of a step that takes these differences, with nothing replaced."""
        if (taken, rounded) not in self.outputs:
            values, _ = _interpreted(self.sides, *self.sides.mixture(taken), rounded)
            self.outputs[taken, rounded] = {t: value for t, value in values.items() if t.part == "step"}
        return self.outputs[taken, rounded]

    def reference(self, rounded: bool) -> tuple[dict[Any, Any], dict[Any, float]]:
        """Return the tensors of the good step, and the bound of each."""
        if rounded not in self.good:
            import numpy as np

            from samebits.train.distance import relative

            values, nesting = _interpreted(self.sides, self.sides.good, None, rounded)
            self.containers = nesting.containers
            noise: dict[Any, float] = {}
            scales = self.scales.setdefault(rounded, {})
            for seed in range(DITHERS):
                moved, _ = _interpreted(self.sides, self.sides.good, None, rounded, seed)
                for tensor, value in values.items():
                    if np.any(moved[tensor]) and not np.any(value):
                        scales[tensor] = math.sqrt(np.size(value))
                    far = relative(value, moved[tensor], scales.get(tensor, 0.0))
                    noise[tensor] = max(noise.get(tensor, 0.0), far)
            self.good[rounded] = values, {t: max(FACTOR * far, FLOOR[rounded]) for t, far in noise.items()}
        return self.good[rounded]


def bisect_tensors(request: EndpointsRequest, session: Session) -> SearchFinding:
    """Find the first wrong tensor, forward or backward.

    Returns:
        The tensor; `found` is False if the step returns the good values, or every block computes them from good inputs.

    Raises:
        RequestError: the request is invalid.
    """
    sides = smallest(endpoints_of(request))
    how = sides.differing()
    good_step = _GoodStep(sides)

    def judge(point: Point) -> Judgement:
        return (_judged_whole if point[0].whole else _judged)(good_step, *point)

    searched = {"good": sides.good.digest(), "bad": sides.bad.digest(), "defect": request.defect}
    trials = session.trials("tensors", judge, searched=searched, root=sides.root, key=key, label=label)
    sets = space_of_sets(list(how))
    trials.space = SearchSpace(candidates=sets.candidates, taken=lambda point: sets.taken(point[0].taken))
    good_step.reference(False)
    search = BlockSearch(list(how), good_step.containers, trials)
    ends = []
    for rounded in (False, True):
        ends.append(trials((whole_step(how), rounded)))
        outcome = search.run(rounded) if ends[-1] != "pass" else Outcome(None)
        if outcome.point is not None:
            return _finding(request, sides, trials, outcome.point, (*search.idle, *outcome.remarks()))
    differs = ends[0] == "fail"
    notes = [_sizes(sides), *search.idle, "later steps are judged by: samebits bisect steps"]
    if set(ends) == {"pass"}:
        sentence = (
            f"{OUTPUTS} of {sides.bad.name} in its first step are those of {sides.good.name}, in float64 and rounded"
        )
    else:
        sentence = (
            f"every block of {sides.bad.name} agrees with that of {sides.good.name} on the same inputs, forward and "
            f"backward, in float64 and rounded{', or does not matter' if search.idle else ''}"
        )
    ending = f"yet {trials.known((whole_step(how), False)).detail}" if differs else "there is nothing to search for"
    return trials.finding(
        found=False,
        sentence=f"{sentence}; {ending}",
        culprits=(("none of the blocks",),) if differs else (),
        skipped=trials.unjudged(),
        notes=tuple(filter(None, notes)),
    )


def _sizes(sides: Endpoints) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in sides.bad.sizes.items())
    return f"at the sizes {sizes}" if sizes else ""


def smallest(sides: Endpoints) -> Endpoints:
    """Return the two trainings at the model's smallest sizes, if these have the same sites of parts."""
    small = sides.model.smallest(sides.bad)
    if sides.model.sites(small) != sides.model.sites(sides.bad):
        return sides
    good = replace(sides.good, sizes=small.sizes, options={**sides.good.options, **_text(sides.good)})
    return replace(sides, good=good, bad=small)


def _text(config: Config) -> dict[str, None]:
    return {"text": None} if config.options.get("text") is not None else {}


def _interpreted(
    sides: Endpoints, config: Config, defect: Defect | None, rounded: bool, seed: int | None = None
) -> tuple[dict[Any, Any], Any]:
    """Return the tensors of a step without replacement; with a seed, its parameters are first changed by one ulp."""
    interpreter, nesting = _run(sides, config, defect, rounded, seed, None, frozenset())
    return interpreter.values, nesting


def _run(
    sides: Endpoints,
    config: Config,
    defect: Defect | None,
    rounded: bool,
    seed: int | None,
    forced: Mapping[Any, Any] | None,
    skip: frozenset[str],
) -> tuple[Any, Any]:
    import jax
    import numpy as np

    from samebits.train.envelope import dithered
    from samebits.train.taps import Nesting, TapInterpreter, Tensor, tapped
    from samebits.train.trainer import trace_training_step

    nesting = Nesting()

    def plant(parts: Any) -> Any:
        return tapped(defect.plant(parts) if defect else parts, sides.names(), nesting)

    step = trace_training_step(sides.model, config, sides.root, Defect(name="taps", run=config, plant=plant))
    interpreter = TapInterpreter(rounded=rounded, forced=forced, skip=skip, nesting=nesting)
    state = dict(step.state)
    if seed is not None:
        kind = np.float32 if rounded else np.float64
        state["parameters"] = {
            name: dithered(np.asarray(x, kind), np.random.default_rng([seed, number]))
            for number, (name, x) in enumerate(state["parameters"].items())
        }
    flat = [np.asarray(leaf) for leaf in (*jax.tree.leaves(state), *jax.tree.leaves(dict(step.batch)))]
    outputs = interpreter(step.jaxpr, *(x.astype(np.float64) if x.dtype.kind == "f" else x for x in flat))
    for name, value in zip(step.names, outputs, strict=True):
        interpreter.end(Tensor(f"step:out:{name}", 0), value)
    return interpreter, nesting


def _judged_whole(good_step: _GoodStep, form: StepMixture, rounded: bool) -> Judgement:
    from samebits.errors import SamebitsError
    from samebits.train.distance import relative

    values, bounds = good_step.reference(rounded)
    scales = good_step.scales[rounded]
    try:
        outputs = good_step.whole(form.taken, rounded)
        before = good_step.whole(form.taken | form.without, rounded) if form.without else None
    except SamebitsError as error:
        return untestable(str(error))
    good = {tensor: value for tensor, value in values.items() if tensor in outputs}
    return judged_outputs(good, bounds, outputs, before, lambda t, a, b: relative(a, b, scales.get(t, 0.0)))


def _judged(good_step: _GoodStep, form: StepMixture, rounded: bool) -> Judgement:
    import numpy as np

    from samebits.errors import SamebitsError
    from samebits.train.distance import relative

    values, bounds = good_step.reference(rounded)
    config, defect = good_step.sides.mixture(form.taken)
    try:
        interpreter, nesting = _run(good_step.sides, config, defect, rounded, None, values, form.skip)
    except SamebitsError as error:
        return untestable(str(error))
    for tensor in interpreter.missing():
        interpreter.end(tensor, np.zeros_like(values[tensor]))
    scales = good_step.scales[rounded]
    compared = [tensor for tensor in values if tensor in interpreter.apart]
    for tensor in scales.keys() & interpreter.apart.keys():
        value = np.reshape(interpreter.values[tensor], np.shape(values[tensor]))
        interpreter.apart[tensor] = relative(values[tensor], value, scales[tensor])
    if not compared:
        return untestable("no tensor of the two steps can be compared")
    beyond = [tensor for tensor in compared if interpreter.apart[tensor] > bounds[tensor]]
    if not beyond:
        worst = max(compared, key=lambda tensor: interpreter.apart[tensor] / bounds[tensor])
        return passed(
            f"{len(compared)} tensors, off by {interpreter.apart[worst]:.1e} at most ({worst})", compared=len(compared)
        )
    first = beyond[0]
    place, good, bad = _largest(values[first], interpreter.values[first])
    faulty, names = origin(first, form, nesting)
    return failed(
        str(first),
        f"{first} is off by {interpreter.apart[first]:.2e}, bound {bounds[first]:.1e}; "
        f"{compared.index(first)} before it hold",
        place=first.part,
        faulty=faulty,
        names=names,
        backward=first.name.endswith("~"),
        distance=interpreter.apart[first],
        bound=bounds[first],
        element=place,
        good=good,
        bad=bad,
        compared=len(compared),
        before=compared.index(first),
    )


def _largest(good: Any, bad: Any) -> tuple[list[int], float, float]:
    """Return the index of the element that is furthest off, and both values."""
    import numpy as np

    good, bad = np.asarray(good), np.asarray(bad).reshape(np.shape(good))
    far = np.nan_to_num(np.abs(good - bad), nan=np.inf)
    place = np.unravel_index(int(np.argmax(far)), far.shape)
    return [int(i) for i in place], float(good[place]), float(bad[place])


def _finding(
    request: EndpointsRequest, sides: Endpoints, trials: Trials[Any], point: Point, notes: Sequence[str]
) -> SearchFinding:
    judgement = trials.known(point)
    n = judgement.numbers
    where = ", ".join(str(i) for i in n["element"])
    kind = "rounded" if point[1] else "in float64"
    return trials.finding(
        found=True,
        sentence=f"{judgement.signature} is the first wrong tensor: {n['faulty']} is at fault; "
        f"{n['before']} tensors before it hold",
        culprits=((judgement.signature, str(n["place"])),),
        witness=f"element [{where}] is {n['good']!r} in the good step and {n['bad']!r} from the same inputs, {kind}; "
        f"the tensor is off by {n['distance']:.2e}, its bound is {n['bound']:.1e}",
        replay=again("tensors", *request.words(), fresh=True),
        least=2 + point[1] + (len(sides.differing()) > 1),  # the whole step, a block, and the step without it
        skipped=trials.unjudged(),
        notes=tuple(filter(None, [_sizes(sides), *notes])),
        detail={
            "tensor": judgement.signature,
            "place": n["place"],
            "backward": n["backward"],
            "rounded": point[1],
            "compared": n["compared"],
            "before": n["before"],
        },
    )
