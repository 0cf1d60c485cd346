"""The smallest mesh, the smallest sizes and the fewest inputs with which a variant still differs from its reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samebits.bisect.pair_runner import Spot, SpotJudge, SpotRunner, parse_entry
from samebits.bisect.point import PointRequest, devices_here, point_of
from samebits.bisect.result import Finding, Session, command, counted, tree_digest
from samebits.bisect.search.shrink import smallest
from samebits.bisect.search.smaller_sizes import smaller_axes, smaller_sizes
from samebits.bisect.search.sparse_inputs import fewest_inputs
from samebits.bisect.search.trials import Trials, TriedPoint
from samebits.errors import CouldNotRun
from samebits.host import environment
from samebits.host.environment import flags_header
from samebits.programs.catalogue import Locator, default_root, load
from samebits.schema.meshes import MeshSpec

SHOWN = 6
"""Inputs that a sentence names one by one."""


def bisect_mesh(asked: PointRequest, session: Session) -> Finding:
    """Shrink a failing point: the mesh, then the sizes, then the inputs.

    Raises:
        RequestError: a name is unknown, or the point cannot be judged.
        NothingFails: the point passes.
        CouldNotRun: it does not repeat.
    """
    from samebits.programs.program_cache import Programs

    root = asked.root or default_root()
    locator = Locator(name=asked.pair, root=None if asked.root is None else str(asked.root))
    pair = load(locator)
    programs = Programs()
    bench = SpotJudge(pair, locator, point_of(pair, asked), programs, asked.leaf)
    try:
        start = bench.start(asked.sizes)
        MeshSpec.parse(start.mesh).require(devices_here())
        if asked.label is not None or asked.values:
            return _one_input(asked, bench, start)
        trials = session.trials(
            bench.judge,
            searched={
                "what": "mesh",
                "point": str(bench.point),
                "pair": asked.pair,
                "leaf": asked.leaf,
                "tree": tree_digest(root),
                "in": flags_header(""),
            },
        )
        trials.end(start)
        bench.wanted = trials.signature
        if asked.only:
            return _finding(asked, bench, trials, start, None)
        spot = smallest(start, _less_mesh, trials.fails)
        control = control_of(trials.tried, [one.mesh for one in _less_mesh(spot)])
        spot = smallest(spot, lambda now: _less_of_both(now, trials), lambda now: _still(now, control, trials))
        return _finding(asked, bench, trials, spot, _values(bench, spot, session))
    finally:
        programs.close()


def _less_mesh(spot: Spot) -> Iterator[Spot]:
    for axes in smaller_axes(MeshSpec.parse(spot.mesh).axes):
        yield Spot(mesh=MeshSpec(axes=axes).id, sizes=spot.sizes)


def _less_of_both(spot: Spot, trials: Trials[Spot]) -> Iterator[Spot]:
    """Sizes, and once more meshes: smaller sizes may fit a mesh that larger ones did not."""
    for sizes in smaller_sizes(dict(spot.sizes)):
        yield Spot(mesh=spot.mesh, sizes=tuple(sizes.items()))
    passed = {mesh_of(one) for one in trials.tried if one.outcome == "pass"}
    yield from (one for one in _less_mesh(spot) if one.mesh not in passed)


def _still(spot: Spot, control: str | None, trials: Trials[Spot]) -> bool:
    """Whether it is the same that fails: the mesh that passed before the sizes shrank must not fail with them too.

    Else they leave the domain of the component, as where a routing names experts that are no longer there.
    """
    return trials.fails(spot) and (control is None or not trials.fails(replace(spot, mesh=control)))


def mesh_of(trial: TriedPoint) -> str:
    """The mesh of a row of the table."""
    return trial.point.split(",")[0]


def control_of(tried: Sequence[TriedPoint], nearest: Sequence[str]) -> str | None:
    """A mesh that passed: the last of the nearest, which is the largest, if one of them did."""
    passed = [mesh_of(one) for one in tried if one.outcome == "pass"]
    return next((mesh for mesh in reversed(nearest) if mesh in passed), passed[0] if passed else None)


def failing_controls(tried: Sequence[TriedPoint], mesh: str) -> list[TriedPoint]:
    """Failures on another mesh, which passes with other sizes."""
    passed = {mesh_of(one) for one in tried if one.outcome == "pass"} - {mesh}
    return [one for one in tried if one.outcome == "fail" and mesh_of(one) in passed]


@dataclass(frozen=True, kw_only=True, slots=True)
class _FewestInputs:
    """The inputs that are left: of which label, which elements, out of how many; and where the sides differ."""

    label: str
    entries: Mapping[str, Any]
    before: int
    tried: int
    witness: str
    kept: tuple[str, ...]


def _values(bench: SpotJudge, spot: Spot, session: Session) -> _FewestInputs | str:
    """The fewest inputs at a spot, or why there are none."""
    result = bench.found.get(spot)
    if result is None:  # the journal knew it
        bench.judge(spot)
        result = bench.found[spot]
    leaf = result.leaf.split(" (replica")[0]
    label = (result.witness or {}).get("input")
    try:
        run = SpotRunner(bench, spot)
        if label not in run.labels:
            return f"the inputs were not shrunk: '{result.leaf}' differs {result.kind or ''} and not on one input"
        session.say("inputs")
        start = {one.path: one for one in run.compare(run.arrays(label))}
        if leaf not in start or start[leaf].equal:
            return f"the inputs were not shrunk: '{leaf}' does not differ when it is run alone"
        kind = start[leaf].kind

        def fails(entries: Mapping[str, Any]) -> bool:
            found = {one.path: one for one in run.compare(run.having(label, entries))}
            return leaf in found and found[leaf].kind == kind

        entries = run.entries(label)
        arrays = {name: [e for e in entries if parse_entry(e)[0] == name] for name in run.arrays(label)}
        if not fails(entries):
            return f"the inputs were not shrunk: '{leaf}' does not differ ({kind}) once special values are numbers"
        found = fewest_inputs(entries, fails, groups=arrays, allowed=lambda e, v: run.allowed(parse_entry(e)[0], v))
        last = {one.path: one for one in run.compare(run.having(label, found.entries))}[leaf]
    except CouldNotRun as error:
        return f"the inputs were not shrunk: {error}"
    return _FewestInputs(
        label=label,
        entries=found.entries,
        before=len(entries),
        tried=found.looks,
        witness=str(last.witness or last.detail or last.kind),
        kept=tuple(name for name, array in run.arrays(label).items() if run.fixed(name, array)),
    )


def _one_input(asked: PointRequest, bench: SpotJudge, spot: Spot) -> Finding:
    """The point on one input, as a replay gives it."""
    run = SpotRunner(bench, spot)
    label = asked.label or run.labels[0]
    arrays = run.having(label, asked.values)
    differing = [one for one in run.compare(arrays) if not one.equal and asked.leaf in (None, one.path)]
    where = f"'{bench.point.variant}' of {asked.pair} on {spot}, {_words(asked.values)}"
    if not differing:
        return Finding(what="mesh", found=False, sentence=f"{where}: the same bits as its reference")
    first = differing[0]
    return Finding(
        what="mesh",
        found=True,
        sentence=f"{where}: {first.mismatches} of {first.elements} elements of '{first.path}' differ ({first.kind})",
        culprits=((spot.mesh, *(f"{name}={size}" for name, size in spot.sizes)),),
        witness=str(first.witness or first.detail),
        replay=_replay(asked, bench, spot, label, asked.values),
        runs=1,
    )


def _finding(
    asked: PointRequest, bench: SpotJudge, trials: Trials[Spot], spot: Spot, least: _FewestInputs | str | None
) -> Finding:
    signature, notes, skipped = trials.signature or "", [], [one for one in trials.tried if one.outcome == "untestable"]
    inputs, witness = "", ""
    if isinstance(least, _FewestInputs):
        inputs, witness = f", {_words(least.entries)}", least.witness
        notes.append(
            f"inputs: {len(least.entries)} of {least.before} elements ({least.label}) are left, "
            f"{counted(least.tried, 'input')} tried"
            + (f"; kept as they are: {', '.join(least.kept)}" if least.kept else "")
        )
    else:
        notes += [least] if least else []
        result = bench.found.get(spot)
        told = result.witness if result is not None else None
        if told is not None:
            witness = _witness(told)
    if skipped:
        why = skipped[0]
        notes.append(
            f"{counted(len(skipped), 'smaller point')} could not be judged; the first, {why.point}: {why.detail}"
        )
    others = failing_controls(trials.tried, spot.mesh)
    if others:
        notes.append(
            f"{counted(len(others), 'smaller point')} failed on a mesh that passes with larger sizes too, so in "
            f"another way, and were not taken: {others[0].point}"
        )
    less = [str(one) for one in _less_mesh(spot)]
    passing = [mesh_of(one) for one in trials.tried if one.point in less and one.outcome == "pass"]
    passes = f"; it passes on {' and '.join(dict.fromkeys(passing))}" if passing else ""
    entries = least.entries if isinstance(least, _FewestInputs) else {}
    return Finding(
        what="mesh",
        found=True,
        sentence=f"'{bench.point.variant}' of {asked.pair} still fails ({signature}) on {spot}{inputs}{passes}",
        culprits=((spot.mesh, *(f"{name}={size}" for name, size in spot.sizes)),),
        witness=witness,
        replay=_replay(asked, bench, spot, least.label if isinstance(least, _FewestInputs) else None, entries),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        notes=tuple(notes),
        detail={"mesh": spot.mesh, "sizes": dict(spot.sizes), "inputs": dict(entries), "signature": signature},
    )


def _words(entries: Mapping[str, Any]) -> str:
    """Inputs as a sentence has them."""
    if not entries:
        return "all inputs zero"
    named = [f"{name}={value:g}" for name, value in list(entries.items())[:SHOWN]]
    more = ", ..." if len(entries) > SHOWN else ""
    return f"{counted(len(entries), 'nonzero input')}: {', '.join(named)}{more}"


def _witness(told: Mapping[str, Any]) -> str:
    place = f"{told['leaf']}[{', '.join(map(str, told['index']))}]" if told["index"] else told["leaf"]
    return (
        f"{place}: reference={told['reference']} ({told['reference_hex']}), "
        f"optimized={told['optimized']} ({told['optimized_hex']}), input '{told.get('input')}'"
    )


def _replay(asked: PointRequest, bench: SpotJudge, spot: Spot, label: str | None, entries: Mapping[str, Any]) -> str:
    point = bench.point
    words = ["samebits", "bisect", "mesh", asked.pair]
    for name in ("variant", "case", "dtype", "mode", "direction"):
        words += [f"--{name}", getattr(point, name)]
    words += ["--mesh", spot.mesh, *(["--leaf", asked.leaf] if asked.leaf else [])]
    for name, size in spot.sizes:
        words += ["--size", f"{name}={size}"]
    if label is not None:
        words += ["--input", label]
    for name, value in entries.items():
        words += ["--value", f"{name}={value!r}"]
    if MeshSpec.parse(spot.mesh).devices > environment.DEVICES:
        words += ["--devices", str(MeshSpec.parse(spot.mesh).devices)]
    if asked.root is not None and asked.root.resolve() != Path.cwd():
        words += ["--root", str(asked.root)]
    return command(*words, "--only")
