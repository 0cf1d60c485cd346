"""Variables of a Flax layer: sharded at creation, left as they are, or sharded where the code constrains them.

The option `flax_always_shard_variable` puts a constraint (a reshard, where axes are explicit) on every `nnx.Variable`
that names the axes of its dimensions. It changes no value: the inputs are integers whose sums float32 holds in any
order, so that forward every bit must be the same on the mesh. What it changes is the layout, which no value shows:
`LAYOUTS` declares it, measured on CPU (jax 0.10.2, flax 0.12.8, 8 devices).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Documented,
    MeshSpec,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

_ALL = ("always", "never", "requested")
LAYOUTS: dict[str, dict[str, tuple[tuple[int, int], tuple[int, int]]]] = {
    # FINDING: with the option off a variable is where it came from. A checkpoint that is read whole stays whole.
    "whole": {"always": ((2, 2), (2, 2)), "never": ((8, 4), (4, 8)), "requested": ((2, 2), (2, 2))},
    "split": dict.fromkeys(_ALL, ((2, 2), (2, 2))),
    "moved": {"always": ((2, 2), (2, 2)), "never": ((4, 1), (1, 8)), "requested": ((2, 2), (2, 2))},
}
"""The shapes of one device's pieces of `up` and `down`, of 8 x 4 and 4 x 8, by how they came and by side."""

MESH = "fsdp4_tensor2"
SIZES = {"batch": 8, "embed": 8, "mlp": 4, "wrong": 12}


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.choice([-1.0, 0.0, 1.0], shape)


def _nine_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Different odd numbers of nine bits, which bfloat16 does not hold; float32 holds all sums of their products."""
    numbers = rng.choice(np.arange(257, 512, 2), size=int(np.prod(shape)), replace=False)
    return (numbers * rng.choice([-1, 1], numbers.shape)).reshape(shape).astype(np.float64)


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """Kernels that come split as the names say, or over the two axes exchanged."""
    up, down = (("fsdp", "tensor"), ("tensor", "fsdp")) if case.id == "split" else (("tensor", "fsdp"), ("fsdp",))
    pulled, rows = case.id == "pulled", "wrong" if case.id == "misfit" else "mlp"
    return {
        "x": Arg(shape=("batch", "embed"), spec=("fsdp",), values=_signs, differentiable=pulled),
        "up": Arg(shape=("embed", "mlp"), spec=up, values=_nine_bits, differentiable=pulled),
        "down": Arg(shape=(rows, "embed"), spec=down, values=_nine_bits, differentiable=pulled),
    }


def _layers(layer: Any) -> Any:
    """Layers in a scan, whose variables are made anew in every turn."""

    def run(x: Any, up: Any, down: Any) -> Any:
        import jax

        return jax.lax.scan(lambda x, kernels: (x + layer(x, *kernels)["out"], None), x, (up, down))[0]

    return run


_CLAIM = "MaxText pull request 3922, item 13 (a): a constraint on every variable makes copies that take memory"
_CLAIMS = (
    Claim(
        shows=VARIANT.program == REFERENCE.program,
        direction="forward",
        source="the kernels lie already as their names say",
    ),
    Claim(
        shows=VARIANT.temp_bytes < 0.98 * REFERENCE.temp_bytes,
        direction="forward",
        variant="never",
        source=_CLAIM,
        finding="FINDING: a constraint that says how an array lies already is no copy: one program on CPU (37.7 MB), "
        "v5p (21.1 MB) and tpu7x (5.0 MB)",
    ),
    Claim(
        shows=VARIANT.temp_bytes < 0.98 * REFERENCE.temp_bytes,
        direction="gradient",
        variant="never",
        target="cpu",
        source=_CLAIM,
        finding="FINDING: another program, of as much temporary memory (151.0 MB) and 0.959 x the traffic",
    ),
)
_COMPILED = (
    RealSize(
        case=Case(id="four_layers", sizes={"layers": 4, "batch": 8192, "embed": 512, "mlp": 4096}),
        args={
            "x": Arg(shape=("batch", "embed"), spec=("fsdp",)),
            "up": Arg(shape=("layers", "embed", "mlp"), spec=(None, "fsdp", "tensor")),
            "down": Arg(shape=("layers", "mlp", "embed"), spec=(None, "tensor", "fsdp")),
        },
        within=_layers,
        layout="fsdp*_tensor2",
        dtype="bfloat16",
        targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
        claims=_CLAIMS,
    ),
)


def _case(name: str, mode: Any, refuses: tuple[Refusal, ...] = ()) -> Case:
    return Case(id=name, sizes=SIZES, modes=(mode,), refuses=refuses)


PAIR = Pair(
    name="variable_sharding",
    reference="always",
    variants=("never", "requested"),
    args=_args,
    cases=(
        _case("split", "auto"),
        _case("moved", "auto"),
        _case("pulled", "explicit"),
        _case(
            "misfit", "auto", (Refusal(error="ValueError", match=r"shapes \(8, 8\), \(8, 4\) and \(12, 8\); expected"),)
        ),
    ),
    dtypes=("float32",),
    meshes=(MESH,),
    modes=("auto", "explicit"),
    compiled=_COMPILED,
    documented=(
        Documented(
            id="3922.13a",
            document="MaxText #3922, item 13a: trainers/pre_train/train.py",
            says="without flax_always_shard_variable nothing changes but copies that are saved",
            variants=("never",),
            saves="temp_bytes",
            directions=("gradient",),  # that of training
        ),
    ),
    contracts=(
        Contract(
            lowest="rounding",
            reason="products of matrices, made in parts of other shapes where kernels are split: the same bits here "
            "where nothing more is said below",
        ),
        Contract(
            direction="gradient",
            case="pulled",
            lowest="rounding",
            reason="sums over rows and columns are made in parts where the kernels are split: the reference "
            "itself moves on a mesh. Over 24 seeds",
        ),
        Contract(
            direction="gradient",
            case="pulled",
            variant="never",
            leaf="x",
            lowest="rounding",
            reason="FINDING: left as they came, the kernels give x the gradient of one device, bit for bit over 24 "
            "seeds; laid out, up to 39 of 192 elements differ: the layout decides what is added first",
        ),
    ),
    accuracy=2,
)

test_variable_sharding = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
MODES = pytest.mark.parametrize("mode", ["auto", "explicit"])


def _placed(mesh: Any, came: str = "whole") -> list[Any]:
    import jax

    rng = np.random.default_rng(0)
    specs = {
        "whole": ((), ()),
        "split": (("fsdp", "tensor"), ("tensor", "fsdp")),
        "moved": (("tensor", "fsdp"), ("fsdp",)),
    }[came]
    arrays = (_signs(rng, (8, 8)), _nine_bits(rng, (8, 4)), _nine_bits(rng, (4, 8)))
    places = (jax.P("fsdp"), *(jax.P(*spec) for spec in specs))
    pairs = zip(arrays, places, strict=True)
    return [jax.device_put(array.astype(np.float32), jax.NamedSharding(mesh, place)) for array, place in pairs]


def _fresh(function: Any) -> Any:
    """Compiled under a key of its own: jax does not look a program up by Flax's options."""
    import jax

    return jax.jit(lambda *arrays: function(*arrays))


def _pieces(found: Any) -> tuple[Any, Any]:
    up, down = (found[name].sharding.shard_shape(found[name].shape) for name in ("up", "down"))
    return up, down


@pytest.mark.sampled(5)
@pytest.mark.cpu_only
@SIDES
@MODES
@pytest.mark.parametrize("came", LAYOUTS)
def test_the_variables_lie_as_declared(side: str, mode: Any, came: str) -> None:
    import jax

    with jax.set_mesh(MeshSpec.parse(MESH).build(mode)):
        arrays = _placed(jax.sharding.get_mesh(), came)
        found = _fresh(implementation(PAIR, side))(*arrays)
    assert _pieces(found) == LAYOUTS[came][side]
    x, up, down = (np.asarray(array) for array in arrays)
    assert_same_bits(found["up"], up)
    assert_same_bits(found["down"], down)
    assert_same_bits(found["out"], np.maximum(x @ up, 0) @ down)


@pytest.mark.sampled(2)
@pytest.mark.cpu_only
@MODES
@pytest.mark.parametrize(
    ("side", "name", "wrong", "came"),
    [
        ("requested", "_laid", lambda array, spec: array, "whole"),
        ("requested", "RULES", {"embed": "tensor", "mlp": "fsdp"}, "split"),
        ("requested", "RULES", {"embed": None, "mlp": "tensor"}, "split"),
        ("always", "RULES", (("embed", "tensor"), ("mlp", "fsdp")), "whole"),
    ],
)
def test_a_wrong_layout_is_found_though_the_values_are_right(
    monkeypatch: pytest.MonkeyPatch, mode: Any, side: str, name: str, wrong: Any, came: str
) -> None:
    import jax

    function = implementation(PAIR, side)
    with jax.set_mesh(MeshSpec.parse(MESH).build(mode)):
        arrays = _placed(jax.sharding.get_mesh(), came)
        honest = _fresh(function)(*arrays)
        monkeypatch.setitem(function.__globals__, name, wrong)
        found = _fresh(function)(*arrays)
    assert_same_bits(found["out"], honest["out"])
    assert _pieces(found) != LAYOUTS[came][side]


@SIDES
@pytest.mark.parametrize("before", [True, False])
def test_the_option_is_as_it_was_after_a_call_and_after_an_error(
    monkeypatch: pytest.MonkeyPatch, side: str, before: bool
) -> None:
    import flax
    import jax

    function = implementation(PAIR, side)
    name = "_Layer" if side == "always" else "_Gated"
    honest, seen = function.__globals__[name], []

    def watched(*arrays: Any) -> Any:
        seen.append(flax.config.flax_always_shard_variable)
        if len(seen) == 2:
            raise RuntimeError("out of memory")
        return honest(*arrays)

    monkeypatch.setitem(function.__globals__, name, watched)
    with flax.config.temp_flip_flag("always_shard_variable", before):
        with jax.set_mesh(MeshSpec.parse("fsdp1_tensor1").build("auto", jax.devices()[:1])):
            arrays = _placed(jax.sharding.get_mesh())
            function(*arrays)
            assert flax.config.flax_always_shard_variable is before
            with pytest.raises(RuntimeError, match="out of memory"):
                function(*arrays)
        assert flax.config.flax_always_shard_variable is before
    assert seen == [side == "always"] * 2
    assert flax.config.flax_always_shard_variable is True, "the default of Flax"


def _constraints(function: Any, *arrays: Any) -> int:
    text = _fresh(function).lower(*arrays).as_text()
    return int(text.count("sdy.sharding_constraint"))


@pytest.mark.cpu_only
def test_what_is_emitted() -> None:
    """One constraint for each variable; as many where the code asks; none with the option off."""
    import jax

    with jax.set_mesh(MeshSpec.parse(MESH).build("auto")):
        arrays = _placed(jax.sharding.get_mesh(), "split")
        found = {side: _constraints(implementation(PAIR, side), *arrays) for side in PAIR.sides}
    assert found == {"always": 2, "never": 0, "requested": 2}


@pytest.mark.cpu_only
def test_changing_the_option_after_the_first_call_has_no_effect() -> None:
    """FINDING: jax does not look a compiled program up by Flax's options: a step traced before the flip keeps its own.

    So the option has to be set before anything is traced, as at the head of a program; and a test that flips it around
    one jitted function compares a program with itself.
    """
    import flax
    import jax
    from flax import nnx

    def making(kernel: Any) -> Any:
        return nnx.Param(kernel, out_sharding=("fsdp", "tensor"))[...]

    made = jax.jit(making)

    with jax.set_mesh(MeshSpec.parse(MESH).build("auto")):
        kernel = _placed(jax.sharding.get_mesh())[1]
        with flax.config.temp_flip_flag("always_shard_variable", True):
            first = made(kernel)
        with flax.config.temp_flip_flag("always_shard_variable", False):
            stale, fresh = made(kernel), _fresh(making)(kernel)
    pieces = [one.sharding.shard_shape(one.shape) for one in (first, stale, fresh)]
    assert pieces == [(2, 2), (2, 2), (8, 4)]


@pytest.mark.cpu_only
@pytest.mark.parametrize("on", [True, False])
def test_linen_does_not_ask_the_option(on: bool) -> None:
    """FINDING: a Linen parameter with names is under a constraint whenever it is read, on or off."""
    import flax
    import jax
    from flax import linen

    kernel_init = linen.with_partitioning(linen.initializers.ones, ("fsdp", "tensor"))
    dense = linen.Dense(4, use_bias=False, kernel_init=kernel_init)
    with jax.set_mesh(MeshSpec.parse(MESH).build("auto")), flax.config.temp_flip_flag("always_shard_variable", on):
        x = _placed(jax.sharding.get_mesh())[0]
        weights = dense.init(jax.random.key(0), x)
        assert _constraints(dense.apply, weights, x) == 1


def test_without_a_mesh_a_named_variable_is_rejected() -> None:
    """FINDING: turning it off turns an error off too."""
    import flax
    from flax import nnx

    with flax.config.temp_flip_flag("always_shard_variable", True), pytest.raises(ValueError, match="mesh context"):
        nnx.Param(np.ones((8, 4)), out_sharding=("fsdp", "tensor"))
    with flax.config.temp_flip_flag("always_shard_variable", False):
        assert nnx.Param(np.ones((8, 4)), out_sharding=("fsdp", "tensor"))[...].shape == (8, 4)


@pytest.mark.cpu_only
def test_the_context_manager_of_nnx_goes_before_the_option() -> None:
    import flax
    import jax
    from flax import nnx

    with jax.set_mesh(MeshSpec.parse(MESH).build("auto")), flax.config.temp_flip_flag("always_shard_variable", True):
        kernel = _placed(jax.sharding.get_mesh())[1]
        context: Any = nnx.use_eager_sharding
        with context(False):
            found = nnx.Param(kernel, out_sharding=("fsdp", "tensor"))[...]
    assert found.sharding.shard_shape(found.shape) == (8, 4)


@SIDES
def test_wrong_shapes_are_refused(side: str) -> None:
    function = implementation(PAIR, side)
    x, up, down = np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 3))
    for wrong in ((x[0], up, down), (x[:, :2], up, down), (x, up, up), (x, up, down[:2])):
        with pytest.raises(ValueError, match=r"x, up and down have shapes .*; expected \[batch, embed\]"):
            function(*wrong)
