"""The verdicts of the checks on each side of a formula, and which of them are wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.check.prove_points import prove_points
from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.contract import DIRECTIONS, Direction
from samebits.schema.finding import Finding
from tests.check.corpus.formula import Formula, Function


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Where a formula is tried: the product of these."""

    dtypes: tuple[str, ...]
    seeds: int = 1
    directions: tuple[Direction, ...] = DIRECTIONS


def checked(formula: Formula, sides: Mapping[str, Function], asked: Asked) -> dict[str, list[Finding]]:
    """The results of `check` by variant."""
    pair = formula.pair(sides, asked.seeds)
    request = Request(variants=tuple(sides), dtypes=asked.dtypes, directions=_directions(formula, asked), full=True)
    points = plan(pair, request, devices=1).points
    programs = Programs(threads=2)
    try:
        with _all_digits():
            results = list(run_points(pair, Locator(name=pair.name), points, programs))
    finally:
        programs.close()
    return {name: [result for result in results if result.place.variant == name] for name in sides}


@contextlib.contextmanager
def _all_digits() -> Iterator[None]:
    """A TPU and a GPU take float32 products in fewer digits by default: one in the place of a sum loses accuracy there.

    Of all threads, unlike `jax.default_matmul_precision`; not on a CPU, which takes all digits anyway.
    """
    import jax

    config: Any = jax.config  # its settings are not among its annotations
    before = config.jax_default_matmul_precision
    if jax.default_backend() != "cpu":
        jax.config.update("jax_default_matmul_precision", "highest")
    try:
        yield
    finally:
        jax.config.update("jax_default_matmul_precision", before)


def alarms(formula: Formula, asked: Asked, honest: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
    """The honest rewrites that `check` rejects: `rewrite dtype direction`, and what it said at the first seed."""
    sides = {name: side for name, side in formula.honest.items() if honest is None or name in honest}
    seen = set()
    for name, results in checked(formula, sides, asked).items():
        assert results, f"'{name}' was not run"
        for result in results:
            where = f"{name} {result.place.dtype} {result.place.direction}"
            if not result.ruling.ok and where not in seen:
                seen.add(where)
                yield (
                    where,
                    f"{result.place.case} {result.place.leaf}: {result.ruling.verdict}, "
                    f"{result.ruling.evidence or result.ruling.reason}",
                )


def greens(formula: Formula, asked: Asked, twins: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
    """The twins that `check` calls different nowhere: `twin dtype`, and what it said instead, for each seed alone.

    A slip that is in the gradient alone is equal forward, so that the gradient is asked for only then.
    """
    left = {name: side for name, side in formula.twins.items() if twins is None or name in twins}
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for direction in DIRECTIONS:
        if direction in _directions(formula, asked) and left:
            narrow = Asked(dtypes=asked.dtypes, seeds=asked.seeds, directions=(direction,))
            for name, results in checked(formula, left, narrow).items():
                for result in results:
                    found.setdefault((name, result.place.case, result.place.dtype), []).append(result)
        left = {name: side for name, side in left.items() if any(_equal(r, name) for r in found.items())}
    for (name, case, dtype), results in found.items():
        if not any(result.ruling.verdict == "different" for result in results):
            said = "; ".join(
                f"{r.place.direction} {r.place.leaf}: {r.ruling.verdict}, {r.ruling.evidence or r.ruling.reason}"
                for r in results
            )
            yield f"{name} {dtype}", f"{case}: {said}"


def _equal(found: tuple[tuple[str, str, str], list[Finding]], name: str) -> bool:
    key, results = found
    return key[0] == name and not any(result.ruling.verdict == "different" for result in results)


def proofs(formula: Formula, asked: Asked) -> Iterator[tuple[str, str]]:
    """Where `prove` is wrong: a rewrite that it refutes, or a twin all of whose leaves it accepts."""
    sides = dict(formula.sides())
    pair = formula.pair(sides, asked.seeds)
    request = Request(variants=tuple(sides), dtypes=asked.dtypes, directions=_directions(formula, asked), full=True)
    arguments: dict[tuple[str, str, str], list[Any]] = {}
    for one in prove_points(pair, Locator(name=pair.name), plan(pair, request, devices=1)):
        arguments.setdefault((one.place.variant, one.place.case, one.place.dtype), []).append(one)
    for (name, case, dtype), found in arguments.items():
        if name in formula.honest:
            for one in found:
                if one.ruling.verdict == "different":
                    yield (
                        f"{name} {dtype} {one.place.direction}",
                        f"{case} {one.place.leaf}: refuted, {one.proof.refutation or one.ruling.reason}",
                    )
        elif all(one.ruling.ok for one in found):
            yield (
                f"{name} {dtype}",
                f"{case}: accepted, {'; '.join(f'{one.place.leaf}: {one.ruling.verdict}' for one in found)}",
            )


def _directions(formula: Formula, asked: Asked) -> tuple[str, ...]:
    return tuple(d for d in asked.directions if d == "forward" or formula.gradients)
