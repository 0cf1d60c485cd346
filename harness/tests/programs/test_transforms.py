"""Pairs under `vmap`, `remat` and a second derivative: faults that neither forward nor gradient shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from samebits.programs.inputs import records
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.schema.case import TRANSFORMS, Arg, Case, Refusal
from samebits.schema.contract import Contract
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from tests.support.toys import of, run, toy

ROUNDING = (Contract(lowest="rounding", reason="the order of products"),)


def cube(x: Any, *, factor: float = 2.0) -> Any:
    return factor * x * x * x


def cubed(x: Any, *, factor: float = 2.0) -> Any:
    return factor * (x * x * x)


def cube_once_differentiable(x: Any, *, factor: float = 2.0) -> Any:
    """Right forward and in its gradient; the gradient's own gradient lacks the way through the residual."""
    import jax

    @jax.custom_vjp
    def function(x: Any) -> Any:
        return factor * (x * x * x)

    def backward(x: Any, cotangent: Any) -> Any:
        return (3 * factor * jax.lax.stop_gradient(x * x) * cotangent,)

    function.defvjp(lambda x: (function(x), x), backward)
    return function(x)


def cube_batched_backwards(x: Any, *, factor: float = 2.0) -> Any:
    """Right for one array; its own batching rule puts the copies in the reverse order."""
    import jax

    @jax.custom_batching.custom_vmap
    def function(x: Any) -> Any:
        return factor * (x * x * x)

    @function.def_vmap
    def rule(size: Any, batched: Any, x: Any) -> Any:
        return (factor * (x * x * x))[::-1], True

    return function(x)


def cubes(variant: Callable[..., Any], **changes: Any) -> Pair:
    return dataclasses.replace(toy(cube, variant=variant), contracts=ROUNDING, **changes)


def test_every_case_is_added_under_every_transform() -> None:
    sizes = {"rows": 8, "columns": 16}
    refusing = Case(id="none", sizes=sizes, refuses=(Refusal(error="ValueError", match="none"),))
    pair = cubes(cubed, cases=(Case(id="small", sizes=sizes), refusing), transforms=TRANSFORMS)
    added = ["small_vmap", "small_remat", "small_second_derivative"]
    assert [case.id for case in pair.cases] == ["small", "none", *added]
    assert dataclasses.replace(pair, dtypes=("bfloat16",)).cases == pair.cases
    points = plan(pair, Request(cases=("small_*",)), devices=8).points
    assert {(p.case, p.direction) for p in points} == {
        ("small_vmap", "forward"),
        ("small_vmap", "gradient"),
        ("small_remat", "gradient"),
        ("small_second_derivative", "gradient"),
    }


def test_an_honest_variant_holds_under_every_transform() -> None:
    results = run(cubes(cubed, transforms=TRANSFORMS), Request(variants=("variant",), full=True))
    assert len(results) == 6
    assert all(result.ruling.ok for result in results)
    assert {result.ruling.verdict for result in results} <= {"bitwise", "rounding"}
    (found,) = of(results, case="small_vmap", direction="forward")
    assert found.comparison.elements == 2 * 8 * 16
    assert "--case small_vmap" in found.replay


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("variant", "transform", "direction"),
    [(cube_once_differentiable, "second_derivative", "gradient"), (cube_batched_backwards, "vmap", "forward")],
)
def test_a_fault_that_only_a_transform_shows(variant: Callable[..., Any], transform: str, direction: str) -> None:
    gradients = transform != "vmap"
    asked = Request(variants=("variant",), full=True)
    results = run(cubes(variant, gradients=gradients, transforms=(transform,)), asked)
    assert all(result.ruling.ok for result in of(results, case="small")) and of(results, case="small")
    assert [(r.place.case, r.place.direction) for r in results if r.ruling.verdict == "different"] == [
        (f"small_{transform}", direction)
    ]


def test_remat_computes_the_forward_again() -> None:
    pair = cubes(cubed, transforms=("remat",))
    sides = TracedSides(pair, Programs(threads=1))
    text = {}
    for name in ("small", "small_remat"):
        site = Site(case=pair.case(name), dtype="float32", mesh=MeshSpec.parse("data4"), mode="auto", built=None)
        program = sides.gradient("variant", site)
        text[name] = str(program.traced.jaxpr)
    assert "remat" in text["small_remat"] or "checkpoint" in text["small_remat"]
    assert "remat" not in text["small"] and "checkpoint" not in text["small"]


def test_copies_have_values_of_their_own() -> None:
    """Those of a function `(rng, shape)` too, which is called with the declared shape."""

    def values(rng: Any, shape: tuple[int, ...]) -> Any:
        assert shape == (8, 16)
        return rng.standard_normal(shape)

    pair = cubes(cubed, args={"x": Arg(shape=("rows", "columns"), spec=("data",), values=values)}, transforms=("vmap",))
    mesh = MeshSpec.parse("data4")
    (found,) = pair.arguments(pair.case("small_vmap"), mesh).values()
    assert found.spec == (None, "data")
    array = records(pair, pair.case("small_vmap"), "float32", mesh)["ordinary"]["x"]
    assert array.shape == (2, 8, 16)
    assert not np.any(array[0] == array[1])


def test_a_linear_component_has_no_second_derivative() -> None:
    """It compares nothing, which is an error and no pass."""
    asked = Request(cases=("small_second_derivative",), full=True)
    found = run(toy(), asked, transforms=("second_derivative",))
    assert {result.ruling.verdict for result in found} == {"error"}
    assert all("the gradient of 'x' is zero for every cotangent" in str(result.ruling.reason) for result in found)
