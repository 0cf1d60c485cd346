"""The pipeline: a stack of layers one after the other, and as stages that work on different microbatches at once.

In bfloat16 both have the same bits, and the same formulas by proof, on every mesh of the cases. In float32 products of
other shapes round otherwise; there the tests below hold numbers against a replay in float64.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from samebits import (
    Arg,
    Case,
    Contract,
    Documented,
    Integers,
    MeshSpec,
    Normal,
    Pair,
    Refusal,
    implementation,
    pair_test,
)

ROWS = ("data", "fsdp", "expert")


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    place = (ROWS, "context")
    pulled = case.id != "once"
    return {
        "inputs": Arg(shape=("batch", "sequence", "embed"), spec=(*place, None), differentiable=pulled),
        # Of every row their own: where all rows have the same, a stage may have those of another microbatch.
        "positions": Arg(shape=("batch", "sequence"), spec=place, values=Integers(high=16)),
        "segments": Arg(shape=("batch", "sequence"), spec=place, values=Integers(high=5)),
        "weights": Arg(
            shape=("repeats", "stages", "layers", "embed", "embed"),
            spec=(None, "stage", None, None, "tensor"),
            values=Normal(scale=0.4),
            differentiable=pulled,
        ),
    }


def _case(name: str, stages: int, microbatches: int, repeats: int, mesh: str, **rest: Any) -> Case:
    sizes = {"batch": 2 * microbatches, "sequence": 2, "embed": 4, "repeats": repeats, "stages": stages, "layers": 1}
    statics = {"stages": stages, "microbatches": microbatches, "repeats": repeats}
    return Case(id=name, sizes=sizes, statics=statics, meshes=(mesh,), **rest)


PAIR = Pair(
    name="pipeline",
    reference="sequential",
    variants=("circular", "circular_slice"),
    args=_args,
    cases=(
        # More microbatches than stages: results wait for the first stage's turn.
        _case("round", 2, 4, 2, "stage2_data2", variants=("circular",), modes=("auto",)),
        # Forward only.
        _case("once", 2, 2, 1, "stage2_data2", variants=("circular_slice",), modes=("auto",)),
        # With two stages the next one is also the one before: three show a rotation in the wrong direction.
        _case("three", 3, 3, 2, "stage3", variants=("circular",), modes=("explicit",)),
        _case("four", 4, 4, 1, "stage4_tensor2", variants=("circular_slice",), modes=("auto",)),
        _case(
            "few",
            4,
            6,
            1,
            "stage2_data2",
            modes=("auto",),
            refuses=(Refusal(error="ValueError", match="microbatches is 6; expected a multiple of the 4 stages"),),
        ),
    ),
    documented=(
        Documented(
            id="2744.pipeline",
            document="MaxText #2744: layers/pipeline.py",
            says="the circular pipeline with its shifts is the layers in sequence, auto and explicit",
        ),
    ),
    contracts=(
        Contract(
            lowest="rounding",
            leaf="out?'extra'?",
            reason="a float32 mean over rows that lie on two devices: 1 ulp, in 16 of 40 seeds, for the "
            "reference on a mesh too",
        ),
    ),
    dtypes=("bfloat16",),
    meshes=("stage2_data2", "stage3", "stage4_tensor2"),
    # Every iteration is interpreted in both directions: each case has one place and one mode, the rest stands below.
    modes=("auto", "explicit"),
    accuracy=2,
)

test_pipeline = pair_test(PAIR)

WHOLE = dataclasses.replace(
    PAIR,
    cases=(
        _case("round", 2, 4, 2, "stage2_data2"),
        _case("single", 2, 2, 1, "stage2_data2"),
        _case("three", 3, 3, 2, "stage3"),
        _case("four", 4, 4, 1, "stage4_tensor2"),
    ),
)
"""Both variants, directions and modes: `samebits check suites.test_pipeline:WHOLE`."""

test_pipeline_whole = pytest.mark.slow(pair_test(WHOLE))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
SHAPES = (
    (2, 4, 2, 1, "stage2"),
    (3, 3, 2, 1, "stage3"),
    (2, 2, 2, 1, "context2_expert2"),
    (4, 8, 2, 2, "stage4_context2"),
    (8, 8, 1, 1, "stage8"),
)


def _numbers(stages: int, microbatches: int, repeats: int, layers: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    rows = 2 * microbatches
    return {
        "inputs": rng.standard_normal((rows, 2, 4)).astype(np.float32),
        "positions": rng.integers(0, 16, (rows, 2)).astype(np.int32),
        "segments": rng.integers(0, 5, (rows, 2)).astype(np.int32),
        "weights": (0.4 * rng.standard_normal((repeats, stages, layers, 4, 4))).astype(np.float32),
    }


def _statics(stages: int, microbatches: int, repeats: int) -> dict[str, int]:
    return {"stages": stages, "microbatches": microbatches, "repeats": repeats}


def _replay(arrays: Mapping[str, Any], microbatches: int) -> tuple[Any, float]:
    """The definition, layer by layer in float64."""
    x = arrays["inputs"].astype(np.float64)
    place = (arrays["positions"] / 8 - arrays["segments"] / 2)[..., None]
    extra = 0.0
    for kernel in arrays["weights"].reshape(-1, 4, 4).astype(np.float64):
        added = np.tanh(x @ kernel + place)
        x = x + added
        extra += np.mean([np.mean(part**2) for part in np.split(added, microbatches)])
    return x, extra


def _apart(found: Any, expected: Any) -> float:
    return float(np.abs(np.asarray(found, np.float64) - expected).max() / np.abs(expected).max())


@pytest.mark.sampled(1)
@SIDES
@pytest.mark.parametrize("shape", [*SHAPES[:1], *(pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES[1:])])
@pytest.mark.parametrize("mode", ["auto", pytest.param("explicit", marks=pytest.mark.slow)])
def test_the_definition_replayed_layer_by_layer(side: str, shape: tuple[Any, ...], mode: Any) -> None:
    """In float32 on a mesh, over 24 seeds: noise 3.7e-7, bound 2e-6, nearest fault 6.3e-2 (bubbles counted)."""
    import jax

    stages, microbatches, repeats, layers, name = shape
    arrays = _numbers(stages, microbatches, repeats, layers)
    out, extra = _replay(arrays, microbatches)
    mesh = MeshSpec.parse(name)
    if len(jax.devices()) < mesh.devices:
        pytest.skip(f"{name} needs {mesh.devices} devices")
    step = functools.partial(implementation(PAIR, side), **_statics(stages, microbatches, repeats))
    built = mesh.build(mode)
    with jax.set_mesh(built):
        weights = jax.NamedSharding(built, jax.P(None, "stage") if mesh.size("stage") > 1 else jax.P())
        found = jax.jit(step)(**{**arrays, "weights": jax.device_put(arrays["weights"], weights)})
    assert _apart(found["out"], out) < 2e-6 and _apart(found["extra"], extra) < 2e-6


@pytest.mark.sampled(1)
@SIDES
def test_a_layer_that_makes_nan_of_zeros_poisons_no_gradient(side: str) -> None:
    """Bubbles work on rows of the inputs: zeros, divided by their norm, would make every gradient of weights NaN."""
    import jax
    import jax.numpy as jnp

    def layer(weights: Any, x: Any, positions: Any, segments: Any) -> tuple[Any, Any]:
        y = x @ weights + positions[..., None] / 8
        y = y / jnp.sqrt(jnp.sum(y * y, axis=-1, keepdims=True))
        return y, jnp.log(jnp.sum(x * x))

    arrays = _numbers(2, 4, 2, 1)
    arrays["positions"] = 0 * arrays["positions"]
    step = functools.partial(implementation(PAIR, side), layer=layer, **_statics(2, 4, 2))

    def loss(weights: Any) -> Any:
        found = step(**{**arrays, "weights": weights})
        return jnp.sum(found["out"][..., 0]) + found["extra"]

    value, gradient = jax.jit(jax.value_and_grad(loss))(arrays["weights"])
    assert np.isfinite(value) and np.isfinite(gradient).all() and np.any(np.asarray(gradient) != 0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "explicit"])
@pytest.mark.parametrize("side", PAIR.variant_names)
def test_a_layer_with_messages_between_experts(side: str, mode: Any) -> None:
    """A recomputed layer with a pytree of weights and a `shard_map`, against the reference in float32.

    Over 24 seeds: noise 8.3e-7, bound 5e-6, nearest fault 5.6e-4 (bubbles counted).
    """
    import jax
    import jax.numpy as jnp

    def experts(kernels: Any, x: Any) -> Any:
        everyone = jax.lax.all_gather(x, "expert", axis=0, tiled=True)
        y = jnp.tanh(everyone @ kernels[0]) * (1 + jax.lax.axis_index("expert"))
        return jax.lax.psum_scatter(y, "expert", scatter_dimension=0, tiled=True)

    @jax.checkpoint
    def layer(weights: Any, x: Any, positions: Any, segments: Any) -> tuple[Any, Any]:
        mixed = jnp.einsum("bse,ef->bsf", x, weights["mix"]) + (positions - segments)[..., None] / 16
        if jax.sharding.get_abstract_mesh().empty:
            y = sum(jnp.tanh(mixed @ weights["experts"][number]) * (1 + number) for number in range(2))
        else:
            split = jax.P("expert")
            y = jax.shard_map(experts, in_specs=(split, split), out_specs=split)(weights["experts"], mixed)
        return x + y, jnp.mean(jnp.square(y))

    if len(jax.devices()) < 4:
        pytest.skip("two stages of two experts need 4 devices")
    arrays = _numbers(2, 4, 2, 1)
    rng = np.random.default_rng(1)
    arrays["weights"] = {"mix": arrays["weights"], "experts": 0.3 * rng.standard_normal((2, 2, 1, 2, 4, 4))}
    arrays["weights"]["experts"] = arrays["weights"]["experts"].astype(np.float32)

    def step(side: str, arrays: Any) -> Any:
        def loss(inputs: Any, weights: Any) -> Any:
            run = implementation(PAIR, side)
            found = run(inputs, arrays["positions"], arrays["segments"], weights, layer=layer, **_statics(2, 4, 2))
            return jnp.sum(jnp.square(found["out"])) + found["extra"]

        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(arrays["inputs"], arrays["weights"])

    expected = step(PAIR.reference_name, arrays)
    built = MeshSpec.parse("stage2_expert2").build(mode)
    with jax.set_mesh(built):
        stage = jax.NamedSharding(built, jax.P(None, "stage"))
        kernels = jax.NamedSharding(built, jax.P(None, "stage", None, "expert"))
        rows = jax.NamedSharding(built, jax.P("expert"))
        places = {name: jax.device_put(arrays[name], rows) for name in ("inputs", "positions", "segments")}
        weights = {
            "mix": jax.device_put(arrays["weights"]["mix"], stage),
            "experts": jax.device_put(arrays["weights"]["experts"], kernels),
        }
        found = step(side, {**places, "weights": weights})
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert _apart(one, np.asarray(other)) < 5e-6


@SIDES
def test_refuses(side: str) -> None:
    """Shapes and counts that do not fit, by their text."""
    arrays = _numbers(2, 4, 1, 1)
    run = implementation(PAIR, side)
    with pytest.raises(ValueError, match=r"microbatches is 6; expected a divisor of the batch's 8 rows"):
        run(**arrays, stages=2, microbatches=6)
    with pytest.raises(ValueError, match=r"weights have a leaf of shape .*; expected \[2, 2, layers of a stage"):
        run(**arrays, stages=2, microbatches=4, repeats=2)
    with pytest.raises(ValueError, match=r"stages is 0 and repeats is 1; expected at least 1"):
        run(**arrays, stages=0, microbatches=4)
    with pytest.raises(ValueError, match=r"expected \[batch, sequence, embed\] and twice"):
        run(**{**arrays, "segments": arrays["segments"][:1]}, stages=2, microbatches=4)
