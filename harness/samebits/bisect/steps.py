"""The first step at which two trainings do something else, and whether forward, backward or in the update.

Errors of a training are not monotone, so no end error is halved: every step of the bad training is taken from the state
of the good one before that step, and judged alone. What a whole run only carries along is not blamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.result import Finding, Session, command, tree_digest
from samebits.bisect.search.judgement import Judgement, failed, passed
from samebits.bisect.search.trials import Trials

PARTS = {"loss": "forward", "gradient": "backward", "mu": "update", "nu": "update", "parameter": "update"}
"""The part of a step by what it computes."""


@dataclass(slots=True)
class _Runs:
    """Both trainings, run when they are first needed.

    Args:
        sides: the two.
        steps: of every run.
        moved: by step, every array of the single step beside its bound, in the order of computation.
        parted: the first step and leaf whose bits differ along the runs.
    """

    sides: Endpoints
    steps: int
    moved: dict[int, list[Any]] = field(default_factory=dict)
    parted: tuple[int, str] | None = None
    promised: str = "rounding"
    states: Mapping[int, Any] = field(default_factory=dict)

    def make(self) -> None:
        """Run both, and take every step of the bad one from the states of the good one.

        Raises:
            SamebitsError: a training cannot be run, or does not repeat.
        """
        if self.moved:
            return
        from samebits.bisect.trainings import Trainings, in_order
        from samebits.errors import CouldNotRun
        from samebits.train.compare import BoundedDistance
        from samebits.train.distance import first_parting, step_distances, ulps
        from samebits.train.parts import expected_verdict
        from samebits.train.trainer import Trainer, pool

        sides = self.sides
        trainings = Trainings(sides.model, sides.root, sides.good, self.steps)
        trainings.kept = tuple(range(1, self.steps + 1))
        recorded, base, envelope = trainings.base()
        threads = pool()
        try:
            trainer = Trainer(sides.model, sides.bad, sides.root, threads, sides.defect)
            run = trainer.run(self.steps)
            again = first_parting(run.run, trainer.run(self.steps).run)
            if again is not None:
                raise CouldNotRun(
                    f"config '{sides.bad.name}' does not repeat its own bits: {again[1]} differs at step {again[0]}"
                )
            good = Trainer(sides.model, sides.good, sides.root, threads)
            for number, state in recorded.states.items():
                outputs, arrays = _one(trainer, state, number)
                before, _ = _one(good, state, number)
                found = [
                    BoundedDistance(number, leaf, far, envelope.leaf_bound(leaf))
                    for leaf, far in step_distances(base[number], arrays).items()
                ]
                # Rounding moves the loss of a single step no more than that of the run until there.
                found.append(BoundedDistance(number, "loss", ulps(before, outputs), envelope.loss_bound(number)))
                self.moved[number] = in_order(found)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        self.parted = first_parting(recorded.run, run.run)
        self.promised, _ = expected_verdict(sides.good, sides.bad, sides.root)


def bisect_steps(asked: EndpointsRequest, session: Session) -> Finding:
    """The first step that does something else, and the part of it.

    Args:
        asked: the two trainings.
        session: how the search runs.

    Returns:
        The step; nothing found where every step does what the good one does, up to rounding.

    Raises:
        RequestError: nothing can be searched for as asked.
    """
    sides = endpoints_of(asked)
    sides.differing()
    runs = _Runs(sides, asked.steps)

    def judge(step: int) -> Judgement:
        runs.make()
        return _judged(runs, step)

    from samebits.host import environment

    searched = {
        "what": "steps", "good": sides.good.digest(), "bad": sides.bad.digest(), "steps": asked.steps,
        "defect": asked.defect, "tree": tree_digest(sides.root), "versions": dict(environment.capture().versions),
    }  # fmt: skip
    trials = session.trials(judge, searched=searched, label=lambda step: f"step {step} from the good state")
    for step in range(1, asked.steps + 1):
        if trials(step) == "fail":
            return _finding(asked, runs, trials, step)
    return Finding(
        what="steps",
        found=False,
        sentence=f"each of {asked.steps} steps of {sides.bad.name} does what {sides.good.name} does from the same "
        f"state, up to rounding{_parting(runs)}; there is nothing to search for",
        trials=tuple(trials.tried),
        runs=2,
        repeats=2,
    )


def _judged(runs: _Runs, step: int) -> Judgement:
    beyond = [one for one in runs.moved[step] if one.ratio > 1]
    if not beyond:
        if runs.promised == "bitwise" and runs.parted is not None and runs.parted[0] == step:
            leaf = runs.parted[1]
            return failed(
                f"step {step}: {leaf}", f"{leaf}: bits differ, and the contracts promise them", leaf=leaf, bits=True
            )
        worst = max(runs.moved[step], key=lambda one: one.ratio)
        return passed(f"{worst.ratio:.2g} of its bound at most, {worst.leaf}")
    first, worst = beyond[0], max(beyond, key=lambda one: one.ratio)
    return failed(
        f"step {step}: {first.leaf}",
        f"{PARTS[first.leaf.split('/')[0]]}: {first.leaf} is {first.ratio:.3g} times its bound; "
        f"most, {worst.leaf}: {worst.ratio:.3g} times",
        leaf=first.leaf,
        distance=first.distance,
        bound=first.bound,
        worst=worst.leaf,
    )


def _finding(asked: EndpointsRequest, runs: _Runs, trials: Trials[int], step: int) -> Finding:
    look = trials.known(step)
    leaf = str(look.numbers["leaf"])
    part = PARTS[leaf.split("/")[0]]
    words = {"forward": "forward pass", "backward": "backward pass", "update": "update of the optimizer"}[part]
    witness = f"step {step}, {leaf}: bits differ" if look.numbers.get("bits") else (
        f"step {step} from the same state: {leaf} is off by {look.numbers['distance']:.3g}, its bound is "
        f"{look.numbers['bound']:.3g}"
    )  # fmt: skip
    replay = command("samebits", "bisect", "steps", *_with_steps(asked, step))
    return Finding(
        what="steps",
        found=True,
        sentence=f"step {step} is the first that does something else from the same state: its {words}, {leaf}",
        culprits=((f"step {step}", part, leaf),),
        witness=witness,
        replay=replay,
        trials=tuple(trials.tried),
        runs=2,
        repeats=2,
        least=2,
        notes=tuple([_parting(runs).removeprefix("; ")] if runs.parted else []),
        detail={"step": step, "part": part, "leaf": leaf, "looks": len(trials.tried)},
    )


def _with_steps(asked: EndpointsRequest, step: int) -> list[str]:
    return replace(asked, steps=step).words() if step != asked.steps else asked.words()


def _parting(runs: _Runs) -> str:
    if runs.parted is None:
        return ""
    return f"; along the runs, bits first differ at step {runs.parted[0]}, {runs.parted[1]}"


def _one(trainer: Any, state: Any, number: int) -> tuple[Any, dict[str, Any]]:
    """The loss and the arrays of one step from another training's state."""
    from samebits.train.distance import step_arrays
    from samebits.train.envelope import reshaped_state

    after, outputs = trainer.one(reshaped_state(state, trainer.start), number)
    return outputs["loss"], step_arrays(after, outputs)
