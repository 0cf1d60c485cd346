"""The float64 interpreter and jax: random programs of every primitive, their gradients, and extreme values."""

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterable
from typing import Any

import flax
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

import samebits
from samebits.errors import NotCovered
from samebits.interpret import arrays, data_movement, sorting
from samebits.interpret import arrays as special_functions
from samebits.interpret.arrays import evaluate
from samebits.interpret.complex_pairs import real_program
from samebits.interpret.control_flow import branch_of
from samebits.interpret.equation import JAX, Step, is_machinery
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.float64_differences import simulate
from samebits.interpret.interpreter import Interpreter, StepCache
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Input, Question
from samebits.numerics import floats
from samebits.numerics.floats import width
from tests.interpret.arithmetic import TABLE, near
from tests.interpret.executed import Recording, agree, check, missing
from tests.interpret.programs import Program, Skip, Tape, few, kind_of


def drawn(seed: int) -> list[Any]:
    """Inputs of several dtypes, the ends of the ranges of integers among them."""
    rng = np.random.default_rng(seed)
    ends = np.array([-(2**31), 2**31 - 1, -1, 0, 1, 7], np.int32)
    return [
        rng.normal(size=(2, 3, 2)),
        rng.normal(size=(3, 2)),
        rng.permutation(np.concatenate([ends, rng.integers(-9, 9, 6, np.int32)])).reshape(2, 3, 2),
        rng.choice(np.array([-(2**63), 2**63 - 1, -1, 0, 5], np.int64), 4),
        rng.integers(0, 256, (3, 2), np.uint8),
        rng.integers(0, 2, (2, 3)).astype(bool),
    ]


@few(12)
@given(tape=st.binary(min_size=100, max_size=100), seed=st.integers(0, 999))
def test_a_random_program_is_what_jax_computes(tape: bytes, seed: int) -> None:
    check(Program(tape, TABLE), *drawn(seed))


UNDIFFERENTIABLE = {"nextafter", "erf", "erfc"}  # the derivatives of the latter read bits, in newer versions of jax
DIFFERENTIABLE = {name: op for name, op in TABLE.items() if "f" in op.kinds and name not in UNDIFFERENTIABLE}


@pytest.mark.slow
@few(6)
@given(tape=st.binary(min_size=60, max_size=60), seed=st.integers(0, 999))
def test_the_gradient_of_a_random_program_is_what_jax_computes(tape: bytes, seed: int) -> None:
    program = Program(tape, DIFFERENTIABLE, outputs=12)

    def loss(x: Any, y: Any) -> Any:
        return sum(jnp.sum(near(out)) for out in program(x, y) if kind_of(out) == "f")

    check(jax.grad(loss, (0, 1)), *drawn(seed)[:2])


ELSEWHERE = {"multiple_of", "pvary", "reshard", "sharding_constraint", "empty", "empty2", *special_functions.SPECIAL}
"""Met by tests of kernels, collectives, control flow, special functions and composite primitives."""


def applied(names: Iterable[str], draws: int = 2) -> Callable[..., list[Any]]:
    """Operations of the table on the first value that each fits, with some choices of its parameters."""

    def program(*inputs: Any) -> list[Any]:
        # It adds two cotangents; newer versions of jax have a primitive for the derivative of tanh.
        outputs: list[Any] = [jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.tanh(x)))(inputs[0])]
        for name in names:
            x = next(one for one in map(jnp.asarray, inputs) if kind_of(one) in TABLE[name].kinds)
            made = 0
            for seed in range(40):
                tape = Tape(random.Random(f"{name} {seed}").randbytes(60))
                with contextlib.suppress(Skip):
                    outputs += jax.tree.leaves(TABLE[name].function(tape, x, [x, jnp.flip(x)]))
                    made += 1
                if made == draws:
                    break
            assert made == draws, name
        return outputs

    return program


def test_every_primitive_is_met_and_is_what_jax_computes() -> None:
    met = check(applied(TABLE), *drawn(0))
    names = {*arrays.ARITHMETIC, *data_movement.MOVES, *sorting.ORDERED, *data_movement.STILL} - ELSEWHERE
    assert not missing(names, met)
    assert missing({*names, "cholesky"}, met) == ["cholesky"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sizes", [[2, 0, 4, 1], [2, 0, 3, 0], [0, 0, 0, 0]])
def test_a_ragged_product_is_what_jax_computes(sizes: list[int]) -> None:
    """Rows of an empty group, and rows of none."""
    x, w = np.random.default_rng(1).normal(size=(7, 3)), np.random.default_rng(2).normal(size=(4, 3, 2))
    counts = np.array(sizes, np.int32)
    assert "ragged_dot_general" in check(lax.ragged_dot, x, w, counts)
    check(jax.grad(lambda *args: jnp.sum(jnp.sin(lax.ragged_dot(*args))), (0, 1)), x, w, counts)


# -- the ends of the ranges

ENDS = {
    "float64": [np.nan, np.inf, -np.inf, 1.5, -2.5, 1e300, -1e300, 5e9, 2.0**63, -(2.0**63), 0.49999999999999994, 3],
    "int64": [-(2**63), -(2**63) + 1, 2**63 - 1, -1, 0, 1, 5, -7],
    "uint64": [2**64 - 1, 2**63, 2**63 + 1, 0, 1, 5],
    "int32": [-(2**31), 2**31 - 1, -1, 0, 1, 5, -7],
    "uint32": [2**32 - 1, 2**31, 0, 1, 5],
    "int8": [-128, 127, -1, 0, 1, 5, -7],
}


def of_ends(x: Any) -> list[Any]:
    """What depends on the ends of a range, on infinities and on NaN: division, order and conversion."""
    rows, columns = (jnp.broadcast_to(side, (x.size, x.size)) for side in (x[:, None], x[None, :]))
    pairs = (lax.rem, lax.max, lax.min, lax.add, lax.mul, lax.sub, *([] if kind_of(x) == "f" else [lax.div]))
    found: list[Any] = [function(rows, columns) for function in pairs]
    found += [lax.sign(x), lax.square(x), lax.clamp(x[2], x, x[3]), lax.sort((x, jnp.arange(x.size)), num_keys=1)]
    found += [function(x, 0, reverse=back) for function in (lax.cummax, lax.cummin) for back in (False, True)]
    found += [function(x, (0,)) for function in (lax.reduce_max, lax.reduce_min)]
    found += [function(x, 0, np.int32) for function in (lax.argmax, lax.argmin)]
    found += [lax.top_k(x, 4), *(x.astype(name) for name in (*ENDS, "bool"))]
    if kind_of(x) == "f":
        found += [lax.round(x, method) for method in lax.RoundingMethod] + [lax.is_finite(x), lax.logistic(x)]
    else:
        found += [function(rows, columns) for function in (lax.shift_right_arithmetic, lax.shift_left)]
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ENDS)
def test_the_ends_of_the_ranges_are_what_jax_makes_of_them(dtype: str) -> None:
    check(of_ends, np.array(ENDS[dtype], dtype))


def test_zeros_of_both_signs_are_ordered_as_jax_orders_them() -> None:
    x = np.array([0.0, -0.0, 0.0, -0.0])
    check(lambda x: [lax.top_k(x, 4), lax.sort((x, jnp.arange(4)), num_keys=1), lax.argmax(x, 0, np.int32)], x)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_program_of_narrow_floats_is_walked_in_float64(dtype: str) -> None:
    def program(x: Any, y: Any) -> Any:
        product = (jnp.exp(x) @ y).astype(jnp.bfloat16) / 4
        return jax.nn.softmax(product.astype(x.dtype)) + x.sum() * 2

    x, y = drawn(5)[0][0], drawn(5)[1].T
    narrow = jax.make_jaxpr(program)(x.astype(dtype), y.astype(dtype))
    (found,) = Recording()(narrow, x, y)
    wide = np.exp(x) @ y / 4
    wide = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True) + x.sum() * 2
    assert found.dtype == np.float64 and agree(found, wide)


# -- planted faults of the interpreter


def changed(name: str, **params: Callable[[Any], Any]) -> data_movement.MoveRule:
    """A move that reads its parameters wrong."""
    right = data_movement.MOVES[name]

    def wrong(step: Any) -> Any:
        read = {key: change(step.params[key]) for key, change in params.items()}
        return dataclasses.replace(step, params={**step.params, **read})

    return dataclasses.replace(
        right,
        rule=lambda step, arrays, indices: right.rule(wrong(step), arrays, indices),
        prepared=lambda step, indices: right.prepared(wrong(step), indices),
    )


def backwards(x: Any) -> Any:
    return tuple(reversed(x))


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "rev does nothing": (data_movement.MOVES, "rev", changed("rev", dimensions=lambda dims: ())),
    "pad exchanges low and high": (
        data_movement.MOVES,
        "pad",
        changed("pad", padding_config=lambda config: [(high, low, between) for low, high, between in config]),
    ),
    "a reshape forgets to transpose": (
        data_movement.MOVES,
        "reshape",
        changed("reshape", dimensions=lambda dims: None),
    ),
    "a transpose is its inverse": (
        data_movement.MOVES,
        "transpose",
        changed("transpose", permutation=lambda order: tuple(np.argsort(order))),
    ),
    "a gather clips what it should fill": (data_movement.MOVES, "gather", changed("gather", mode=lambda mode: "CLIP")),
    "a scatter clips what it should drop": (
        data_movement.MOVES,
        "scatter",
        changed("scatter", mode=lambda mode: "CLIP"),
    ),
    "select takes the other case": (
        data_movement.MOVES,
        "select_n",
        dataclasses.replace(
            data_movement.MOVES["select_n"],
            rule=lambda step, arrays, indices: data_movement._select_n(step, arrays[::-1], indices),
        ),
    ),
    "division goes down": (arrays.ARITHMETIC, "div", lambda step, x, y: x // np.where(y == 0, 1, y)),
    "the remainder has the sign of the divisor": (arrays.ARITHMETIC, "rem", lambda step, x, y: np.mod(x, y)),
    "halves are rounded to even": (arrays.ARITHMETIC, "round", lambda step, x: np.round(x)),
    "a running sum is not reversed": (
        arrays.ARITHMETIC,
        "cumsum",
        lambda step, x: np.cumsum(x, axis=step.params["axis"]),
    ),
    "a shift beyond the bits wraps": (arrays.ARITHMETIC, "shift_left", lambda step, x, y: x << (y % 32)),
    "the last of equal elements": (
        sorting.ORDERED,
        "argmax",
        lambda domain, step, values: [
            np.asarray(values[0].shape[axis] - 1 - np.argmax(np.flip(values[0], axis), axis), np.int32)
            for axis in step.params["axes"]
        ],
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_walk_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, name, wrong = FAULTS[fault]
    inputs = drawn(0)
    check(applied([name], 8), *inputs)
    monkeypatch.setitem(table, name, wrong)
    with pytest.raises((AssertionError, NotCovered)):
        check(applied([name], 8), *inputs)


def test_steps_are_made_once_for_all_interpretations(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    usual = Step.of

    def counted(eqn: Any) -> Step:
        made.append(eqn)
        return usual(eqn)

    monkeypatch.setattr(Step, "of", counted)
    closed = jax.make_jaxpr(lambda x: jnp.sin(x) * 2 + x[::-1])(np.zeros(3, np.float32))
    for x in (np.arange(3.0), np.ones(3)):
        np.testing.assert_allclose(Interpreter(Oracle())(closed, x)[0], np.sin(x) * 2 + x[::-1])
    assert made and len(made) == len(set(map(id, made)))


def test_steps_hold_their_equations_so_that_no_other_gets_the_id() -> None:
    cache = StepCache()
    for number in range(200):  # without it, an id is used again and gives the step of an equation that is gone
        (eqn,) = jax.make_jaxpr(lambda x, n=number: x * np.float32(n))(np.float32(1)).jaxpr.eqns
        assert cache.of(eqn).equation is eqn
        assert cache.holds(cache.of(eqn))
        assert not cache.holds(Step.of(eqn)), "a step of its own may be dropped, and its id used again"


# --- shifts of integers narrower than a byte are those that jax computes ---------------------------------------------


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("name", ["shift_left", "shift_right_arithmetic", "shift_right_logical"])
def test_a_shift_is_what_jax_computes(name: str, dtype: str) -> None:
    count = 16 if dtype.endswith("4") else 4
    values = np.arange(count).astype("uint8").astype(dtype)
    for distance in range(2 if count == 4 else 4):
        by = np.full(count, distance).astype(dtype)
        expected = np.asarray(getattr(jax.lax, name)(values, by))
        (equation,) = jax.make_jaxpr(getattr(jax.lax, name))(values, by).jaxpr.eqns
        (shifted,) = evaluate(Step.of(equation), [values, by])
        assert shifted.dtype == expected.dtype
        assert np.array_equal(shifted.astype(int), expected.astype(int))


# --- `bitcast_convert_type` between integers of different widths, beside what jax gives ------------------------------

BYTES = np.arange(256, dtype=np.uint8).reshape(2, 16, 8)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("uint8", "int4"),
        ("int8", "uint4"),
        ("int4", "uint8"),
        ("uint4", "int4"),
        ("int4", "uint4"),
        ("uint16", "int4"),
        ("uint8", "int8"),
        ("uint8", "uint32"),
        ("int32", "uint8"),
        ("int16", "uint32"),
    ],
)
def test_the_bits_are_those_of_jax(before: str, after: str) -> None:
    old, new = (np.dtype(getattr(ml_dtypes, name, name)) for name in (before, after))
    joined = max(1, width(new) // width(old))
    values: Any = BYTES.astype(old).reshape(-1, joined)
    values = values[:, 0] if joined == 1 else values

    def cast(x: Any) -> Any:
        return lax.bitcast_convert_type(x, new)

    (equation,) = jax.make_jaxpr(cast)(values).jaxpr.eqns
    (array,) = evaluate(Step.of(equation), [values])
    expected = np.asarray(cast(jnp.asarray(values)))
    assert array.dtype == expected.dtype and array.shape == expected.shape
    assert np.array_equal(array.astype(np.int64), expected.astype(np.int64))


def test_packed_weights_unpacked_by_shifts_and_by_a_bitcast() -> None:
    def shifted(x: Any, packed: Any) -> Any:
        low, high = (packed << 4).astype(jnp.int8) >> 4, packed.astype(jnp.int8) >> 4
        return x @ jnp.stack([low, high], 1).reshape(-1, packed.shape[1]).astype(x.dtype)

    def cast(x: Any, packed: Any) -> Any:
        weights = lax.bitcast_convert_type(packed, jnp.int4)
        return x @ weights.transpose(0, 2, 1).reshape(-1, packed.shape[1]).astype(x.dtype)

    x = jax.ShapeDtypeStruct((4, 8), np.float32)
    compared = samebits.check(shifted, cast, x, jax.ShapeDtypeStruct((4, 6), np.uint8))
    assert compared.ok, compared
    assert repr(compared).count("the same formulas") == len(compared.leaves) == 2


# --- programs as they are written, in NumPy: what `lax.reduce_precision` rounds is rounded ---------------------------


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), [(8, 10), (8, 7), (5, 10), (4, 3), (5, 2)])
def test_reduced_precision_is_that_of_xla(exponent_bits: int, mantissa_bits: int) -> None:
    """Halfway cases, both ends of the range, signed zeros and infinities; not float32's own subnormal numbers."""
    scales = np.float32(10) ** np.arange(-37, 38, dtype=np.float32)
    edges = [np.inf, -np.inf, 0.0, -0.0, 65504, 65519, 65520, 6e-5, 6.1e-5, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    drawn = np.random.default_rng(0).standard_normal((20, 1)).astype(np.float32) * scales
    x = np.concatenate([drawn.ravel(), np.array(edges, np.float32)])
    x = x[(np.abs(x) >= np.finfo(np.float32).tiny) | (x == 0)]

    def reduced(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_precision(x, exponent_bits, mantissa_bits)

    program = jax.make_jaxpr(reduced)(x)
    written = simulate(program, Question(program, program, [Input("x", x)], ["out"]))["out"]
    np.testing.assert_array_equal(written.view(np.int32), np.asarray(reduced(x)).view(np.int32))


# --- the branch of `lax.platform_dependent` that a platform takes ----------------------------------------------------


def test_a_platform_takes_its_own_branch_or_the_default() -> None:
    platforms = (("cpu",), ("cuda", "rocm"), None)
    assert [branch_of(name, platforms) for name in ("cpu", "gpu", "cuda", "tpu", None)] == [0, 1, 1, 2, 2]


def test_a_platform_without_a_branch_is_not_covered() -> None:
    with pytest.raises(NotCovered, match=r"no branch of lax\.platform_dependent is for tpu"):
        branch_of("tpu", (("cpu",),))


# --- programs of complex inputs and outputs as programs of their parts -----------------------------------------------

RNG = np.random.default_rng(29)
Z, W = ((RNG.normal(size=(3, 2)) + 1j * RNG.normal(size=(3, 2))).astype(np.complex64) for _ in range(2))


def question(first: Any, second: Any) -> Question:
    left, right = (real_program(jax.make_jaxpr(side)(Z, W)) for side in (first, second))
    return Question(left, right, [Input("z", floats.parts(Z)), Input("w", floats.parts(W))], ["out"])


def test_a_program_of_parts_computes_what_the_program_does() -> None:
    closed = real_program(jax.make_jaxpr(lambda z, w: (z * w, jnp.real(z)))(Z, W))
    assert [aval.str_short() for aval in closed.in_avals] == ["float32[3,2,2]"] * 2
    product, real = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, floats.parts(Z), floats.parts(W))
    np.testing.assert_allclose(product, floats.parts(Z * W), rtol=1e-6)
    np.testing.assert_allclose(real, Z.real)


def test_a_real_program_is_the_same_object() -> None:
    closed = jax.make_jaxpr(jnp.sin)(np.ones(3, np.float32))
    assert real_program(closed) is closed


def test_formulas_of_complex_inputs_are_told_apart() -> None:
    proofs = identity(question(lambda z, w: z * w + z, lambda z, w: z * (w + 1)))
    assert proofs["out"].equal and proofs["out"].elements == 12
    assert not identity(question(lambda z, w: z * w, lambda z, w: z * jnp.conj(w)))["out"].equal


def test_complex_inputs_are_not_taken_as_fixed_numbers() -> None:
    closed = jax.make_jaxpr(lambda z, w: z * w)(Z, W)
    with pytest.raises(NotCovered, match="'z' is complex64, whose parts are not separate inputs"):
        identity(Question(closed, closed, [Input("z", Z), Input("w", W)], ["out"]))


# --- which stack frames are passed over: those of jax and of libraries, and not of users' folders with such a name ---


@pytest.mark.parametrize(
    ("file", "libraries", "expected"),
    [
        (jax.__file__, None, True),
        (jax.__file__, JAX, True),
        (flax.__file__, None, True),
        (flax.__file__, JAX, False),
        ("venv/lib/python3.12/site-packages/haiku/base.py", None, True),
        ("C:\\Python\\Lib\\site-packages\\jaxlib\\mlir\\ir.py", JAX, True),
        ("<frozen importlib._bootstrap>", None, True),
        ("work/jax/attention.py", None, False),
        ("work/flax/examples/train.py", None, False),
        ("work/site-packages/mine/jax/kernel.py", None, False),
    ],
)
def test_frames_of_libraries_are_known_by_their_package(
    file: str, libraries: frozenset[str] | None, expected: bool
) -> None:
    assert (is_machinery(file) if libraries is None else is_machinery(file, libraries)) is expected
