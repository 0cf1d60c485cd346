"""Finds the first step at which two trainings differ, and whether in the forward pass, backward pass or update.

The error of a training run is not monotone in the step, so a binary search over its end error would be wrong. Instead,
each step of the bad training starts from the good training's state before that step, and is judged alone. Errors that a
step only inherits from earlier ones are therefore not attributed to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.search.trials import Judgement, SearchFinding, SearchSpace, Trials, failed, passed
from samebits.bisect.session import Session, again

PARTS = {
    **dict.fromkeys(("loss", "perplexity"), "forward"),
    "gradient": "backward",
    **dict.fromkeys(("mu", "nu", "parameter", "state"), "update"),
}
"""The part of a step that computes each kind of leaf."""


@dataclass(slots=True)
class _Runs:
    """Both trainings, run on first use.

    Args:
        distances: by step, the distance of each leaf from the good step, in the order of computation.
        parted: the first step and leaf whose bits differ along the two runs.
        promised: the verdict that the contracts promise between the two.
    """

    sides: Endpoints
    steps: int
    distances: dict[int, list[Any]] = field(default_factory=dict)
    parted: tuple[int, str] | None = None
    promised: str = "rounding"

    def make(self) -> None:
        """Run both, and run every step of the bad training from the good training's state.

        Raises:
            SamebitsError: a training cannot be run, or is not reproducible.
        """
        if self.distances:
            return
        from samebits.bisect.trainings import Trainings, in_order
        from samebits.errors import CouldNotRun
        from samebits.train.compare import BoundedDistance
        from samebits.train.distance import first_parting, perplexity_distance, step_distances, ulps, with_run
        from samebits.train.parts import expected_verdict
        from samebits.train.trainer import Trainer, pool

        sides = self.sides
        trainings = Trainings(sides.model, sides.root, sides.good, self.steps)
        trainings.restart_steps = tuple(range(1, self.steps + 1))
        recorded, base, envelope = trainings.base()
        with pool() as threads:
            trainer = Trainer(sides.model, sides.bad, sides.root, threads, sides.defect)
            run = trainer.run(self.steps)
            again = first_parting(run.run, trainer.run(self.steps).run)
            if again is not None:
                raise CouldNotRun(
                    f"config '{sides.bad.name}' does not repeat its own bits: {again[1]} differs at step {again[0]}"
                )
            good = Trainer(sides.model, sides.good, sides.root, threads)
            for number, state in recorded.states.items():
                (loss, perplexity), arrays = _single_step(trainer, state, number)
                (good_loss, good_perplexity), _ = _single_step(good, state, number)
                distances = [
                    BoundedDistance(
                        number, with_run(leaf, sides.good.name, sides.bad.name), far, envelope.leaf_bound(leaf)
                    )
                    for leaf, far in step_distances(base[number], arrays).items()
                ]
                # Rounding in a single step changes the loss by no more than rounding in the run up to that step.
                distances.append(BoundedDistance(number, "loss", ulps(good_loss, loss), envelope.loss_bound(number)))
                far = perplexity_distance(good_loss, good_perplexity, loss, perplexity)
                limit = envelope.perplexity_bound(number, good_loss)
                distances.append(BoundedDistance(number, "perplexity", far, limit))
                self.distances[number] = in_order(distances)
        self.parted = first_parting(recorded.run, run.run)
        self.promised, _ = expected_verdict(sides.good, sides.bad, sides.root)


def bisect_steps(request: EndpointsRequest, session: Session) -> SearchFinding:
    """Find the first step that differs, and the part of it.

    Returns:
        The step; `found` is False if every step agrees with the good one up to rounding.

    Raises:
        RequestError: the request is invalid.
    """
    sides = endpoints_of(request)
    sides.differing()
    runs = _Runs(sides, request.steps)

    def judge(step: int) -> Judgement:
        runs.make()
        return _judged(runs, step)

    searched = {
        "good": sides.good.digest(), "bad": sides.bad.digest(), "steps": request.steps,
        "defect": request.defect,
    }  # fmt: skip
    trials = session.trials(
        "steps", judge, searched=searched, root=sides.root, label=lambda step: f"step {step} from the good state"
    )
    trials.space = SearchSpace(
        candidates=tuple(f"step {step}" for step in range(1, request.steps + 1)), taken=lambda step: (step - 1,)
    )
    for step in range(1, request.steps + 1):
        failing = trials(step) == "fail"
        trials.narrowed(step, [step - 1] if failing else range(step, request.steps))
        if failing:
            return _finding(request, runs, trials, step)
    return trials.finding(
        found=False,
        sentence=f"each of {request.steps} steps of {sides.bad.name} agrees with {sides.good.name} from the same "
        f"state, up to rounding{_parting(runs)}; there is nothing to search for",
        runs=2,
        repeats=2,
    )


def _judged(runs: _Runs, step: int) -> Judgement:
    beyond = [distance for distance in runs.distances[step] if distance.ratio > 1]
    if not beyond:
        if runs.promised == "bitwise" and runs.parted is not None and runs.parted[0] == step:
            leaf = runs.parted[1]
            return failed(
                f"step {step}: {leaf}", f"{leaf}: bits differ, and the contracts promise them", leaf=leaf, bits=True
            )
        worst = max(runs.distances[step], key=lambda distance: distance.ratio)
        return passed(f"{worst.ratio:.2g} of its bound at most, {worst.leaf}")
    first, worst = beyond[0], max(beyond, key=lambda distance: distance.ratio)
    return failed(
        f"step {step}: {first.leaf}",
        f"{PARTS[first.leaf.split('/')[0]]}: {first.leaf} is {first.ratio:.3g} times its bound; "
        f"most, {worst.leaf}: {worst.ratio:.3g} times",
        leaf=first.leaf,
        distance=first.distance,
        bound=first.bound,
        worst=worst.leaf,
    )


def _finding(request: EndpointsRequest, runs: _Runs, trials: Trials[int], step: int) -> SearchFinding:
    judgement = trials.known(step)
    leaf = str(judgement.numbers["leaf"])
    part = PARTS[leaf.split("/")[0]]
    words = {"forward": "forward pass", "backward": "backward pass", "update": "update of the optimizer"}[part]
    witness = f"step {step}, {leaf}: bits differ"
    if not judgement.numbers.get("bits"):
        distance, bound = judgement.numbers["distance"], judgement.numbers["bound"]
        witness = f"step {step} from the same state: {leaf} is off by {distance:.3g}, its bound is {bound:.3g}"
    return trials.finding(
        found=True,
        sentence=f"step {step} is the first that differs from the same state: its {words}, {leaf}",
        culprits=((f"step {step}", part, leaf),),
        witness=witness,
        replay=again("steps", *replace(request, steps=step).words()),
        runs=2,
        repeats=2,
        least=2,
        notes=tuple([_parting(runs).removeprefix("; ")] if runs.parted else []),
        detail={"step": step, "part": part, "leaf": leaf, "looks": len(trials.tried)},
    )


def _parting(runs: _Runs) -> str:
    if runs.parted is None:
        return ""
    return f"; along the runs, bits first differ at step {runs.parted[0]}, {runs.parted[1]}"


def _single_step(trainer: Any, state: Any, number: int) -> tuple[tuple[float, float], dict[str, Any]]:
    """Return the loss, the perplexity and the arrays of one step that starts from another training's state."""
    from samebits.train.distance import step_arrays
    from samebits.train.envelope import reshaped_state

    after, outputs = trainer.single_step(reshaped_state(state, trainer.start), number)
    return (float(outputs["loss"]), float(outputs["perplexity"])), step_arrays(after, outputs)
