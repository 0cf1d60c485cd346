"""Finds the choices of implementations that make two trainings diverge: all minimal sets, per pair and per layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.search.history import least_runs
from samebits.bisect.search.minimal_sets import MinimalSets, minimal_sets
from samebits.bisect.search.trials import Judgement, SearchFinding, SearchSpace, Trials, space_of_sets
from samebits.bisect.session import Session, again, counted
from samebits.errors import RequestError

Point = frozenset[str]


Run = tuple[Point, int]
"""The choices taken from the bad training, and over how many steps they are judged."""

JudgePoint = Callable[[Point, int], Judgement]
"""Judges the choices taken from the bad training, over so many steps."""


def bisect_pairs(
    request: EndpointsRequest,
    session: Session,
    only: Sequence[str] = (),
    most: int = 200,
    judge: JudgePoint | None = None,
) -> SearchFinding:
    """Find the choices that make the bad training diverge from the good one.

    Args:
        most: the largest number of sets to try.

    Raises:
        RequestError: the request is invalid.
        NothingFails: the bad training does not diverge from the good one.
    """
    sides = endpoints_of(request)
    how = sides.differing()
    for name in only:
        if name not in how:
            raise RequestError(f"--only {name}: the two trainings do not differ there; they do in {', '.join(how)}")
    trials = _trials(request, sides, session, sorted(how), judge or judge_here(request))
    sets_of = space_of_sets(list(how))
    trials.space = SearchSpace(candidates=sets_of.candidates, taken=lambda run: sets_of.taken(run[0]))
    if only:
        return _single_set(request, frozenset(only), how, trials)
    items = list(how)
    end = trials.ends((frozenset(), request.steps), (frozenset(items), request.steps))
    steps = int(end.numbers["step"])  # later steps add nothing to this failure
    sets = minimal_sets(items, lambda point: trials.fails((point, steps)), most)
    rest = frozenset(items).difference(*sets.minimal)
    later = None
    if sets.whole and sets.minimal and rest and steps < request.steps:  # another failure may show later
        later = trials.alone((rest, request.steps))
    return _finding(request, sides, trials, steps, sets, later)


def judge_here(request: EndpointsRequest) -> JudgePoint:
    """Return a judge in this process; the good training is run and measured when the first point is judged."""
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
    request: EndpointsRequest, sides: Endpoints, session: Session, items: list[str], judge_point: JudgePoint
) -> Trials[Run]:
    def judge(run: Run) -> Judgement:
        judgement = judge_point(*run)
        if judgement.outcome != "pass" or run[1] == request.steps:
            return judgement
        return replace(judgement, detail=f"{judgement.detail}, in {counted(run[1], 'step')}")

    def key(run: Run) -> str:
        steps = "" if run[1] == request.steps else f" in {counted(run[1], 'step')}"
        return " ".join(sorted(run[0])) + steps

    searched = {
        "good": sides.good.digest(), "bad": sides.bad.digest(), "steps": request.steps, "items": items,
        "defect": request.defect,
    }  # fmt: skip
    return session.trials("pairs", judge, searched=searched, root=sides.root, key=key, label=lambda run: _label(run[0]))


def _label(point: Point) -> str:
    return ", ".join(sorted(point)) or "no change"


def _finding(
    request: EndpointsRequest,
    sides: Endpoints,
    trials: Trials[Run],
    steps: int,
    sets: MinimalSets,
    later: Judgement | None,
) -> SearchFinding:
    """Describe what a search found.

    Args:
        later: of all choices that are in no minimal set, over all steps.
    """
    how = sides.differing()
    rest = frozenset(how).difference(*sets.minimal)
    words = [_words(choices, how) for choices in sets.minimal]
    sentence = f"{'; and '.join(words)}: {trials.signature}" if words else "no set of choices was found that fails"
    notes = [] if sets.whole else [f"the limit of {len(trials.tried)} sets came first; there may be other causes"]
    for failing, larger in sets.contradictions[:3]:
        notes.append(f"{_label(failing)} fails and {_label(larger)} passes: a change in it heals")
    if later is not None and later.outcome == "fail":
        sentence += f"; another cause is among the others, {_label(rest)}: {later.signature}"
        notes += _search_of_the_rest(request, sides, sets)
    notes += sorted(trials.unjudged("ambiguous"))
    first = sets.minimal[0] if sets.minimal else frozenset()
    run = first, steps if len(first) < len(how) else request.steps  # all choices together are an end
    return trials.finding(
        found=bool(sets.minimal),
        sentence=sentence,
        culprits=tuple(tuple(sorted(choices)) for choices in sets.minimal),
        witness=_witness(trials.known(run)) if first else "",
        replay=replay(request, first),
        least=least_runs(len(how)),
        skipped=trials.unjudged(),
        notes=tuple(notes),
        detail={
            "good": sides.good.name,
            "bad": sides.bad.name,
            "choices": how,
            "whole": sets.whole,
            "later": None if later is None else {"choices": sorted(rest), "judgement": later},
        },
    )


def replay(request: EndpointsRequest, choices: Point) -> str:
    """Return the command that judges one set of choices."""
    return again("pairs", *request.words(), only=",".join(sorted(choices)) or None)


def _search_of_the_rest(request: EndpointsRequest, sides: Endpoints, sets: MinimalSets) -> list[str]:
    """Return the command that searches for another cause, with known causes replaced by good sides."""
    known = sorted({name for choices in sets.minimal for name in choices})
    if request.defect is not None or not set(known) <= set(sides.names()):
        return []
    choices = (*request.choices, *(f"{name}={sides.good_side(name)}" for name in known))
    words = replace(request, choices=choices).words()
    return [f"the other cause is searched for by: {again('pairs', *words)}"]


def _single_set(request: EndpointsRequest, point: Point, how: dict[str, str], trials: Trials[Run]) -> SearchFinding:
    run = point, request.steps
    outcome = trials(run)
    judgement = trials.known(run)
    failed = outcome == "fail"
    sentence = f"{_words(point, how)}: {judgement.signature or judgement.detail}"
    return trials.finding(
        found=failed,
        sentence=sentence if failed else f"{_label(point)}: {judgement.detail}",
        culprits=(tuple(sorted(point)),) if failed else (),
        witness=_witness(judgement) if failed else "",
        replay=replay(request, point),
        skipped=(judgement.detail,) if outcome in ("untestable", "ambiguous") else (),
    )


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
