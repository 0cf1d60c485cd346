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
    Adversary(
        name="gradient_of_another_factor",
        reference=square,
        other=_with_gradient(square, lambda x, ct: 2.01 * x * ct),
        args=X,
    ),
    Adversary(
        name="gradient_ignores_its_cotangent",
        reference=square,
        other=_with_gradient(square, lambda x, ct: 2 * x),
        args=X,
    ),
    Adversary(
        name="gradient_of_the_mean_cotangent",
        reference=square,
        other=_with_gradient(square, lambda x, ct: 2 * x * jnp.mean(ct)),
        args=X,
    ),
    Adversary(
        name="gradient_clipped_at_a_hundred",
        reference=square,
        other=_with_gradient(square, lambda x, ct: jnp.clip(2 * x * ct, -100, 100)),
        args=X,
        refuted=(),
    ),
    Adversary(
        name="gradient_zero_where_the_cotangent_is_positive",
        reference=square,
        other=_with_gradient(square, lambda x, ct: jnp.where(ct > 0, 0, 2 * x * ct)),
        args=X,
    ),
    Adversary(
        name="gradient_of_the_last_element",
        reference=square,
        other=_with_gradient(square, lambda x, ct: (2 * x * ct).at[-1].set(0)),
        args=X,
    ),
    Adversary(
        name="gradient_stopped_in_one_factor", reference=square, other=lambda x: jax.lax.stop_gradient(x) * x, args=X
    ),
    Adversary(name="tangent_of_another_factor", reference=square, other=_wrong_tangent, args=X),
    Adversary(name="gradients_of_two_arguments_swapped", reference=difference, other=_swapped, args=XY),
    Adversary(
        name="gradient_in_bfloat16",
        reference=square,
        other=_with_gradient(
            square, lambda x, ct: (2 * x.astype(jnp.bfloat16) * ct.astype(jnp.bfloat16)).astype(x.dtype)
        ),
        args=X,
        refuted=("check",),
    ),
)


def with_scale(x: Any) -> Any:
    return {"out": 2 * x, "scale": jnp.float32(2)}


PLACES = (
    Adversary(name="last_element", reference=twice, other=lambda x: (2 * x).at[-1].add(1e-3), args=X),
    Adversary(name="element_of_a_large_index", reference=twice, other=lambda x: (2 * x).at[1999].mul(1.001), args=LONG),
    Adversary(
        name="two_elements_swapped",
        reference=twice,
        other=lambda x: 2 * x[np.r_[0:1500, 1501, 1500, 1502:2048]],
        args=LONG,
    ),
    Adversary(name="extra_output", reference=twice, other=lambda x: (2 * x, x), args=X),
    Adversary(name="another_shape", reference=twice, other=lambda x: 2 * x[None], args=X),
    Adversary(name="another_dtype", reference=twice, other=lambda x: (2 * x).astype(jnp.bfloat16), args=X),
    Adversary(name="weak_type", reference=with_scale, other=lambda x: {"out": 2 * x, "scale": 2.0}, args=X),
    Adversary(
        name="another_key", reference=with_scale, other=lambda x: {"out": 2 * x, "factor": jnp.float32(2)}, args=X
    ),
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
    Adversary(name="right_in_float64", reference=twice, other=_x64_aware, args=X),
    Adversary(name="wrong_in_bfloat16", reference=twice, other=_narrow_only, args=X, dtypes=("bfloat16", "float32")),
    Adversary(name="wrong_in_a_dtype_not_tried", reference=twice, other=_half_only, args=X, refuted=()),
    Adversary(name="wrong_on_a_mesh", reference=twice, other=_meshed, args=SPLIT, meshes=("data2",)),
    Adversary(
        name="wrong_on_a_mesh_not_tried", reference=twice, other=_of_two, args=SPLIT, meshes=("data2",), refuted=()
    ),
    Adversary(
        name="wrong_in_explicit_mode",
        reference=twice,
        other=_explicit,
        args=SPLIT,
        meshes=("data2",),
        modes=("auto", "explicit"),
    ),
    Adversary(name="branch_of_this_platform", reference=twice, other=_platform, args=X),
    Adversary(name="branch_of_another_platform", reference=twice, other=_tpu, args=X, refuted=()),
    Adversary(name="last_device", reference=twice, other=_last_device, args=SPLIT, meshes=("data4",)),
    Adversary(name="sum_of_one_shard", reference=column_sums, other=_local_sums, args=SPLIT, meshes=("data4",)),
    Adversary(name="forward_of_another_factor", reference=twice, other=_only_undifferentiated, args=X),
    Adversary(name="identity_for_its_double", reference=twice, other=lambda x: same(x), args=X),
)

ALL = (*GRADIENTS, *PLACES, *HIDDEN)
