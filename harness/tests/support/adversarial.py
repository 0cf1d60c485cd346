"""Pairs whose points look alike to a key that leaves something out: each verdict must be what the point gets alone."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.values import Normal

SIZES = {"rows": 8, "columns": 16}
ROUNDING = (Contract(lowest="rounding", reason="a planted pair: the verdict is what is looked at"),)


def pair_of(name: str, reference: Callable[..., Any], sides: Mapping[str, Callable[..., Any]], **changes: Any) -> Pair:
    """A pair over `x[8, 16]` in float32 on one device, with fields of the declaration replaced."""
    fields: dict[str, Any] = {
        "args": {"x": Arg(shape=("rows", "columns"), spec=("data",))},
        "cases": (Case(id="small", sizes=SIZES),),
        "dtypes": ("float32",),
        "meshes": ("data1",),
        "modes": ("auto",),
    }
    return Pair(name=name, reference=reference, variants=dict(sides), **{**fields, **changes})


def points_of(pair: Pair) -> tuple[Point, ...]:
    """Every point of a pair."""
    return plan(pair, Request(full=True), devices=8).points


def results_of(pair: Pair, points: Sequence[Point], programs: Programs | None = None) -> list[Finding]:
    """The results at some points, in this order, with programs of their own or with those given."""
    own = programs or Programs(threads=1)
    try:
        return [timeless(one) for one in run_points(pair, Locator(name=pair.name), points, own)]
    finally:
        if programs is None:
            own.close()


def timeless(result: Finding) -> Finding:
    """A result without what a clock says."""
    return dataclasses.replace(result, seconds=0.0)


def _scaled_on_host(x: Any, factor: float) -> Any:
    return jax.pure_callback(lambda a: _times(a, factor), jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def _times(array: Any, factor: float) -> Any:
    """A product in NumPy, in the array's own dtype."""
    return (np.asarray(array) * factor).astype(array.dtype)


def callbacks() -> Pair:
    """A NumPy reference behind a callback whose second case has another factor; one variant is wrong in every case."""

    def numpy_reference(x: Any, factor: float) -> Any:
        return _scaled_on_host(x, factor)

    def in_jax(x: Any, factor: float) -> Any:
        return x * factor

    def one_more(x: Any, factor: float) -> Any:
        return _scaled_on_host(x, factor + 1)

    cases = tuple(Case(id=f"by{n}", sizes=SIZES, statics={"factor": float(n)}) for n in (2, 3))
    return pair_of("callbacks", numpy_reference, {"in_jax": in_jax, "one_more": one_more}, cases=cases, gradients=False)


def other_callbacks() -> Pair:
    """Results through `io_callback`, and a `debug.callback` beside an honest one."""

    def doubled(x: Any) -> Any:
        from jax.experimental import io_callback

        return io_callback(lambda a: _times(a, 2), x, x)

    def tripled(x: Any) -> Any:
        from jax.experimental import io_callback

        return io_callback(lambda a: _times(a, 3), x, x)

    def watched(x: Any) -> Any:
        jax.debug.callback(lambda a: None, x)
        return x * 2

    return pair_of("other_callbacks", doubled, {"tripled": tripled, "watched": watched}, gradients=False)


def ties() -> Pair:
    """The gradient of a maximum, shared between equal elements or given to the first: equal where none are equal."""

    def largest(x: Any) -> Any:
        return jnp.max(x, -1)

    def first(x: Any) -> Any:
        return jnp.take_along_axis(x, jnp.argmax(x, -1)[:, None], -1)[:, 0]

    def tied(rng: Any, shape: tuple[int, ...]) -> Any:
        array = rng.standard_normal(shape)
        array[:, 1] = array[:, 0] = 8 + np.arange(shape[0])
        return array

    def args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
        return {"x": Arg(shape=("rows", "columns"), values=tied if case.id == "tied" else Normal())}

    cases = tuple(Case(id=name, sizes=SIZES) for name in ("plain", "tied"))
    return pair_of("ties", largest, {"first": first}, args=args, cases=cases, contracts=ROUNDING)


def _table(middle: float) -> Any:
    array = np.zeros(2000, np.float32)
    array[1000] = middle
    return array


def tables() -> Pair:
    """Static arrays that differ where `repr` leaves elements out; the square of 1 is 1, that of 2 is not 2."""

    def plain(x: Any, table: Any) -> Any:
        return x * table["of"][1000]

    def squared(x: Any, table: Any) -> Any:
        return x * table["of"][1000] ** 2

    cases = tuple(Case(id=f"middle{n}", sizes=SIZES, statics={"table": {"of": _table(n)}}) for n in (1, 2))
    return pair_of("tables", plain, {"squared": squared}, cases=cases)


class Silent:
    """A static argument whose `repr` says nothing of it."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Silent()"


def silent_objects() -> Pair:
    """Static arguments that print alike."""

    def plain(x: Any, by: Silent) -> Any:
        return x * by.value

    def squared(x: Any, by: Silent) -> Any:
        return x * by.value**2

    cases = tuple(Case(id=f"by{n}", sizes=SIZES, statics={"by": Silent(n)}) for n in (1, 2))
    return pair_of("silent_objects", plain, {"squared": squared}, cases=cases)


def by_mesh() -> Pair:
    """Values that depend on the mesh, in arrays of one shape: what was computed on one mesh is not for the other."""

    def double(x: Any) -> Any:
        return x + x

    def twice(x: Any) -> Any:
        return 2 * x

    def args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
        values = Normal(offset=float(mesh.devices))
        return {"x": Arg(shape=("rows", "columns"), spec=("data",), values=values)}

    return pair_of("by_mesh", double, {"twice": twice}, args=args, meshes=("data1", "data2"))


def by_derivative() -> Pair:
    """The same arguments in two cases, of which one has a derivative in both and one in `x` only."""

    def product(x: Any, y: Any) -> Any:
        return x * y

    def swapped(x: Any, y: Any) -> Any:
        return y * x

    def args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
        one = Arg(shape=("rows", "columns"), spec=("data",))
        return {"x": one, "y": dataclasses.replace(one, differentiable=case.id == "both")}

    cases = tuple(Case(id=name, sizes=SIZES) for name in ("both", "only_x"))
    return pair_of("by_derivative", product, {"swapped": swapped}, args=args, cases=cases)


def containers() -> Pair:
    """The same arrays in a tuple, a list, and beside a None: three trees whose StableHLO is one text."""

    def as_tuple(x: Any) -> Any:
        return x + 1, x * 2

    def as_list(x: Any) -> Any:
        return [x + 1, x * 2]

    def with_none(x: Any) -> Any:
        return x + 1, x * 2, None

    return pair_of("containers", as_tuple, {"as_list": as_list, "with_none": with_none}, gradients=False)


def moved_and_wrong() -> Pair:
    """A variant that is proved, for which only the last record runs, and one that is wrong on the first record too."""

    def turned(x: Any) -> Any:
        return x[::-1]

    def also(x: Any) -> Any:
        return jnp.flip(x, 0)

    def wrong(x: Any) -> Any:
        return x[::-1].at[3, 5].add(1)

    arg = Arg(shape=("rows", "columns"), spec=("data",), special=("nan", "-0.0", "inf"))
    return pair_of("moved_and_wrong", turned, {"also": also, "wrong": wrong}, args={"x": arg})


def changing() -> Pair:
    """A variant that, while it is traced, turns 64-bit types on and has `jnp.tanh` stand for another function."""

    def rate(x: Any) -> Any:
        return jnp.tanh(x)

    def changed(x: Any) -> Any:
        jax.config.update("jax_enable_x64", True)
        jnp.tanh = jnp.sin
        return jnp.sin(x)

    return pair_of("changing", rate, {"changed": changed}, gradients=False)


def changed_by_others() -> Pair:
    """Whose reference calls what the variant of `changing` replaces, and whose integers would become wider."""

    def rate(x: Any) -> Any:
        return jnp.tanh(x) + jnp.arange(16)

    def same(x: Any) -> Any:
        return jax.lax.tanh(x) + jnp.arange(16)

    return pair_of("changed_by_others", rate, {"same": same}, gradients=False)


def made_anew(factor: int) -> Pair:
    """A pair over functions that nothing else holds; its name says nothing of the factor, and only 2 is right."""

    def double(x: Any) -> Any:
        return x * 2

    def times(x: Any) -> Any:
        return x * factor

    return pair_of("made_anew", double, {"times": times}, gradients=False)


def pairs() -> tuple[Pair, ...]:
    """All but those that are made anew."""
    return (
        callbacks(),
        other_callbacks(),
        ties(),
        tables(),
        silent_objects(),
        by_mesh(),
        by_derivative(),
        containers(),
        moved_and_wrong(),
        changing(),
        changed_by_others(),
    )
