"""`flax.nnx.Linear` against Linen's `Dense` and `DenseGeneral`, float32 weights and activations of both dtypes."""

from __future__ import annotations

from flax import linen, nnx

from samebits import Adapt, Arg, Case, Pair, like, pair_test


def layer_of_nnx(layer, x):
    return layer(x)


def as_linen(layer, x):
    return {"variables": {"params": {"kernel": layer.kernel[...], "bias": layer.bias[...]}}, "inputs": x}


PAIR = Pair(
    name="flax_dense",
    reference=layer_of_nnx,
    variants={"dense": linen.Dense(4).apply, "general": linen.DenseGeneral(4).apply},
    adapt={"dense": Adapt(arguments=as_linen), "general": Adapt(arguments=as_linen)},
    args={
        "layer": like(nnx.eval_shape(lambda: nnx.Linear(16, 4, rngs=nnx.Rngs(0)))),
        "x": Arg(shape=(8, 16), spec=("dp",)),
    },
    meshes=("none", "dp4"),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_dense = pair_test(PAIR)
