"""The first tensor that is wrong although what it is computed from is right.

Both steps are walked over float64 numbers at the smallest sizes. What enters a part of the bad step, and the cotangent
of what leaves it, is replaced by the good value, so that each block is judged alone: Jiang et al., "TTrace"
(arXiv 2506.09280), section 4, with the walk in place of hooks. Errors are not monotone along a step, so nothing is
halved: every tensor is compared, in the order in which the good step computes them.

Where float64 shows nothing, the same is done with every number rounded to its dtype: then the fault is one of rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.result import Finding, Session, command, tree_digest
from samebits.bisect.search.history import least_runs
from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.bisect.search.trials import Trials
from samebits.schema.model import Config, Defect

FACTOR = 3.0
"""Bound over the response of the good step itself to one unit in the last place of its parameters."""

FLOOR = {False: 2.0**-33, True: 2.0**-21}
"""The least bound, relative to a tensor's norm: in float64, and rounded to float32. In healthy runs (moe_parallelism,
hybrid) blocks that get the good inputs are off by 1.1e-15 and 2.8e-7 at most; of eight planted defects the first wrong
tensor is off by 1.0e-3 at least."""

DITHERS = 2


@dataclass(frozen=True, slots=True)
class StepMixture:
    """One way to walk the bad step.

    Args:
        words: what it is, for the table.
        taken: the differing places that are bad in it.
        skip: places of parts whose inside is not compared.
    """

    words: str
    taken: frozenset[str]
    skip: frozenset[str] = frozenset()


@dataclass(slots=True)
class _ReferenceSteps:
    """The good step, walked when it is first needed, and what its own rewrites move.

    Args:
        sides: the two trainings, at the smallest sizes.
        good: tensors of the good step, by mesh and rounding: in order of computation, with their bounds.
    """

    sides: Endpoints
    good: dict[bool, tuple[dict[Any, Any], dict[Any, float]]] = field(default_factory=dict)
    containers: set[str] = field(default_factory=set)

    def reference(self, rounded: bool) -> tuple[dict[Any, Any], dict[Any, float]]:
        """The tensors of the good step, and the bound of each."""
        if rounded not in self.good:
            from samebits.train.distance import relative

            values, nesting = _walk(self.sides, self.sides.good, None, rounded)
            self.containers = nesting.containers
            noise: dict[Any, float] = {}
            for seed in range(DITHERS):
                moved, _ = _walk(self.sides, self.sides.good, None, rounded, seed)
                for tensor, value in values.items():
                    noise[tensor] = max(noise.get(tensor, 0.0), relative(value, moved[tensor]))
            self.good[rounded] = values, {t: max(FACTOR * far, FLOOR[rounded]) for t, far in noise.items()}
        return self.good[rounded]


def bisect_tensors(asked: EndpointsRequest, session: Session) -> Finding:
    """The first wrong tensor, forward or backward.

    Args:
        asked: the two trainings.
        session: how the search runs.

    Returns:
        The tensor; nothing found where every block computes what the good one does from the same inputs.

    Raises:
        RequestError: nothing can be searched for as asked.
    """
    sides = smallest(endpoints_of(asked))
    how = sides.differing()
    walks = _ReferenceSteps(sides)

    def judge(point: tuple[StepMixture, bool]) -> Judgement:
        return _look(walks, *point)

    from samebits.host import environment

    searched = {
        "what": "tensors", "good": sides.good.digest(), "bad": sides.bad.digest(), "defect": asked.defect,
        "tree": tree_digest(sides.root), "versions": dict(environment.capture().versions),
    }  # fmt: skip
    trials = session.trials(judge, searched=searched, key=_key, label=_label)
    walks.reference(False)
    for rounded in (False, True):
        for form in _forms(how, walks.containers):
            if trials((form, rounded)) == "fail":
                return _finding(asked, sides, trials, (form, rounded))
    return Finding(
        what="tensors",
        found=False,
        sentence=f"every block of {sides.bad.name} computes what that of {sides.good.name} does from the same inputs, "
        "forward and backward, in float64 and rounded; there is nothing to search for",
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        skipped=_skipped(trials),
    )


def _skipped(trials: Trials[Any]) -> tuple[str, ...]:
    return tuple(f"{t.point}: {t.detail}" for t in trials.tried if t.outcome == "untestable")


def smallest(sides: Endpoints) -> Endpoints:
    """The two trainings at the smallest sizes that the model knows, where all places of parts are left there."""
    small = sides.model.smallest(sides.bad)
    if sides.model.sites(small) != sides.model.sites(sides.bad):
        return sides
    good = replace(sides.good, sizes=small.sizes, options={**sides.good.options, **_text(sides.good)})
    return replace(sides, good=good, bad=small)


def _text(config: Config) -> dict[str, None]:
    return {"text": None} if config.options.get("text") is not None else {}


def _forms(how: Mapping[str, str], containers: Iterable[str]) -> list[StepMixture]:
    """The innermost first: parts that call no others, then each that does by itself, then all together."""
    inside = set(containers)
    within = {pair for place in inside for pair in (place, place.partition("@")[0])}
    outer = [name for name in how if name in within]
    inner = frozenset(name for name in how if name not in within)
    found = [StepMixture("parts that call no others", inner)] if inner else []
    found += [StepMixture(name, frozenset({name}), frozenset({name})) for name in outer]
    if len(found) > 1:
        found.append(StepMixture("all together", frozenset(how), frozenset(outer)))
    return found


def _key(point: tuple[StepMixture, bool]) -> str:
    form, rounded = point
    return f"{form.words}: {', '.join(sorted(form.taken))}, {'rounded' if rounded else 'float64'}"


def _label(point: tuple[StepMixture, bool]) -> str:
    form, rounded = point
    return f"{form.words}, {'rounded' if rounded else 'in float64'}"


def _walk(
    sides: Endpoints, config: Config, defect: Defect | None, rounded: bool, seed: int | None = None
) -> tuple[dict[Any, Any], Any]:
    """The tensors of a step, none replaced; with a seed, of its parameters moved by one unit in the last place."""
    walk, nesting = _run(sides, config, defect, rounded, seed, None, frozenset())
    return walk.values, nesting


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
    from samebits.train.trace_step import traced

    nesting = Nesting()

    def plant(parts: Any) -> Any:
        return tapped(defect.plant(parts) if defect else parts, sides.names(), nesting)

    step = traced(sides.model, config, sides.root, Defect(name="taps", run=config, plant=plant))
    walk = TapInterpreter(rounded=rounded, forced=forced, skip=skip, nesting=nesting)
    state = dict(step.state)
    if seed is not None:
        kind = np.float32 if rounded else np.float64
        state["parameters"] = {
            name: dithered(np.asarray(x, kind), np.random.default_rng([seed, number]))
            for number, (name, x) in enumerate(state["parameters"].items())
        }
    flat = [np.asarray(leaf) for leaf in (*jax.tree.leaves(state), *jax.tree.leaves(dict(step.batch)))]
    outputs = walk(step.jaxpr, *(x.astype(np.float64) if x.dtype.kind == "f" else x for x in flat))
    for name, value in zip(step.names, outputs, strict=True):
        walk.end(Tensor(f"step:out:{name}", 0), value)
    return walk, nesting


def _look(walks: _ReferenceSteps, form: StepMixture, rounded: bool) -> Judgement:
    import numpy as np

    from samebits.errors import SamebitsError

    values, bounds = walks.reference(rounded)
    config, defect = walks.sides.mixture(form.taken)
    try:
        walk, nesting = _run(walks.sides, config, defect, rounded, None, values, form.skip)
    except SamebitsError as error:
        return untestable(str(error))
    for tensor in walk.missing():
        walk.end(tensor, np.zeros_like(values[tensor]))
    compared = [tensor for tensor in values if tensor in walk.apart]
    if not compared:
        return untestable("no tensor of the two steps can be compared")
    beyond = [tensor for tensor in compared if walk.apart[tensor] > bounds[tensor]]
    if not beyond:
        worst = max(compared, key=lambda tensor: walk.apart[tensor] / bounds[tensor])
        return passed(
            f"{len(compared)} tensors, off by {walk.apart[worst]:.1e} at most ({worst})", compared=len(compared)
        )
    first = beyond[0]
    place, good, bad = _largest(values[first], walk.values[first])
    return failed(
        str(first),
        f"{first} is off by {walk.apart[first]:.2e}, bound {bounds[first]:.1e}; {compared.index(first)} before it hold",
        place=first.part,
        guilty=_guilty(first, form, nesting),
        backward=first.name.endswith("~"),
        distance=walk.apart[first],
        bound=bounds[first],
        element=place,
        good=good,
        bad=bad,
        compared=len(compared),
        before=compared.index(first),
    )


def _guilty(first: Any, form: StepMixture, nesting: Any) -> str:
    """Who made a wrong tensor, in words: a part, parts called in it, or what the model does between its parts."""
    if first.enters or first.part == "step":
        return "what the model computes between its parts"
    if first.part in form.taken:
        return str(first.part)
    inside = sorted(name for name in form.taken if first.part in nesting.within.get(name, ()))
    return f"{' or '.join(inside)}, called in {first.part}," if inside else first.part


def _largest(good: Any, bad: Any) -> tuple[list[int], float, float]:
    """The element that is furthest off, and both numbers."""
    import numpy as np

    good, bad = np.asarray(good), np.asarray(bad).reshape(np.shape(good))
    far = np.nan_to_num(np.abs(good - bad), nan=np.inf)
    place = np.unravel_index(int(np.argmax(far)), far.shape)
    return [int(i) for i in place], float(good[place]), float(bad[place])


def _finding(
    asked: EndpointsRequest, sides: Endpoints, trials: Trials[Any], point: tuple[StepMixture, bool]
) -> Finding:
    look = trials.known(point)
    n = look.numbers
    where = ", ".join(str(i) for i in n["element"])
    kind = "rounded" if point[1] else "in float64"
    return Finding(
        what="tensors",
        found=True,
        sentence=f"{look.signature} is the first wrong tensor: {n['guilty']} is at fault; "
        f"{n['before']} tensors before it hold",
        culprits=((look.signature, str(n["place"])),),
        witness=f"element [{where}] is {n['good']!r} in the good step and {n['bad']!r} from the same inputs, {kind}; "
        f"the tensor is off by {n['distance']:.2e}, its bound is {n['bound']:.1e}",
        replay=command("samebits", "bisect", "tensors", *asked.words(), "--fresh"),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        least=least_runs(1) - 1,
        skipped=_skipped(trials),
        notes=tuple(
            [f"at the sizes {', '.join(f'{k}={v}' for k, v in sides.bad.sizes.items())}"] if sides.bad.sizes else []
        ),
        detail={"tensor": look.signature, "place": n["place"], "backward": n["backward"], "rounded": point[1]},
    )
