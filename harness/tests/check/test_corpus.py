"""Standard formulas: an honest rewrite never fails its check, and an unequal twin always does."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from samebits.check.prove_points import prove_points
from samebits.check.run_points import run_points
from samebits.host import environment
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.contract import DIRECTIONS, Direction
from samebits.schema.finding import Finding
from tests.check.corpus import FORMULAS
from tests.check.corpus.formula import DTYPES, SEEDS, Formula, Function
from tests.check.corpus.known import ALARMS, REFUTED

environment.prepare()

# The tests of a formula share its programs; those of all formulas take one worker of xdist most of an hour.
EVERY = pytest.mark.parametrize(
    "formula", [pytest.param(f, id=f.name, marks=pytest.mark.xdist_group(f"corpus, {f.name}")) for f in FORMULAS]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Where a formula is tried: the product of these."""

    dtypes: tuple[str, ...]
    seeds: int = 1
    directions: tuple[Direction, ...] = DIRECTIONS


WHOLE = Asked(dtypes=DTYPES, seeds=SEEDS)


def one_point(formula: Formula) -> Asked:
    """One dtype and one direction of the first seed, spread evenly over the formulas."""
    number = FORMULAS.index(formula)
    direction = DIRECTIONS[number // 2 % 2 if formula.gradients else 0]
    return Asked(dtypes=(formula.dtypes[number % len(formula.dtypes)],), directions=(direction,))


def held(formula: Formula, found: Iterable[tuple[str, str]], known: dict[str, str], ran: Iterable[str] = ()) -> None:
    """Fail on a wrong verdict that is not known, and on a known one that has become right."""
    wrong = {f"{formula.name}/{where}": said for where, said in found}
    new = [f"{where}: {said}" for where, said in wrong.items() if where not in known]
    assert not new, "\n".join(["wrongly judged:", *new])
    listed = [where for where in known if where.startswith(f"{formula.name}/") and where.endswith(tuple(ran) or "")]
    right = [where for where in listed if where not in wrong]
    assert not right, f"these are judged rightly now; remove them from known.py: {right}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("formula", FORMULAS[::2], ids=lambda formula: formula.name)
def test_a_rewrite_holds_at_one_point(formula: Formula) -> None:
    """One rewrite of every second formula: another one for each; the slow tests try them all."""
    asked, names = one_point(formula), list(formula.honest)
    name = names[FORMULAS.index(formula) // 4 % len(names)]
    held(formula, alarms(formula, asked, [name]), ALARMS, [f"/{name} {asked.dtypes[0]} {asked.directions[0]}"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("formula", FORMULAS[::3], ids=lambda formula: formula.name)
def test_a_twin_is_different_at_one_dtype(formula: Formula) -> None:
    """One twin of every third formula; the slow tests plant them all."""
    number = FORMULAS.index(formula)
    asked = dataclasses.replace(one_point(formula), directions=DIRECTIONS)
    assert dict(greens(formula, asked, [list(formula.twins)[number % len(formula.twins)]])) == {}


@pytest.mark.slow
@EVERY
def test_rewrites_hold_over_all_seeds(formula: Formula) -> None:
    held(formula, alarms(formula, WHOLE), ALARMS)


@pytest.mark.slow
@EVERY
def test_every_twin_is_different_over_all_seeds(formula: Formula) -> None:
    assert dict(greens(formula, WHOLE)) == {}


@pytest.mark.slow
@EVERY
def test_no_proof_is_wrong(formula: Formula) -> None:
    held(formula, proofs(formula, dataclasses.replace(WHOLE, seeds=2)), REFUTED)


# --- the corpus itself -----------------------------------------------------------------------------------------------


def test_there_are_sixty_rewrites_and_sixty_twins() -> None:
    assert sum(len(formula.honest) for formula in FORMULAS) >= 60
    assert sum(len(formula.twins) for formula in FORMULAS) >= 60
    assert len({formula.name for formula in FORMULAS}) == len(FORMULAS)
    for formula in FORMULAS:
        assert formula.honest and formula.twins, formula.name
        sides = [formula.reference, *(side for _, side in formula.sides())]
        assert len({id(side) for side in sides}) == len(sides), formula.name
        assert not set(formula.honest) & set(formula.twins), formula.name


def test_a_twin_and_a_rewrite_that_are_swapped_are_found() -> None:
    """The judging itself can fail, in both directions."""
    formula = next(one for one in FORMULAS if one.name == "rms_norm")
    asked = Asked(dtypes=("float32",), directions=("forward",))
    mistaken = dataclasses.replace(formula, honest={"twin": formula.twins["epsilon_ten_times"]})
    ((where, said),) = alarms(mistaken, asked)
    assert where == "twin float32 forward" and "different" in said
    mistaken = dataclasses.replace(formula, twins={"rewrite": formula.honest["quotient"]})
    ((where, _),) = greens(mistaken, asked)
    assert where == "rewrite float32"
    with pytest.raises(AssertionError, match="rms_norm/rewrite float32: seed0"):
        held(formula, greens(mistaken, asked), {})
    with pytest.raises(AssertionError, match="these are judged rightly now"):
        held(formula, [], {"rms_norm/quotient float32 forward": "was red"}, [" float32 forward"])


def test_known_mistakes_name_entries_of_the_corpus() -> None:
    sides = {f"{formula.name}/{name}" for formula in FORMULAS for name, _ in formula.sides()}
    for where, reason in {**ALARMS, **REFUTED}.items():
        assert where.split()[0] in sides and reason.strip(), where


# --- the verdicts of the checks on each side of a formula, and which of them are wrong -------------------------------


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
