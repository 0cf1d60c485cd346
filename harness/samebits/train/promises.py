"""Decides whether the contracts of a pair promise equal bits between two sides in a training run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from samebits.check.judge import where
from samebits.check.traced_points import PointInterpreter, point_interpreter
from samebits.errors import CouldNotRun, DeclarationError
from samebits.schema.contract import DIRECTIONS, Contract
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config
from samebits.schema.pair import Pair
from samebits.schema.point import Point


def promises_bits(pair: Pair, sides: Iterable[str], config: Config) -> bool:
    """Return whether the contracts promise the reference's bits for each side, in every case, direction and leaf.

    Args:
        pair: the declaration.
        sides: the sides that two runs use.
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
