"""The pairs of a request, and which part of it each can answer; a name that no pair has is an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from samebits.cli.pipeline import CommandRun
from samebits.cli.supervision import importing
from samebits.errors import DeclarationError, MeshError, RequestError, SamebitsError
from samebits.host.interrupts import Stop
from samebits.programs.catalogue import Locator, default_root, load, names, suggest
from samebits.programs.implementations import implementation
from samebits.programs.other_sizes import read_sizes, sizes_text
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.schema.contract import DIRECTIONS
from samebits.schema.finding import Finding, at
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair, require_axes
from samebits.schema.result import Problem
from samebits.user_errors import one_line, retain

FILTERS = {
    "variants": "variant",
    "cases": "case",
    "dtypes": "dtype",
    "meshes": "mesh",
    "modes": "mode",
    "directions": "direction",
}
"""The fields of a request, and the option that fills each."""


def load_pairs(
    named: Sequence[str], root: Path | None, run: CommandRun, sizes: Sequence[str] = (), **how: str
) -> list[tuple[Locator, Pair]]:
    """Load the declarations of pairs; those that are wrong become problems, and the others go on.

    Args:
        named: names or shell patterns of pairs, or `module:PAIR`; empty means all of the tree.
        root: the tree, or None for the current one.
        sizes: other sizes than the declared ones.
        how: the target whose compiler's programs take the place of the variants, and how these take products.
    """
    others = sizes_text(read_sizes(sizes))
    declared: list[tuple[Locator, Pair]] = []
    for name in dict.fromkeys(_expanded(named, root)) or names(root or default_root()):
        tree = None if ":" in name or root is None else str(root)
        locator = Locator(name=name, root=tree, sizes=others, **how)
        try:
            with _declaring(name):
                pair = load(locator)
            double = next((other.name for other, before in declared if before.name == pair.name), None)
            if double is not None:
                raise RequestError(f"'{double}' declares a pair of the same name '{pair.name}'; check them in two runs")
            declared.append((locator, pair))
        except SamebitsError as error:
            run.problem(problem_of(locator.name, error))
    return declared


@contextlib.contextmanager
def _declaring(name: str) -> Iterator[None]:
    """Import a pair inside, and call functions of its declaration, which may raise what Ctrl-C raises."""
    with importing(name):
        try:
            yield
        except KeyboardInterrupt as error:
            if Stop.caused(error):
                raise
            raise DeclarationError(f"pair '{name}': its declaration {one_line(error)}") from error


def _expanded(named: Sequence[str], root: Path | None) -> list[str]:
    """Return names, with every shell pattern replaced by the pairs of the tree that it matches."""
    expanded: list[str] = []
    for name in named:
        if ":" in name or not set("*?[") & set(name):
            expanded.append(name)
            continue
        known = names(root or default_root())
        matching = [pair for pair in known if fnmatchcase(pair, name)]
        if not matching:
            raise RequestError(f"no pair matches '{name}'; expected some of {', '.join(known)}")
        expanded += matching
    return expanded


def problem_of(pair: str, error: SamebitsError) -> Problem:
    """Return an error of a pair as a problem of the command."""
    retain(error.__cause__)
    return Problem(pair=pair, message=str(error), exit_code=error.exit_code)


def plans(run: CommandRun, pairs: Sequence[tuple[Locator, Pair]], request: Request, devices: int) -> list[LoadedPair]:
    """Plan what will run of each pair; those that are wrong become problems, and the others go on.

    A filter that only other pairs can answer leaves a pair out, with a note; `--variant structured` need not be
    repeated for every pair that has it.
    """
    narrowed = {field: _takers(field, [pair for _, pair in pairs], request, devices) for field in FILTERS}
    loaded, problems, left_out = [], [], []
    for index, (locator, pair) in enumerate(pairs):
        answered: dict[str, Any] = {field: takers[index] for field, takers in narrowed.items()}
        lacking = next((field for field, names in answered.items() if getattr(request, field) and not names), None)
        try:
            if lacking is not None:
                filters = " ".join(f"--{FILTERS[lacking]} {name}" for name in getattr(request, lacking))
                raise RequestError(f"pair '{pair.name}' has nothing that fits {filters}")
            with _declaring(locator.name):  # the functions of both sides, too
                planned = plan(pair, replace(request, **answered), devices)
            loaded.append(LoadedPair(locator=locator, pair=pair, plan=planned))
        except RequestError as error:
            left_out.append(error)
        except SamebitsError as error:
            problems.append(problem_of(locator.name, error))
    if left_out and not loaded:
        raise left_out[0]
    for problem in problems:
        run.problem(problem)
    run.notes += [f"left out: {error}" for error in left_out]
    run.pairs = [item.pair for item in loaded]
    return loaded


def in_order_of(loaded: Sequence[LoadedPair], results: Iterable[Finding]) -> list[Finding]:
    """Sort results into the order of the plans: workers end in any order, and a command gives the same document."""
    order = {
        at(item.pair.name, point, ""): (first, second)
        for first, item in enumerate(loaded)
        for second, point in enumerate(item.plan.points)
    }
    return sorted(results, key=lambda result: order[result.place.whole])


def import_sides(loaded: Sequence[LoadedPair]) -> None:
    """Import the functions of all sides, each while its pair is named to the process that supervises this one."""
    for item in loaded:
        with importing(item.locator.name):
            for side in item.pair.sides:
                with contextlib.suppress(SamebitsError):  # said where the point runs
                    implementation(item.pair, side)


def _takers(field: str, pairs: Sequence[Pair], request: Request, devices: int) -> list[tuple[str, ...]]:
    """Return for each pair the names of a filter that it can answer."""
    takers: list[tuple[str, ...]] = [()] * len(pairs)
    for name in getattr(request, field):
        having = [_has(pair, field, name) for pair in pairs]
        if pairs and not any(having):
            _reject(field, name, pairs)
        if field == "meshes" and not _is_pattern(name):
            MeshSpec.parse(name).require(devices)
        takers = [(*names, name) if has else names for names, has in zip(takers, having, strict=True)]
    return takers


def _has(pair: Pair, field: str, name: str) -> bool:
    if any(fnmatchcase(known, name) for known in _known(pair, field)):
        return True
    # A mesh that a pair does not list runs all the same where the pair knows its axes.
    return field == "meshes" and not _is_pattern(name) and set(MeshSpec.parse(name).names) <= set(pair.axes)


def _known(pair: Pair, field: str) -> tuple[str, ...]:
    lists: dict[str, tuple[str, ...]] = {
        "variants": pair.sides,
        "cases": tuple(case.id for case in pair.cases),
        "dtypes": pair.dtypes,
        "meshes": pair.meshes + pair.wide_meshes,
        "modes": pair.all_modes,
        "directions": DIRECTIONS,
    }
    return lists[field]


def _reject(field: str, name: str, pairs: Sequence[Pair]) -> None:
    who = f"pair '{pairs[0].name}'" if len(pairs) == 1 else "no pair"
    if field == "meshes" and not _is_pattern(name):
        if len(pairs) == 1:
            require_axes(pairs[0], MeshSpec.parse(name))
        axes = dict.fromkeys(axis for pair in pairs for axis in pair.axes)
        raise MeshError(f"mesh '{name}': {who} knows all of its axes; the axes known are {', '.join(axes) or 'none'}")
    known = list(dict.fromkeys(known for pair in pairs for known in _known(pair, field)))
    has = "has no" if len(pairs) == 1 else "has the"
    raise RequestError(f"{who} {has} {FILTERS[field]} '{name}'; {suggest(name, known)}")


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")
