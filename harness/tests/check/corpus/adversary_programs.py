"""Adversaries in the program: gradients and types; dependence on mesh, mode or platform."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from samebits.schema.case import Arg
from tests.check.corpus.adversary import Adversary, same, twice
from tests.check.corpus.formula import Function, normal

X = {"x": normal(24)}
XY = {"x": normal(24), "y": normal(24)}
SPLIT = {"x": Arg(shape=(8, 6), spec=("data",))}
LONG = {"x": normal(2048)}


def _with_gradient(forward: Function, gradient: Function) -> Function:
    """A function of one argument with a gradient of its own."""

    @jax.custom_vjp
    def side(x: Any) -> Any:
        return forward(x)

    side.defvjp(lambda x: (forward(x), x), lambda x, ct: (gradient(x, ct),))

    def called(x: Any) -> Any:
        return side(x)

    return called


def square(x: Any) -> Any:
    return x * x


def _wrong_tangent(x: Any) -> Any:
    @jax.custom_jvp
    def side(x: Any) -> Any:
        return x * x

    side.defjvp(lambda primals, tangents: (primals[0] ** 2, 1.9 * primals[0] * tangents[0]))
    return side(x)


def difference(x: Any, y: Any) -> Any:
    return x * x - y * y


def _swapped(x: Any, y: Any) -> Any:
    @jax.custom_vjp
    def side(x: Any, y: Any) -> Any:
        return x * x - y * y

    side.defvjp(lambda x, y: (x * x - y * y, (x, y)), lambda saved, ct: (-2 * saved[1] * ct, 2 * saved[0] * ct))
    return side(x, y)


GRADIENTS = (
    Adversary("gradient_of_another_factor", square, _with_gradient(square, lambda x, ct: 2.01 * x * ct), X),
    Adversary("gradient_ignores_its_cotangent", square, _with_gradient(square, lambda x, ct: 2 * x), X),
    Adversary("gradient_of_the_mean_cotangent", square, _with_gradient(square, lambda x, ct: 2 * x * jnp.mean(ct)), X),
    Adversary(
        "gradient_clipped_at_a_hundred",
        square,
        _with_gradient(square, lambda x, ct: jnp.clip(2 * x * ct, -100, 100)),
        X,
        (),
    ),
    Adversary(
        "gradient_zero_where_the_cotangent_is_positive",
        square,
        _with_gradient(square, lambda x, ct: jnp.where(ct > 0, 0, 2 * x * ct)),
        X,
    ),
    Adversary(
        "gradient_of_the_last_element", square, _with_gradient(square, lambda x, ct: (2 * x * ct).at[-1].set(0)), X
    ),
    Adversary("gradient_stopped_in_one_factor", square, lambda x: jax.lax.stop_gradient(x) * x, X),
    Adversary("tangent_of_another_factor", square, _wrong_tangent, X),
    Adversary("gradients_of_two_arguments_swapped", difference, _swapped, XY),
    Adversary(
        "gradient_in_bfloat16",
        square,
        _with_gradient(square, lambda x, ct: (2 * x.astype(jnp.bfloat16) * ct.astype(jnp.bfloat16)).astype(x.dtype)),
        X,
        ("check",),
    ),
)


def with_scale(x: Any) -> Any:
    return {"out": 2 * x, "scale": jnp.float32(2)}


PLACES = (
    Adversary("last_element", twice, lambda x: (2 * x).at[-1].add(1e-3), X),
    Adversary("element_of_a_large_index", twice, lambda x: (2 * x).at[1999].mul(1.001), LONG),
    Adversary("two_elements_swapped", twice, lambda x: 2 * x[np.r_[0:1500, 1501, 1500, 1502:2048]], LONG),
    Adversary("extra_output", twice, lambda x: (2 * x, x), X),
    Adversary("another_shape", twice, lambda x: 2 * x[None], X),
    Adversary("another_dtype", twice, lambda x: (2 * x).astype(jnp.bfloat16), X),
    Adversary("weak_type", with_scale, lambda x: {"out": 2 * x, "scale": 2.0}, X),
    Adversary("another_key", with_scale, lambda x: {"out": 2 * x, "factor": jnp.float32(2)}, X),
)


def _x64_aware(x: Any) -> Any:
    """Right where 64-bit types are on, as in an oracle."""
    return x * (2 if jax.config.values["jax_enable_x64"] else 2.001)


def _narrow_only(x: Any) -> Any:
    return 2 * x if x.dtype != jnp.bfloat16 else jnp.asarray(2.02, x.dtype) * x


def _half_only(x: Any) -> Any:
    return 2 * x if x.dtype != jnp.float16 else 3 * x


def _meshed(x: Any) -> Any:
    mesh = jax.sharding.get_abstract_mesh()
    return x * (2 if mesh.empty or mesh.size == 1 else 2.001)


def _of_two(x: Any) -> Any:
    """Wrong on four devices, and right on two."""
    mesh = jax.sharding.get_abstract_mesh()
    return x * (2.001 if not mesh.empty and mesh.size == 4 else 2)


def _explicit(x: Any) -> Any:
    mesh = jax.sharding.get_abstract_mesh()
    explicit = not mesh.empty and any(kind == jax.sharding.AxisType.Explicit for kind in mesh.axis_types)
    return x * (2.001 if explicit else 2)


def _platform(x: Any) -> Any:
    here = jax.default_backend().replace("gpu", "cuda")
    return jax.lax.platform_dependent(x, **{here: lambda x: 2.001 * x}, default=lambda x: 2 * x)


def _tpu(x: Any) -> Any:
    return jax.lax.platform_dependent(x, tpu=lambda x: 2.001 * x, default=lambda x: 2 * x)


def _last_device(x: Any) -> Any:
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return 2 * x

    def local(x: Any) -> Any:
        return x * jnp.where(jax.lax.axis_index("data") == jax.lax.axis_size("data") - 1, 2.001, 2)

    return jax.shard_map(local, in_specs=P("data"), out_specs=P("data"))(x)


def _only_undifferentiated(x: Any) -> Any:
    """A forward value that is right only where a gradient is taken."""
    return _with_gradient(lambda x: 2.001 * x, lambda x, ct: 2 * ct)(x)


def column_sums(x: Any) -> Any:
    return jnp.sum(x, 0)


def _local_sums(x: Any) -> Any:
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return jnp.sum(x, 0)
    return jax.shard_map(lambda x: jnp.sum(x, 0), in_specs=P("data"), out_specs=P(), check_vma=False)(x)


HIDDEN = (
    Adversary("right_in_float64", twice, _x64_aware, X),
    Adversary("wrong_in_bfloat16", twice, _narrow_only, X, dtypes=("bfloat16", "float32")),
    Adversary("wrong_in_a_dtype_not_tried", twice, _half_only, X, ()),
    Adversary("wrong_on_a_mesh", twice, _meshed, SPLIT, meshes=("data2",)),
    Adversary("wrong_on_a_mesh_not_tried", twice, _of_two, SPLIT, (), meshes=("data2",)),
    Adversary("wrong_in_explicit_mode", twice, _explicit, SPLIT, meshes=("data2",), modes=("auto", "explicit")),
    Adversary("branch_of_this_platform", twice, _platform, X),
    Adversary("branch_of_another_platform", twice, _tpu, X, ()),
    Adversary("last_device", twice, _last_device, SPLIT, meshes=("data4",)),
    Adversary("sum_of_one_shard", column_sums, _local_sums, SPLIT, meshes=("data4",)),
    Adversary("forward_of_another_factor", twice, _only_undifferentiated, X),
    Adversary("identity_for_its_double", twice, lambda x: same(x), X),
)

ALL = (*GRADIENTS, *PLACES, *HIDDEN)
