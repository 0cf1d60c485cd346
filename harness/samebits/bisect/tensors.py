"""Finds the first wrong tensor of a training step: one that differs although its inputs are the good ones.

Both steps are interpreted in float64 at the smallest sizes. The inputs of each part of the bad step, and the cotangents
of its outputs, are replaced by the good step's values, so that each block is judged alone: Jiang et al., "TTrace"
(arXiv 2506.09280), section 4, with an interpreter in place of hooks. Errors are not monotone along a step, so there is
no binary search: every tensor is compared, in the order in which the good step computes them.

If nothing differs in float64, the search is repeated with every value rounded to its dtype; a tensor that differs only
then differs by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.result import Finding, Session, command
from samebits.bisect.search.history import least_runs
from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.bisect.search.space import SearchSpace, space_of_sets
from samebits.bisect.search.trials import Trials
from samebits.schema.model import Config, Defect

FACTOR = 3.0
"""The bound, as a multiple of the good step's own response to one ulp of its parameters."""

FLOOR = {False: 2.0**-33, True: 2.0**-21}
"""The smallest bound, relative to a tensor's norm: in float64, and rounded to float32. In healthy runs
(moe_parallelism, hybrid) blocks with the good inputs are off by at most 1.1e-15 and 2.8e-7; for eight planted defects
the first wrong tensor is off by at least 1.0e-3."""

DITHERS = 2


@dataclass(frozen=True, slots=True)
class StepMixture:
    """A step in which some differences are taken from the bad configuration.

    Args:
        words: a description for the table.
        taken: the differences that are taken from the bad configuration.
        skip: sites of parts whose inner tensors are not compared.
    """

    words: str
    taken: frozenset[str]
    skip: frozenset[str] = frozenset()


@dataclass(slots=True)
class _GoodStep:
    """The good step, interpreted on first use, and the bounds of its tensors.

    Args:
        sides: the two trainings, at the smallest sizes.
        good: by whether values are rounded: the tensors in order of computation, and the bound of each.
        containers: sites of parts that call other parts.
        scales: by whether values are rounded: for each tensor of zeros that the dither moves, the norm of ones, which
            its distances are relative to.
    """

    sides: Endpoints
    good: dict[bool, tuple[dict[Any, Any], dict[Any, float]]] = field(default_factory=dict)
    containers: set[str] = field(default_factory=set)
    scales: dict[bool, dict[Any, float]] = field(default_factory=dict)

    def reference(self, rounded: bool) -> tuple[dict[Any, Any], dict[Any, float]]:
        """The tensors of the good step, and the bound of each."""
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


def bisect_tensors(request: EndpointsRequest, session: Session) -> Finding:
    """Find the first wrong tensor, forward or backward.

    Args:
        request: the two trainings.
        session: how the search runs.

    Returns:
        The tensor; `found` is False if every block computes the good values from the good inputs.

    Raises:
        RequestError: the request is invalid.
    """
    sides = smallest(endpoints_of(request))
    how = sides.differing()
    good_step = _GoodStep(sides)

    def judge(point: tuple[StepMixture, bool]) -> Judgement:
        return _judged(good_step, *point)

    searched = {
        "what": "tensors", "good": sides.good.digest(), "bad": sides.bad.digest(), "defect": request.defect,
    }  # fmt: skip
    trials = session.trials(judge, searched=searched, root=sides.root, key=_key, label=_label)
    sets = space_of_sets(list(how))
    trials.space = SearchSpace(candidates=sets.candidates, taken=lambda point: sets.taken(point[0].taken))
    good_step.reference(False)
    for rounded in (False, True):
        for form in _forms(how, good_step.containers):
            if trials((form, rounded)) == "fail":
                return _finding(request, sides, trials, (form, rounded))
    return Finding(
        what="tensors",
        found=False,
        sentence=f"every block of {sides.bad.name} agrees with that of {sides.good.name} on the same inputs, "
        "forward and backward, in float64 and rounded; there is nothing to search for",
        skipped=_skipped(trials),
    ).with_trials(trials)


def _skipped(trials: Trials[Any]) -> tuple[str, ...]:
    return tuple(f"{t.point}: {t.detail}" for t in trials.tried if t.outcome == "untestable")


def smallest(sides: Endpoints) -> Endpoints:
    """The two trainings at the model's smallest sizes, if these have the same sites of parts."""
    small = sides.model.smallest(sides.bad)
    if sides.model.sites(small) != sides.model.sites(sides.bad):
        return sides
    good = replace(sides.good, sizes=small.sizes, options={**sides.good.options, **_text(sides.good)})
    return replace(sides, good=good, bad=small)


def _text(config: Config) -> dict[str, None]:
    return {"text": None} if config.options.get("text") is not None else {}


def _forms(how: Mapping[str, str], containers: Iterable[str]) -> list[StepMixture]:
    """The mixtures to try, innermost first: parts that call no other parts, each part that does, then all together."""
    inside = set(containers)
    within = {pair for place in inside for pair in (place, place.partition("@")[0])}
    outer = [name for name in how if name in within]
    inner = frozenset(name for name in how if name not in within)
    mixtures = [StepMixture("parts that call no others", inner)] if inner else []
    mixtures += [StepMixture(name, frozenset({name}), frozenset({name})) for name in outer]
    if len(mixtures) > 1:
        mixtures.append(StepMixture("all together", frozenset(how), frozenset(outer)))
    return mixtures


def _key(point: tuple[StepMixture, bool]) -> str:
    form, rounded = point
    return f"{form.words}: {', '.join(sorted(form.taken))}, {'rounded' if rounded else 'float64'}"


def _label(point: tuple[StepMixture, bool]) -> str:
    form, rounded = point
    return f"{form.words}, {'rounded' if rounded else 'in float64'}"


def _interpreted(
    sides: Endpoints, config: Config, defect: Defect | None, rounded: bool, seed: int | None = None
) -> tuple[dict[Any, Any], Any]:
    """The tensors of a step without replacement; with a seed, its parameters are first changed by one ulp."""
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
    from samebits.train.trace_step import trace_training_step

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
    return failed(
        str(first),
        f"{first} is off by {interpreter.apart[first]:.2e}, bound {bounds[first]:.1e}; "
        f"{compared.index(first)} before it hold",
        place=first.part,
        guilty=_origin(first, form, nesting),
        backward=first.name.endswith("~"),
        distance=interpreter.apart[first],
        bound=bounds[first],
        element=place,
        good=good,
        bad=bad,
        compared=len(compared),
        before=compared.index(first),
    )


def _origin(first: Any, form: StepMixture, nesting: Any) -> str:
    """The code that computed a wrong tensor: a part, parts that it calls, or the model between its parts."""
    if first.enters or first.part == "step":
        return "what the model computes between its parts"
    if first.part in form.taken:
        return str(first.part)
    inside = sorted(name for name in form.taken if first.part in nesting.within.get(name, ()))
    return f"{' or '.join(inside)}, called in {first.part}," if inside else first.part


def _largest(good: Any, bad: Any) -> tuple[list[int], float, float]:
    """The index of the element that is furthest off, and both values."""
    import numpy as np

    good, bad = np.asarray(good), np.asarray(bad).reshape(np.shape(good))
    far = np.nan_to_num(np.abs(good - bad), nan=np.inf)
    place = np.unravel_index(int(np.argmax(far)), far.shape)
    return [int(i) for i in place], float(good[place]), float(bad[place])


def _finding(
    request: EndpointsRequest, sides: Endpoints, trials: Trials[Any], point: tuple[StepMixture, bool]
) -> Finding:
    judgement = trials.known(point)
    n = judgement.numbers
    where = ", ".join(str(i) for i in n["element"])
    kind = "rounded" if point[1] else "in float64"
    return Finding(
        what="tensors",
        found=True,
        sentence=f"{judgement.signature} is the first wrong tensor: {n['guilty']} is at fault; "
        f"{n['before']} tensors before it hold",
        culprits=((judgement.signature, str(n["place"])),),
        witness=f"element [{where}] is {n['good']!r} in the good step and {n['bad']!r} from the same inputs, {kind}; "
        f"the tensor is off by {n['distance']:.2e}, its bound is {n['bound']:.1e}",
        replay=command("samebits", "bisect", "tensors", *request.words(), "--fresh"),
        least=least_runs(1) - 1,
        skipped=_skipped(trials),
        notes=tuple(
            [f"at the sizes {', '.join(f'{k}={v}' for k, v in sides.bad.sizes.items())}"] if sides.bad.sizes else []
        ),
        detail={
            "tensor": judgement.signature,
            "place": n["place"],
            "backward": n["backward"],
            "rounded": point[1],
            "compared": n["compared"],
            "before": n["before"],
        },
    ).with_trials(trials)
