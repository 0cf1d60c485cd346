"""Finds the implementations that a configuration chooses, by the names of their pairs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from samebits.check.line_evidence import PointInterpreter, point_interpreter
from samebits.errors import CouldNotRun, DeclarationError
from samebits.host.environment import platform_of_results
from samebits.programs.catalogue import Locator, load, suggest
from samebits.programs.implementations import implementation
from samebits.schema.contract import DIRECTIONS, Contract
from samebits.schema.finding import where
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Model
from samebits.schema.pair import Pair
from samebits.schema.point import Point


# Decides whether the contracts of a pair promise equal bits between two sides in a training run.
def promises_bits(pair: Pair, sides: Iterable[str], config: Config) -> bool:
    """Return whether the contracts promise the reference's bits for each side, in every case, direction and leaf.

    Args:
        config: the configuration of both runs; its dtype, mesh and mode select the contracts.
    """
    points = list(_points(pair, sides, config))
    with contextlib.ExitStack() as stack:
        programs: list[PointInterpreter] = []

        def trace() -> PointInterpreter:
            if not programs:
                programs.append(stack.enter_context(point_interpreter(pair)))
            return programs[0]

        return bool(points) and all(_point_promised(pair, point, trace) for point in points)


def _points(pair: Pair, sides: Iterable[str], config: Config) -> Iterator[Point]:
    """Yield the points whose contracts count; cases with an expected error are left out."""
    mesh = MeshSpec.parse(config.mesh).id
    for side in sorted(sides):
        for case in pair.cases:
            if config.dtype not in (case.dtypes or (config.dtype,)) or side not in (case.variants or (side,)):
                continue
            if case.refusal(side) is None:
                for direction in DIRECTIONS if pair.gradients else DIRECTIONS[:1]:
                    yield Point(
                        variant=side,
                        case=case.id,
                        dtype=config.dtype,
                        mesh=mesh,
                        mode=config.shard_mode,
                        direction=direction,
                    )


def _point_promised(pair: Pair, point: Point, trace: Any) -> bool:
    """Return whether equal bits are promised for every leaf of a point; sides are traced only if need be."""
    at = where(point)
    if pair.exemption(**at, leaf=None) is not None:
        return False
    possible: list[Contract] = []
    for contract in reversed(pair.contracts):
        if contract.covers(**at, leaf=None):
            possible.append(contract)
            if contract.leaf == "*":
                break
    declared = bool(possible) and possible[-1].leaf == "*"
    answers = {_promises_bits_of_run(contract) for contract in possible}
    if declared and len(answers) == 1:
        return answers.pop()
    try:
        traceable = _declared(pair, point)
        questions = trace().questions(traceable)
        contracts = [pair.contract(**at, leaf=leaf, moves=True) for leaf in questions[0].outputs]
        usual = any(contract not in pair.contracts for contract in contracts)
        return all(map(_promises_bits_of_run, contracts)) and (not usual or trace().moves(traceable))
    except (CouldNotRun, DeclarationError):  # what cannot be traced promises nothing; the check itself says why
        return False


def _declared(pair: Pair, point: Point) -> Point:
    """Return the same point on a declared mesh and mode, where the case can be traced."""
    case = pair.case(point.case)
    meshes, modes = case.meshes or pair.meshes + pair.wide_meshes, case.modes or pair.modes
    mesh = point.mesh if point.mesh in meshes else meshes[0]
    return replace(point, mesh=mesh, mode=point.mode if point.mode in modes else modes[0])


def _promises_bits_of_run(contract: Contract) -> bool:
    """Return whether a contract promises equal bits for the values of a training run.

    These values are finite, but may be -0.0 or subnormal, which the domains of some contracts exclude.
    """
    domain = contract.domain
    kept = domain is None or not (domain.no_negative_zero or domain.no_subnormal)
    return kept and contract.lowest in ("proved", "bitwise")


SAME_RUN = "the same configuration, run twice"
"""Why two runs of one configuration must have equal bits."""


def chosen_parts(model: Model, config: Config, root: Path) -> dict[str, Callable[..., Any]]:
    """Return the chosen function of every pair of a model, and of every site with a choice of its own.

    Args:
        config: its `choice` names sides; pairs without a choice use their reference.

    Raises:
        DeclarationError: a pair or a side is unknown.
    """
    parts = {}
    check_sites(model, config)
    for name in (*model.pairs, *(name for name in config.choice if "@" in name)):
        pair = load(Locator(name=pair_of(name), root=str(root)))
        side = config.choice.get(name, pair.reference_name)
        if side not in pair.sides:
            raise DeclarationError(
                f"config '{config.name}': choice {name}='{side}' is not a side of that pair; "
                f"{suggest(side, list(pair.sides))}"
            )
        parts[name] = implementation(pair, side)
    return parts


def pair_of(name: str) -> str:
    """Return the pair of a name in `choice`: `moe` for `moe@layer2`."""
    return name.partition("@")[0]


def check_sites(model: Model, config: Config) -> None:
    """Check that every choice names a pair of the model, and a site where it is used."""
    sites = model.sites(config)
    for name in config.choice:
        pair, at, site = name.partition("@")
        if pair not in model.pairs:
            known = suggest(pair, list(model.pairs)) if model.pairs else "it has none"
            raise DeclarationError(f"config '{config.name}': choice '{name}' is not a pair of the model; {known}")
        if at and site not in sites.get(pair, ()):
            known = ", ".join(sites.get(pair, ())) or "none; it is used once"
            raise DeclarationError(
                f"config '{config.name}': choice '{name}' names a site that {pair} does not have; its sites are {known}"
            )


def expected_verdict(a: Config, b: Config, root: Path) -> tuple[str, str]:
    """Return the verdict that the contracts of the parts promise for two runs, `bitwise` or `rounding`, and the reason.

    Equal bits are promised if only sides differ, and the contracts promise them for each differing side. Another mesh
    or shard mode changes the order of sums.
    """
    if a.digest() == b.digest():
        return "bitwise", SAME_RUN
    fixed = [name for name in ("mesh", "shard_mode", "dtype", "seed") if getattr(a, name) != getattr(b, name)]
    fixed += [name for name in ("sizes", "options") if dict(getattr(a, name)) != dict(getattr(b, name))]
    if fixed:
        return "rounding", f"another {' and '.join(fixed)}"
    weak = []
    for name in sorted({*a.choice, *b.choice}):
        pair = load(Locator(name=pair_of(name), root=str(root))).on(platform_of_results())
        sides = {side_at(config, name, pair.reference_name) for config in (a, b)}
        if len(sides) > 1 and not promises_bits(pair, {pair.reference_name, *sides}, a):
            weak.append(name)
    return ("rounding", f"contracts of {', '.join(weak)}") if weak else ("bitwise", "contracts of all parts")


def side_at(config: Config, name: str, otherwise: str) -> str:
    """Return the side that a configuration uses of a pair, or at one site of it."""
    return config.choice.get(name, config.choice.get(pair_of(name), otherwise))
