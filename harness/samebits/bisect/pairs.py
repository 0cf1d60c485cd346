"""Finds the choices of implementations that make two trainings diverge: all minimal sets, per pair and per layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.result import Finding, Session, command
from samebits.bisect.search.history import least_runs
from samebits.bisect.search.judgement import Judgement
from samebits.bisect.search.minimal_sets import MinimalSets, minimal_sets
from samebits.bisect.search.space import space_of_sets
from samebits.bisect.search.trials import Trials
from samebits.errors import RequestError

Point = frozenset[str]


JudgePoint = Callable[[Point, int], Judgement]
"""Judges the choices taken from the bad training, over so many steps."""


def bisect_pairs(
    request: EndpointsRequest,
    session: Session,
    only: Sequence[str] = (),
    most: int = 200,
    judge: JudgePoint | None = None,
) -> Finding:
    """Find the choices that make the bad training diverge from the good one.

    Args:
        request: the two trainings.
        session: how the search is run.
        only: judge only this set of choices.
        most: the largest number of sets to try.
        judge: judges a set of choices, such as in another process; by default in this one.

    Raises:
        RequestError: the request is invalid.
        NothingFails: the bad training does not diverge from the good one.
    """
    sides = endpoints_of(request)
    how = sides.differing()
    for name in only:
        if name not in how:
            raise RequestError(f"--only {name}: the two trainings do not differ there; they do in {', '.join(how)}")
    steps = _Steps(request.steps)
    judge = judge or judge_here(request)
    trials = _trials(request, sides, session, sorted(how), lambda point: judge(point, steps.count))
    trials.space = space_of_sets(list(how))
    if only:
        return _single_set(request, frozenset(only), how, trials)
    items = list(how)
    end = trials.ends(frozenset(), frozenset(items))
    steps.count = int(end.numbers["step"])  # later steps add nothing
    sets = minimal_sets(items, trials.fails, most)
    return _finding(request, sides, how, trials, sets)


@dataclass(slots=True)
class _Steps:
    """How many steps are run: fewer once it is known where the trainings diverge."""

    count: int


def judge_here(request: EndpointsRequest) -> JudgePoint:
    """A judge in this process; the good training is run and measured when the first point is judged.

    Args:
        request: the two trainings.
    """
    from samebits.bisect.trainings import Trainings

    sides = endpoints_of(request)
    trainings = Trainings(sides.model, sides.root, sides.good, request.steps)

    def judge(point: Point, steps: int) -> Judgement:
        trainings.steps = request.steps
        trainings.base()  # over all steps, whatever the first point needs
        trainings.steps = steps
        return trainings.judge(*sides.mixture(point))

    return judge


def _trials(
    request: EndpointsRequest,
    sides: Endpoints,
    session: Session,
    items: list[str],
    judge: Callable[[Point], Judgement],
) -> Trials[Point]:
    searched = {
        "what": "pairs", "good": sides.good.digest(), "bad": sides.bad.digest(), "steps": request.steps, "items": items,
        "defect": request.defect,
    }  # fmt: skip
    return session.trials(
        judge, searched=searched, root=sides.root, key=lambda point: " ".join(sorted(point)), label=_label
    )


def _label(point: Point) -> str:
    return ", ".join(sorted(point)) or "no change"


def _finding(
    request: EndpointsRequest, sides: Endpoints, how: dict[str, str], trials: Trials[Point], sets: MinimalSets
) -> Finding:
    words = [_words(choices, how) for choices in sets.minimal]
    sentence = f"{'; and '.join(words)}: {trials.signature}" if words else "no set of choices was found that fails"
    notes = [] if sets.whole else [f"the limit of {len(trials.tried)} sets came first; there may be other causes"]
    for failing, larger in sets.contradictions[:3]:
        notes.append(f"{_label(failing)} fails and {_label(larger)} passes: a change in it heals")
    notes += sorted({f"{t.point}: {t.detail}" for t in trials.tried if t.outcome == "ambiguous"})
    first = sets.minimal[0] if sets.minimal else frozenset()
    return Finding(
        what="pairs",
        found=bool(sets.minimal),
        sentence=sentence,
        culprits=tuple(tuple(sorted(choices)) for choices in sets.minimal),
        witness=_witness(trials.known(first)) if first else "",
        replay=command("samebits", "bisect", "pairs", *request.words(), "--only", ",".join(sorted(first))),
        least=least_runs(len(how)),
        skipped=tuple(f"{t.point}: {t.detail}" for t in trials.tried if t.outcome == "untestable"),
        notes=tuple(notes),
        detail={"good": sides.good.name, "bad": sides.bad.name, "choices": how, "whole": sets.whole},
    ).with_trials(trials)


def _single_set(request: EndpointsRequest, point: Point, how: dict[str, str], trials: Trials[Point]) -> Finding:
    outcome = trials(point)
    judgement = trials.known(point)
    failed = outcome == "fail"
    sentence = f"{_words(point, how)}: {judgement.signature or judgement.detail}"
    return Finding(
        what="pairs",
        found=failed,
        sentence=sentence if failed else f"{_label(point)}: {judgement.detail}",
        culprits=(tuple(sorted(point)),) if failed else (),
        witness=_witness(judgement) if failed else "",
        replay=command("samebits", "bisect", "pairs", *request.words(), "--only", ",".join(sorted(point))),
        skipped=(judgement.detail,) if outcome in ("untestable", "ambiguous") else (),
    ).with_trials(trials)


def _words(choices: Point, how: dict[str, str]) -> str:
    names = [f"{name} ({how[name]})" for name in sorted(choices)]
    if len(names) == 1:
        return f"{names[0]} alone makes the training part"
    return f"{' and '.join(names)} make it part only together"


def _witness(judgement: Judgement) -> str:
    n = judgement.numbers
    return (
        f"{n['leaf']} at step {n['step']} is off by {n['distance']:.3g}, its bound is {n['bound']:.3g}; "
        f"loss {n['good_loss']} becomes {n['loss']}"
    )
