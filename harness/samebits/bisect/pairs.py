"""Which choices make two trainings part: all minimal sets of them, per pair and per layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.result import Finding, Session, command, tree_digest
from samebits.bisect.search.history import least_runs
from samebits.bisect.search.judgement import Judgement
from samebits.bisect.search.minimal_sets import MinimalSets, minimal_sets
from samebits.bisect.search.trials import Trials
from samebits.errors import RequestError

if TYPE_CHECKING:
    from samebits.bisect.trainings import Trainings

Point = frozenset[str]


def bisect_pairs(asked: EndpointsRequest, session: Session, only: Sequence[str] = (), most: int = 200) -> Finding:
    """The choices that make the bad training part from the good one.

    Args:
        asked: the two trainings.
        session: how the search runs.
        only: judge this one set of choices, and search nothing.
        most: sets that are looked at.

    Raises:
        RequestError: nothing can be searched for as asked.
        NothingFails: the bad training does not part from the good one.
    """
    sides = endpoints_of(asked)
    how = sides.differing()
    for name in only:
        if name not in how:
            raise RequestError(f"--only {name}: the two trainings do not differ there; they do in {', '.join(how)}")
    from samebits.bisect.trainings import Trainings

    trainings = Trainings(sides.model, sides.root, sides.good, asked.steps)
    trials = _trials(asked, sides, session, sorted(how), trainings)
    if only:
        return _one(asked, frozenset(only), how, trials)
    items = list(how)
    end = trials.ends(frozenset(), frozenset(items))
    trainings.steps = int(end.numbers["step"])  # Later steps tell nothing of this failure.
    found = minimal_sets(items, trials.fails, most)
    return _finding(asked, sides, how, trials, found)


def _trials(
    asked: EndpointsRequest, sides: Endpoints, session: Session, items: list[str], trainings: Trainings
) -> Trials[Point]:
    from samebits.host import environment

    def judge(point: Point) -> Judgement:
        return trainings.look(*sides.mixture(point))

    searched = {
        "what": "pairs", "good": sides.good.digest(), "bad": sides.bad.digest(), "steps": asked.steps, "items": items,
        "defect": asked.defect, "tree": tree_digest(sides.root), "versions": dict(environment.capture().versions),
    }  # fmt: skip
    return session.trials(judge, searched=searched, key=lambda point: " ".join(sorted(point)), label=_label)


def _label(point: Point) -> str:
    return ", ".join(sorted(point)) or "no change"


def _finding(
    asked: EndpointsRequest, sides: Endpoints, how: dict[str, str], trials: Trials[Point], found: MinimalSets
) -> Finding:
    words = [_words(one, how) for one in found.minimal]
    sentence = f"{'; and '.join(words)}: {trials.signature}" if words else "no set of choices was found that fails"
    notes = [] if found.whole else [f"the limit of {len(trials.tried)} sets came first; there may be other causes"]
    for failing, larger in found.contradictions[:3]:
        notes.append(f"{_label(failing)} fails and {_label(larger)} passes: a change in it heals")
    notes += sorted({f"{t.point}: {t.detail}" for t in trials.tried if t.outcome == "ambiguous"})
    first = found.minimal[0] if found.minimal else frozenset()
    return Finding(
        what="pairs",
        found=bool(found.minimal),
        sentence=sentence,
        culprits=tuple(tuple(sorted(one)) for one in found.minimal),
        witness=_witness(trials.known(first)) if first else "",
        replay=command("samebits", "bisect", "pairs", *asked.words(), "--only", ",".join(sorted(first))),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        least=least_runs(len(how)),
        skipped=tuple(f"{t.point}: {t.detail}" for t in trials.tried if t.outcome == "untestable"),
        notes=tuple(notes),
        detail={"good": sides.good.name, "bad": sides.bad.name, "choices": how, "whole": found.whole},
    )


def _one(asked: EndpointsRequest, point: Point, how: dict[str, str], trials: Trials[Point]) -> Finding:
    outcome = trials(point)
    look = trials.known(point)
    return Finding(
        what="pairs",
        found=outcome == "fail",
        sentence=f"{_words(point, how)}: {look.signature or look.detail}"
        if outcome == "fail"
        else f"{_label(point)}: {look.detail}",
        culprits=(tuple(sorted(point)),) if outcome == "fail" else (),
        witness=_witness(look) if outcome == "fail" else "",
        replay=command("samebits", "bisect", "pairs", *asked.words(), "--only", ",".join(sorted(point))),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        skipped=(look.detail,) if outcome in ("untestable", "ambiguous") else (),
    )


def _words(one: Point, how: dict[str, str]) -> str:
    names = [f"{name} ({how[name]})" for name in sorted(one)]
    if len(names) == 1:
        return f"{names[0]} alone makes the training part"
    return f"{' and '.join(names)} make it part only together"


def _witness(look: Judgement) -> str:
    n = look.numbers
    return (
        f"{n['leaf']} at step {n['step']} is off by {n['distance']:.3g}, its bound is {n['bound']:.3g}; "
        f"loss {n['good_loss']} becomes {n['loss']}"
    )
