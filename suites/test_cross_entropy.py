"""Cross entropy: all logits at once, against one part of the sequence at a time, with autodiff or a custom derivative.

The numbers below were measured on CPU (jax 0.10.2, 8 devices) over 40 seeds at the shapes of the cases.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Domain,
    Integers,
    MeshSpec,
    Normal,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

SMALL = {"batch": 8, "seq": 4, "embed": 8, "vocab": 12}
BATCH = ("data", "fsdp")
MIXED = "fsdp4_tensor2"
FINITE = Domain(finite=("hidden", "kernel", "weights"))


def _weights(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.choice([0.0, 0.5, 1.0, 2.0], shape)


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """The arrays of a case. `masked`: targets outside the vocabulary, and logits of which `exp` would be infinite."""
    vocab, masked = case.sizes["vocab"], case.id == "masked"
    return {
        "hidden": Arg(
            shape=("batch", "seq", "embed"), spec=(BATCH,), values=Normal(scale=40.0) if masked else Normal()
        ),
        "kernel": Arg(shape=("embed", "vocab"), spec=(None, "tensor")),
        "targets": Arg(
            shape=("batch", "seq"),
            dtype="int32",
            spec=(BATCH,),
            values=Integers(high=vocab, also=(-1, -100, vocab, vocab + 7) if masked else ()),
        ),
        "weights": Arg(shape=("batch", "seq"), dtype="float32", spec=(BATCH,), values=_weights),
    }


def _rounds(reason: str, *, error_ratio: float | None = None, **where: str) -> Contract:
    return Contract(lowest="rounding", error_ratio=error_ratio, reason=reason, domain=FINITE, **where)


_CONTRACTS = (
    _rounds(
        "a vocabulary split over tensor is summed in parts, and so are the rows of a product with fewer rows: "
        "the reference itself moves in 8 of 32 elements, the parts in 15",
        direction="forward",
    ),
    _rounds(
        "the kernel's gradient is summed over tokens in parts, over devices and over the sequence: the "
        "reference itself moves in 81 of 96 elements, the parts in 87",
        direction="gradient",
    ),
    _rounds(
        "parts of the sequence multiply other numbers of rows: 2 of 32 elements of the losses and 1 of 256 of "
        "the hidden states' gradient differ",
        dtype="bfloat16",
    ),
    _rounds(
        "summed in float32 and rounded once: no bit of 3840 elements differs, on one device or 8",
        dtype="bfloat16",
        direction="gradient",
        leaf="kernel",
    ),
    _rounds(
        "FINDING: autodiff adds up the parts of the kernel's gradient in the kernel's bfloat16: 45 of 96 elements "
        "differ with 4 parts, and sums that are small beside their terms have 3.8 times the error; over 64 parts of 4 "
        "tokens the ratio is 4.9, that of chunked_custom_gradient 0.82: prefer that",
        error_ratio=8,
        variant="chunked",
        dtype="bfloat16",
        direction="gradient",
        leaf="kernel",
    ),
)

PAIR = Pair(
    name="cross_entropy",
    reference="log_softmax",
    variants=("chunked", "chunked_custom_gradient"),
    args=_args,
    cases=(
        # The proofs interpret every part, so the cases are few: each has its own dtype and mesh.
        Case(
            id="z_loss",
            sizes=SMALL,
            statics={"z_loss": 1e-2, "chunks": 2},
            symbols={"seq": "chunks*part"},
            dtypes=("float32",),
            meshes=(MIXED,),
        ),
        Case(
            id="masked",
            sizes=SMALL,
            statics={"chunks": 4},
            symbols={"seq": "chunks*part"},
            dtypes=("bfloat16",),
            meshes=("data8",),
        ),
        Case(
            id="indivisible",
            sizes=SMALL,
            statics={"chunks": 3},
            dtypes=("float32",),
            meshes=("data1",),
            refuses=(Refusal(error="ValueError", match="chunks is 3; expected a divisor of the sequence's 4 tokens"),),
        ),
    ),
    dtypes=("bfloat16", "float32"),
    meshes=("data1", "data8", MIXED),
    modes=("auto", "explicit"),
    out_spec={"out['loss']": (BATCH,), "out['log_z']": (BATCH,)},
    compiled=(
        RealSize(
            case=Case(
                id="vocab_32k",
                sizes={"batch": 8, "seq": 4096, "embed": 2048, "vocab": 32768},
                statics={"z_loss": 1e-4, "chunks": 8},
            ),
            layout="fsdp*",
            dtype="bfloat16",
            targets=("tpu7x:2x2x1",),
            claims=(
                Claim(
                    direction="forward",
                    shows=VARIANT.temp_bytes <= 0.5 * REFERENCE.temp_bytes,
                    source="an eighth of the logits is held",
                ),
                Claim(
                    variant="chunked",
                    versions="0.0.42.*",
                    shows=VARIANT.temp_bytes <= 0.5 * REFERENCE.temp_bytes,
                    source="as above",
                ),
                Claim(
                    variant="chunked",
                    direction="gradient",
                    versions="0.0.50.*",
                    shows=VARIANT.temp_bytes <= 0.5 * REFERENCE.temp_bytes,
                    source="as above",
                    finding="going back 0.57 times the reference's memory, where libtpu 0.0.42.1 needs 0.33",
                ),
                Claim(
                    variant="chunked_custom_gradient",
                    direction="gradient",
                    shows=VARIANT.temp_bytes <= 0.5 * REFERENCE.temp_bytes,
                    source="as above",
                    finding="the kernel's gradient is added up, and summed over devices, in float32: 0.52 times the "
                    "reference's memory (0.73 with libtpu 0.0.50.1), and twice the bytes that chunked sends",
                ),
            ),
        ),
    ),
    contracts=_CONTRACTS,
    accuracy=2,
)

test_cross_entropy = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
SMALL_RUNS = settings(max_examples=5, deadline=None, derandomize=True, database=None)
TOKENS, WIDTH, VOCAB = (3, 8), 6, 10
PRECISION = "highest"
"""A TPU and a GPU take float32 in fewer digits by default. In every program alike, so that tests share them."""


def _inputs(seed: int = 0, scale: float = 1.0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    hidden, kernel = rng.standard_normal((*TOKENS, WIDTH)), rng.standard_normal((WIDTH, VOCAB))
    targets, weights = rng.integers(-2, VOCAB + 2, TOKENS), rng.choice([0.0, 0.5, 1.0, 2.0], TOKENS)
    return (scale * hidden).astype(np.float32), kernel.astype(np.float32), targets, weights.astype(np.float32)


@functools.cache
def _forward(side: str, **statics: Any) -> Any:
    import jax

    def run(*arrays: Any) -> Any:
        with jax.default_matmul_precision(PRECISION):
            return implementation(PAIR, side)(*arrays, **statics)

    return jax.jit(run)


def _run(side: str, *arrays: Any, **statics: Any) -> Any:
    return {name: np.asarray(x) for name, x in _forward(side, **statics)(*arrays).items()}


@functools.cache
def _pull(side: str, **statics: Any) -> Any:
    import jax

    def pull(hidden: Any, kernel: Any, targets: Any, weights: Any, cotangents: Any) -> Any:
        function = functools.partial(implementation(PAIR, side), **statics)
        with jax.default_matmul_precision(PRECISION):
            return jax.vjp(lambda h, k, w: function(h, k, targets, w), hidden, kernel, weights)[1](cotangents)

    return jax.jit(pull)


def _gradients(side: str, arrays: Any, to_loss: Any, to_log_z: Any, dtype: str = "float32", **statics: Any) -> Any:
    """The pull-back of cotangents to hidden states, kernel and weights, as float64 numbers."""
    import jax.numpy as jnp

    hidden, kernel, targets, weights = arrays
    cotangents = {"loss": jnp.asarray(to_loss, jnp.float32), "log_z": jnp.asarray(to_log_z, jnp.float32)}
    found = _pull(side, **statics)(jnp.asarray(hidden, dtype), jnp.asarray(kernel, dtype), targets, weights, cotangents)
    return [np.asarray(gradient, np.float64) for gradient in found]


def _replay(hidden: Any, kernel: Any, targets: Any, weights: Any, z_loss: float) -> Any:
    """The definition in float64, token by token, with the gradients of the sum of all losses."""
    out = {name: np.zeros(targets.shape) for name in ("loss", "log_z")}
    to_hidden, to_kernel = np.zeros(hidden.shape), np.zeros(kernel.shape)
    for token in np.ndindex(targets.shape):
        if not 0 <= targets[token] < kernel.shape[1]:
            continue
        row = hidden[token].astype(np.float64)
        logits = row @ kernel.astype(np.float64)
        log_z = logits.max() + np.log(np.exp(logits - logits.max()).sum())
        pulled = (1 + 2 * z_loss * log_z) * np.exp(logits - log_z)
        pulled[targets[token]] -= 1
        out["loss"][token] = weights[token] * (log_z - logits[targets[token]] + z_loss * log_z**2)
        out["log_z"][token] = log_z
        to_hidden[token] = weights[token] * kernel.astype(np.float64) @ pulled
        to_kernel += weights[token] * np.outer(row, pulled)
    return out, to_hidden, to_kernel


def _apart(found: Any, expected: Any) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.sampled(2)
@SIDES
@pytest.mark.parametrize(("scale", "z_loss", "chunks"), [(1.0, 0.0, 1), (1.0, 0.1, 4), (100.0, 1e-4, 8)])
def test_the_definition_replayed_token_by_token(side: str, scale: float, z_loss: float, chunks: int) -> None:
    """Relative to the largest: noise 1.8e-6, nearest fault 3.8e-2 (z-loss left out of the derivative)."""
    arrays = _inputs(scale=scale)
    out, to_hidden, to_kernel = _replay(*arrays, z_loss)
    found = _run(side, *arrays, z_loss=z_loss, chunks=chunks)
    pulled = _gradients(side, arrays, np.ones(TOKENS), np.zeros(TOKENS), z_loss=z_loss, chunks=chunks)
    for leaf in ("loss", "log_z"):
        assert found[leaf].dtype == np.float32 and _apart(found[leaf], out[leaf]) < 1e-5
    assert _apart(pulled[0], to_hidden) < 1e-5 and _apart(pulled[1], to_kernel) < 1e-5


@pytest.mark.sampled(1)
@SIDES
@given(seed=st.integers(0, 1000), chunks=st.sampled_from([1, 2, 8]), z_loss=st.sampled_from([0.0, 0.25]))
@SMALL_RUNS
def test_an_ignored_token_gives_nothing_and_takes_nothing(side: str, seed: int, chunks: int, z_loss: float) -> None:
    """Whatever its target is, as long as it is not in the vocabulary; its neighbours do not notice."""
    hidden, kernel, targets, weights = _inputs(seed)
    ignored = (targets < 0) | (targets >= VOCAB)
    ignored[0, 0], targets[0, 0] = True, -100
    other = np.where(ignored, np.iinfo(np.int32).max, targets)
    # The reference has no chunks: each number of them would be the same program once more.
    statics: dict[str, Any] = {"z_loss": z_loss, "chunks": 1 if side == PAIR.reference else chunks}
    first, second = (_run(side, hidden, kernel, t, weights, **statics) for t in (targets, other))
    ones = np.ones(TOKENS)
    pulled = _gradients(side, (hidden, kernel, targets, weights), ones, ones, **statics)
    for leaf in ("loss", "log_z"):
        assert not first[leaf][ignored].any() and first[leaf][~ignored].any()
        assert_same_bits(first[leaf], second[leaf])
    assert not pulled[0][ignored].any() and not pulled[2][ignored].any()
    again = _gradients(side, (np.where(ignored[..., None], 3, hidden), kernel, other, weights), ones, ones, **statics)
    assert_same_bits(pulled[1], again[1])


@SIDES
@given(seed=st.integers(0, 1000), power=st.integers(-3, 3))
@SMALL_RUNS
def test_the_gradient_is_linear_in_the_cotangent(side: str, seed: int, power: int) -> None:
    """A cotangent of 4 gives 4 times the gradient, to the bit: it is not taken as 1, and no leaf's is left out."""
    arrays, rng = _inputs(seed), np.random.default_rng(seed)
    to_loss, to_log_z = rng.standard_normal(TOKENS), rng.standard_normal(TOKENS)
    statics: dict[str, Any] = {"z_loss": 0.1, "chunks": 4}
    once = _gradients(side, arrays, to_loss, to_log_z, **statics)
    scaled = _gradients(side, arrays, 2.0**power * to_loss, 2.0**power * to_log_z, **statics)
    for single, multiple in zip(once, scaled, strict=True):
        assert_same_bits(2.0**power * single, multiple)
    alone = _gradients(side, arrays, 0 * to_loss, to_log_z, **statics)
    assert alone[0].any() and alone[1].any() and not alone[2].any(), "log_z has gradients too, but not to the weights"


@SIDES
def test_a_sure_token_has_a_loss_near_zero_and_not_below(side: str) -> None:
    """The difference of the normaliser and the logit would be 0 or 1e-6 here: the loss is `exp(-20)`, 2e-9."""
    hidden, kernel = np.ones((1, 2, 1), np.float32), np.array([[1000.0, 980.0]], np.float32)
    targets, weights = np.zeros((1, 2), np.int32), np.ones((1, 2), np.float32)
    found = _run(side, hidden, kernel, targets, weights)["loss"]
    assert (found >= 0).all() and (found < 1e-8).all()
    assert_same_bits(_run(side, hidden, kernel, targets + 1, weights)["loss"], np.full((1, 2), 20, np.float32))


def _sizes(jaxpr: Any) -> Iterator[int]:
    """The number of elements of everything that a program computes, its inner programs included."""
    import jax

    for equation in jaxpr.eqns:
        yield from (int(np.prod(variable.aval.shape)) for variable in equation.outvars if hasattr(variable, "aval"))
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from _sizes(inner)


@pytest.mark.parametrize(("side", "whole"), [("log_softmax", True), *((side, False) for side in PAIR.variant_names)])
@pytest.mark.parametrize("gradient", [False, True])
def test_no_part_of_the_program_has_all_logits(side: str, whole: bool, gradient: bool) -> None:
    """256 tokens and 100 entries: the largest array of the chunked forms is an eighth of the logits."""
    import jax

    function = implementation(PAIR, side)
    hidden, kernel = np.ones((4, 64, 2), np.float32), np.ones((2, 100), np.float32)
    targets, weights = np.ones((4, 64), np.int32), np.ones((4, 64), np.float32)

    def total(hidden: Any, kernel: Any) -> Any:
        return function(hidden, kernel, targets, weights, chunks=8)["loss"].sum()

    program = jax.make_jaxpr(jax.grad(total, (0, 1)) if gradient else total)(hidden, kernel)
    assert max(_sizes(program.jaxpr)) == 4 * 64 * 100 // (1 if whole else 8)


@pytest.mark.cpu_only
def test_the_custom_gradient_adds_bfloat16_parts_in_float32() -> None:
    """Sixty-four equal parts of 1/256 on one of 1: a sum in bfloat16 stays where it is."""
    hidden = np.full((1, 65, 1), 2.0**-7)
    hidden[0, -1] = 2.0  # The last part is the first one pulled back.
    arrays = (hidden, np.zeros((1, 2)), np.zeros((1, 65), np.int32), np.ones((1, 65), np.float32))
    zero = np.zeros((1, 65))
    sums = {s: _gradients(s, arrays, zero + 1, zero, "bfloat16", chunks=65)[1][0, 1] for s in PAIR.variant_names}
    assert sums == {"chunked": 1.0, "chunked_custom_gradient": 1.25}


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    hidden, kernel, targets, weights = _inputs()
    with pytest.raises(ValueError, match="z_loss is -1; expected a finite number of at least 0"):
        _run(side, hidden, kernel, targets, weights, z_loss=-1)
    with pytest.raises(ValueError, match="targets have dtype float32; expected an integer dtype"):
        _run(side, hidden, kernel, weights, weights)
    with pytest.raises(ValueError, match=r"hidden and kernel have shapes .*; expected \[batch, seq, embed\]"):
        _run(side, hidden, kernel.T, targets, weights)
    with pytest.raises(ValueError, match=r"targets and weights have shapes .*; expected \(3, 8\), one per token"):
        _run(side, hidden, kernel, targets, weights[:, :1])
    for chunks in (0, 3, 16):
        with pytest.raises(ValueError, match=f"chunks is {chunks}; expected a divisor of the sequence's 8 tokens"):
            _run(side, hidden, kernel, targets, weights, chunks=chunks)
