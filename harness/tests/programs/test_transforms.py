"""Pairs under `vmap`, `remat` and a second derivative: faults that neither forward nor gradient shows."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

import samebits
from samebits.errors import CouldNotRun
from samebits.programs.captured_values import own_rules
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

    @jax.custom_vjp
    def function(x: Any) -> Any:
        return factor * (x * x * x)

    def backward(x: Any, cotangent: Any) -> Any:
        return (3 * factor * jax.lax.stop_gradient(x * x) * cotangent,)

    function.defvjp(lambda x: (function(x), x), backward)
    return function(x)


def cube_batched_backwards(x: Any, *, factor: float = 2.0) -> Any:
    """Right for one array; its own batching rule puts the copies in the reverse order."""

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


# --- what to do about a gradient that cannot be traced: the message names it -----------------------------------------

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)


def _double(x: Any) -> Any:
    return x * 2


def _kernel(into: Any, out: Any) -> None:
    @pallas.when(pallas.program_id(0) == 0)
    def _() -> None:
        out[...] = jnp.zeros_like(out)

    out[...] += into[...] * 2


def _by_kernel(x: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pallas.pallas_call(_kernel, out_shape=shape, grid=(1,), interpret=True)(x)


def _called_back(x: Any) -> Any:
    return jax.pure_callback(lambda x: np.asarray(x) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize(
    ("variant", "advice"),
    [
        (
            _by_kernel,
            "a Pallas kernel has no derivative of its own: compare without gradients (gradients=False), or give it one",
        ),
        (_called_back, "the forward function traces and can be compared without gradients (gradients=False)"),
    ],
)
def test_what_to_do_without_a_derivative(variant: Any, advice: str) -> None:
    with pytest.raises(CouldNotRun) as raised:
        samebits.assert_same(_double, variant, X)
    assert advice in str(raised.value)
    assert advice in repr(samebits.check(_double, variant, X))  # where long reasons are cut
    samebits.assert_same(_double, variant, X, gradients=False)


# --- which rules of differentiation are code's own -------------------------------------------------------------------


def test_rules_of_jax_are_not_named() -> None:
    program = jax.make_jaxpr(lambda x: jax.nn.relu(x) + jax.nn.softmax(x) + jnp.logaddexp(x, x))(jnp.ones(3))
    assert "custom_jvp_call" in str(program) and own_rules(program) == ()


def test_rules_are_found_inside_of_loops_and_calls() -> None:
    @jax.custom_jvp
    def double(x: Any) -> Any:
        return 2 * x

    double.defjvps(lambda t, out, x: 2 * t)

    def looped(x: Any) -> Any:
        return jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda _, y: double(y), x))(x)

    (found,) = own_rules(jax.make_jaxpr(looped)(jnp.ones(3)))
    assert "double at " in found and "test_transforms.py" in found


def test_a_primitive_written_in_python_has_rules_of_its_own() -> None:
    hijax = pytest.importorskip("jax.experimental.hijax")
    if not hasattr(hijax, "VJPHiPrimitive"):
        pytest.skip("this version of jax has no primitives that are written so")

    class Doubled(hijax.VJPHiPrimitive):  # type: ignore[misc,name-defined]
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval = (aval,), aval
            self.params: dict[str, Any] = {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return 2 * x

    program = jax.make_jaxpr(lambda x: Doubled(jax.typeof(x))(x))(jnp.ones(3))
    (found,) = own_rules(program)
    assert "Doubled at " in found
