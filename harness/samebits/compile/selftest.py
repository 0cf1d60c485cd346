"""The self-test of counts and digests on planted programs, run before their results are used."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from samebits.compile.cache import Artefact
from samebits.compile.compiler import Lowered, compile_artefact, facts_of, lower
from samebits.compile.devices import target_mesh
from samebits.errors import CheckerBroken
from samebits.schema.program_facts import Facts

_TARGET = "cpu"


def check_compiled() -> None:
    """Apply counts and digests to planted programs, before every pair; these are compiled once, for the CPU.

    Raises:
        CheckerBroken: different programs have equal digests, equal programs have different digests, or a loop of trip
            count three or a gather is not counted.
    """
    facts = {name: facts_of(artefact, (0,), cached=False) for name, artefact in _planted().items()}
    honest = facts["honest"]
    for name in ("another constant", "another comparison", "a reduction of another dimension"):
        if facts[name].program == honest.program or facts[name].unordered == honest.unordered:
            raise CheckerBroken(f"a program with {name} has the original's digest; equal digests prove nothing")
    if facts["other names"].program != honest.program:
        raise CheckerBroken("programs that differ in names and order alone have different digests; none would be equal")
    _check_counts("a scan of trip count three", facts["a scan"], while_loops=1, loop_turns=3)
    _check_counts("a gather", facts["a gather"], gathers=1)


def _check_counts(what: str, facts: Facts, **least: int) -> None:
    got = {name: getattr(facts, name) for name in least}
    if any((got[name] or 0) < number for name, number in least.items()):
        raise CheckerBroken(f"{what} is counted as {got}, expected at least {least}; no count can be trusted")


@functools.cache
def _planted() -> dict[str, Artefact]:
    import jax.numpy as jnp
    from jax import lax

    def honest(x: Any, constant: float = 2.0, less: Callable[..., Any] = jnp.less, axis: int = 0) -> Any:
        return jnp.where(less(x, 0.5), x * constant, x).sum(axis)

    def renamed(other: Any) -> Any:
        doubled, small = other * 2.0, other < 0.5
        return jnp.where(small, doubled, other).sum(0)

    functions: dict[str, Callable[[Any], Any]] = {
        "honest": lambda x: honest(x),
        "other names": renamed,
        "another constant": lambda x: honest(x, constant=2.0000002),
        "another comparison": lambda x: honest(x, less=jnp.less_equal),
        "a reduction of another dimension": lambda x: honest(x, axis=1),
        "a scan": lambda x: lax.scan(lambda carry, _: (jnp.sin(carry) @ carry, None), x, None, length=3)[0],
        "a gather": lambda x: x[x[:3, 0].astype(jnp.int32)],
    }
    return {name: compile_artefact(_lowered(function), {}) for name, function in functions.items()}


def _lowered(function: Callable[[Any], Any]) -> Lowered:
    import jax
    import jax.numpy as jnp

    mesh = target_mesh(_TARGET, "data1")
    shape = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    return lower(function, shape, mesh=mesh, target=_TARGET, label="a planted program:")
