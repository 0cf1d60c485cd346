"""Equal and unequal formulas by name, forward and gradient; what is rejected."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from samebits.errors import MissingRule, NotCovered
from samebits.interpret.field.arithmetic import CONFIRMED
from samebits.interpret.field_proof import proof
from samebits.interpret.field_proof.proof import (
    FIRST_POINTS,
    MOST_PARTS,
    FieldIdentity,
    by_parts,
    identity,
    smaller_parts,
)
from samebits.interpret.field_proof.result import (
    ENOUGH,
    compare_formulas,  # noqa: F401  (by `identity`)
)
from samebits.interpret.problem import Input, Question
from tests.interpret.executed import asked

Array = Any
Function = Callable[..., Any]

RNG = np.random.default_rng(11)
X = RNG.uniform(0.3, 2, (4, 6)).astype(np.float32)
Y = RNG.uniform(0.3, 2, (4, 6)).astype(np.float32)
A, B, C = (RNG.normal(size=(4, 4)).astype(np.float32) for _ in range(3))


def root8() -> Any:
    return np.float32(8**0.5)


def softmax(x: Array, *, shift: bool = True, over: int = 6, below: bool = True) -> Array:
    top = x.max(-1, keepdims=True) if shift else 0.0
    powers = jnp.exp(x - top)
    return powers / (powers if below else jnp.exp(x))[:, :over].sum(-1, keepdims=True)


def powers(sign: int, first: int = 0) -> Array:
    """Frequencies, as of rotary positions."""
    return 5e5 ** (sign * jnp.arange(first, 6 + first) / 6)


def norm(x: Array, epsilon: float = 1e-6, over: int = 6, power: float = -0.5) -> Array:
    return x * ((x * x).sum(-1, keepdims=True) / over + epsilon) ** power


def scanned(x: Array, *, reverse: bool = False, exclusive: bool = False) -> Array:
    def body(total: Array, row: Array) -> tuple[Array, Array]:
        return total + row, total if exclusive else total + row

    return lax.scan(body, jnp.zeros(6, x.dtype), x, reverse=reverse)[1]


def layer_norm(x: Array, degrees: int = 0) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).sum(-1, keepdims=True) / (6 - degrees) + 1e-5)


def layer_and(degrees: int) -> Function:
    return lambda x, y: layer_norm(x, degrees) * y


def wrong_rsqrt() -> Function:
    """The right numbers with a wrong derivative."""

    @jax.custom_jvp
    def function(x: Array) -> Array:
        return lax.rsqrt(x)

    function.defjvp(lambda primals, tangents: (lax.rsqrt(primals[0]), -0.5 * primals[0] ** -0.5 * tangents[0]))
    return lambda x, y: function(x)


def on_devices(body: Function, out: Any) -> Function:
    """A row on each of four devices."""
    mesh = AbstractMesh((4,), ("d",), axis_types=(AxisType.Auto,))
    return lambda x, y: jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=out)(x)


TRUE: dict[str, tuple[Function, Function]] = {
    "(A B) C = A (B C)": (lambda a, b, c: (a @ b) @ c, lambda a, b, c: a @ (b @ c)),
    "(A B)^T = B^T A^T": (lambda a, b, c: (a @ b).T, lambda a, b, c: b.T @ a.T),
    "A (B + C) = A B + A C": (lambda a, b, c: a @ (b + c), lambda a, b, c: a @ b + a @ c),
    "an einsum, a dot": (lambda a, b, c: jnp.einsum("ij,kj->ki", a, b), lambda a, b, c: b @ a.T),
    "a sum in parts": (
        lambda x, y: x.sum(),
        lambda x, y: x[:, 2:].sum(0).sum() + x[::-1, 1] @ np.ones(4) + x[:, 0].sum(),
    ),
    "a mean of squares": (lambda x, y: jnp.mean(x * x), lambda x, y: jnp.sum((x / 24) * x)),
    "a variance": (lambda x, y: jnp.var(x, -1), lambda x, y: (x * x).mean(-1) - x.mean(-1) ** 2),
    "x / y = x (1 / y)": (lambda x, y: x / y, lambda x, y: x * (1 / y)),
    "(x y)^2": (lambda x, y: (x * y) ** 2, lambda x, y: x * x * jnp.square(y)),
    "whole powers": (lambda x, y: x**7 / y**3, lambda x, y: (x * x) ** 3 * x * y**-4 * y),
    "half powers": (lambda x, y: x**-1.5, lambda x, y: lax.rsqrt(x) / x),
    "x / c^k = x c^-k": (lambda x, y: x / powers(1), lambda x, y: x * powers(-1)),
    "c^0 = 1": (lambda x, y: x[:, 0] + y[:, 0], lambda x, y: x[:, 0] + y[:, 0] * powers(-1)[0]),
    "rsqrt": (lambda x, y: lax.rsqrt(x + y), lambda x, y: 1 / jnp.sqrt(y + x)),
    "sqrt(x)^2 = x": (lambda x, y: jnp.sqrt(x) * y * jnp.sqrt(x), lambda x, y: x * y),
    "a product of roots": (lambda x, y: jnp.prod(jnp.sqrt(x[:2]), 0), lambda x, y: jnp.sqrt(x[1]) * jnp.sqrt(x[0])),
    "exp(x + y) = exp(x) exp(y)": (lambda x, y: jnp.exp(x + y), lambda x, y: jnp.exp(x) * jnp.exp(y)),
    "exp2(x + y)": (lambda x, y: jnp.exp2(x + y), lambda x, y: jnp.exp2(x) * jnp.exp2(y)),
    "expm1": (lambda x, y: jnp.expm1(x), lambda x, y: jnp.exp(x) - 1),
    "softmax without its maximum": (lambda x, y: softmax(x), lambda x, y: softmax(x, shift=False)),
    "jax's softmax": (lambda x, y: jax.nn.softmax(x - y), lambda x, y: softmax(x - y)),
    "two softmaxes": (lambda x, y: softmax(softmax(x) * y), lambda x, y: softmax(softmax(x, shift=False) * y)),
    "logistic": (lambda x, y: jax.nn.sigmoid(x - y), lambda x, y: 1 / (1 + jnp.exp(y - x))),
    "tanh": (
        lambda x, y: jnp.tanh(x - y),
        lambda x, y: (jnp.exp(x - y) - jnp.exp(y - x)) / (jnp.exp(x - y) + jnp.exp(y - x)),
    ),
    "silu": (lambda x, y: jax.nn.silu(x), lambda x, y: x / (1 + jnp.exp(-x))),
    "erfc": (lambda x, y: lax.erfc(x), lambda x, y: 1 - lax.erf(x)),
    "odd and even": (lambda x, y: jnp.sin(y - x) * jnp.cos(y - x), lambda x, y: -jnp.sin(x - y) * jnp.cos(x - y)),
    "a third": (lambda x, y: x / 3, lambda x, y: x * np.float32(1 / 3)),
    "one over the root of 8": (lambda x, y: x / root8(), lambda x, y: x * np.float32(8**-0.5)),
    "by the root of 8, twice": (lambda x, y: x / root8() / root8(), lambda x, y: x / 8),
    "roots of 2, 3 and 6": (
        lambda x, y: x * np.float32(6**0.5),
        lambda x, y: x * np.float32(2**0.5) * np.float32(3**0.5),
    ),
    "the root of 8 in a softmax": (lambda x, y: softmax(x / root8()), lambda x, y: softmax(x * np.float32(8**-0.5))),
    "a scan, a running sum": (lambda x, y: scanned(x), lambda x, y: jnp.cumsum(x, 0)),
    "a scan, unrolled": (lambda x, y: scanned(x), lambda x, y: jnp.stack([x[: k + 1].sum(0) for k in range(4)])),
    "a scan, a triangle": (lambda x, y: scanned(x), lambda x, y: np.tri(4, dtype=np.float32) @ x),
    "a scan from the end": (lambda x, y: scanned(x, reverse=True), lambda x, y: scanned(x[::-1])[::-1]),
    "a running product": (lambda x, y: jnp.cumprod(x, 0)[-1], lambda x, y: x[0] * (x[1] * (x[2] * x[3]))),
    "through bfloat16": (
        lambda x, y: x * y,
        lambda x, y: (x.astype(jnp.bfloat16) * y.astype(jnp.bfloat16)).astype(x.dtype),
    ),
    "rms norm": (lambda x, y: norm(x), lambda x, y: x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6)),
    "layer norm": (
        lambda x, y: layer_norm(x),
        lambda x, y: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5),
    ),
    "one-hot and gather": (
        lambda x, y: jax.nn.one_hot(np.array([2, 0, 2]), 4) @ x,
        lambda x, y: x[np.array([2, 0, 2])],
    ),
    "x + |x|": (lambda x, y: (x - y) + jnp.abs(x - y), lambda x, y: 2 * jax.nn.relu(x - y)),
    "larger and smaller": (lambda x, y: jnp.maximum(x, y) + jnp.minimum(x, y), lambda x, y: x + y),
    "a sum over devices": (lambda x, y: x.sum(0), on_devices(lambda x: lax.psum(x[0], "d"), P())),
    "a softmax over devices": (
        lambda x, y: jax.nn.softmax(x[:, 0]),
        on_devices(lambda x: (jnp.exp(x) / lax.psum(jnp.exp(x), "d"))[:, 0], P("d")),
    ),
    "sorted": (lambda x, y: jnp.sort(x).sum(-1), lambda x, y: x.sum(-1)),
    "the two largest": (lambda x, y: lax.top_k(x, 2)[0].sum(-1), lambda x, y: jnp.sort(x)[:, -2:].sum(-1)),
}


def both(function: Function) -> Function:
    """The outputs, and the gradient of a weighted sum of them."""

    def loss(*args: Array) -> Array:
        out = function(*args)
        return jnp.sum(out * np.arange(1, out.size + 1, dtype=np.float32).reshape(out.shape))

    return lambda *args: (function(*args), *jax.grad(loss, tuple(range(len(args))))(*args))


def said(first: Function, second: Function, *args: Any, seed: str = "") -> list[FieldIdentity]:
    return list(identity(asked(first, second, *args), seed).values())


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", TRUE)
def test_the_same_mathematics_is_the_same(name: str) -> None:
    first, second = TRUE[name]
    if name == "erfc":  # whose derivative reads bits, in newer versions of jax
        assert said(first, second, X, Y)[0].equal
        return
    args = (A, B, C) if "A" in name or "einsum" in name else (X, Y)
    for one in said(both(first), both(second), *args):
        assert one.equal and one.log2_error <= ENOUGH and one.repetitions >= 2 and one.witness is None, one


FALSE: dict[str, tuple[Function, Function]] = {
    "an epsilon of 1.0001e-6": (lambda x, y: norm(x), lambda x, y: norm(x, 1.0001e-6)),
    "a factor one ulp of bfloat16 off": (
        lambda x, y: x.astype(jnp.bfloat16) * jnp.bfloat16(1 / 3),
        lambda x, y: x.astype(jnp.bfloat16) * jnp.bfloat16(0.33203125),
    ),
    "a factor one ulp of float32 off": (lambda x, y: x / 3, lambda x, y: x * np.nextafter(np.float32(1 / 3), 1)),
    "a constant of seven digits": (lambda x, y: x * np.float32(0.5**0.5), lambda x, y: x * np.float32(0.7071065)),
    "a mean over one less": (lambda x, y: norm(x), lambda x, y: norm(x, over=5)),
    "a variance over n - 1": (layer_and(0), layer_and(1)),
    "no root": (lambda x, y: norm(x), lambda x, y: norm(x, power=-1.0)),
    "a dropped term": (lambda x, y: x.sum(-1), lambda x, y: x[:, :5].sum(-1)),
    "a wrong sign": (lambda x, y: x * y - x, lambda x, y: x * y + x),
    "a transposed operand": (lambda x, y: x @ y.T, lambda x, y: (x @ y.T).T),
    "exp(x) + exp(y)": (lambda x, y: jnp.exp(x + y), lambda x, y: jnp.exp(x) + jnp.exp(y)),
    "exp(x)^y": (lambda x, y: jnp.exp(x * y), lambda x, y: jnp.exp(x) * y),
    "exp(exp(x) exp(y))": (
        lambda x, y: jnp.exp(jnp.exp(x + y)),
        lambda x, y: jnp.exp(jnp.exp(x)) * jnp.exp(jnp.exp(y)),
    ),
    "the maximum missing below": (lambda x, y: softmax(x), lambda x, y: softmax(x, below=False)),
    "a softmax over five": (lambda x, y: softmax(x), lambda x, y: softmax(x, over=5)),
    "a softmax along the other axis": (lambda x, y: jax.nn.softmax(x, -1), lambda x, y: jax.nn.softmax(x, 0)),
    "a temperature of 8 for its root": (lambda x, y: softmax(x / root8()), lambda x, y: softmax(x / 8)),
    "an exponent off by one": (lambda x, y: x**7, lambda x, y: x**6),
    "a half power off": (lambda x, y: x**-1.5, lambda x, y: x**-0.5 / jnp.sqrt(x)),
    "c^k for c^-k": (lambda x, y: x / powers(1), lambda x, y: x * powers(1)),
    "a step off in c^-k": (lambda x, y: x / powers(1), lambda x, y: x * powers(-1, first=1)),
    "tanh(x) for tanh(2 x)": (lambda x, y: jnp.tanh(x), lambda x, y: 2 * jax.nn.sigmoid(x) - 1),
    "relu for silu": (lambda x, y: jax.nn.silu(x), lambda x, y: jax.nn.relu(x)),
    "an exclusive sum": (lambda x, y: scanned(x), lambda x, y: scanned(x, exclusive=True)),
    "a sum from the end": (lambda x, y: scanned(x), lambda x, y: scanned(x, reverse=True)),
    "gate and up exchanged": (lambda x, y: jax.nn.silu(x) * y, lambda x, y: jax.nn.silu(y) * x),
    "the root of a square": (lambda x, y: x - y, lambda x, y: jnp.sqrt((x - y) ** 2)),
    "the largest for the smallest": (lambda x, y: jnp.maximum(x, y), lambda x, y: jnp.minimum(x, y)),
    "one larger for two": (lambda x, y: lax.top_k(x, 2)[0].sum(-1), lambda x, y: 2 * lax.top_k(x, 1)[0].sum(-1)),
    "a gradient stopped": (lambda x, y: x * y, lambda x, y: x * lax.stop_gradient(y)),
    "a straight gradient": (lambda x, y: jnp.tanh(x), lambda x, y: x + lax.stop_gradient(jnp.tanh(x) - x)),
    "-0.5 for -1.5 in a gradient": (lambda x, y: lax.rsqrt(x), wrong_rsqrt()),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", FALSE)
def test_other_mathematics_is_told_apart(name: str) -> None:
    first, second = FALSE[name]
    found = said(both(first), both(second), X, Y)
    assert not all(one.equal for one in found)
    for place, one in enumerate(found):
        assert one.equal == (one.witness is None)
        # A leaf made of constants alone is as good as its dtype: there a last unit is left to the executed accuracy.
        assert not one.undecided or (name, place) == ("a factor one ulp of float32 off", 1), one


@pytest.mark.parametrize("seed", range(12))
def test_a_root_does_not_choose_its_sign(seed: int) -> None:
    """In GF(p^2) the root of a square is it or its negative, by chance; the numbers say which."""
    x = np.array([-1.5], np.float32)
    assert not said(lambda x: x, lambda x: jnp.sqrt(x * x), x, seed=str(seed))[0].equal
    assert not said(lambda x: -x, lambda x: jnp.sqrt(x * x), -x, seed=str(seed))[0].equal


def test_what_cancels_out_is_no_other_formula() -> None:
    """At inputs of ones a gradient of a mean is 0, and all that float64 has of it is noise, which differs by order."""

    def pulled(total: Function) -> Function:
        def mean(x: Array, y: Array) -> Array:
            return total(x, y) / jnp.maximum(y.sum(), 1)

        return lambda x, y, z: jax.vjp(mean, x, y)[1](z)

    first = pulled(lambda x, y: (x * y[:, None]).sum(0))
    args = np.ones((6, 4), np.float32), np.ones(6, np.float32)
    gaps = []
    for seed in range(6):
        z = np.random.default_rng(seed).normal(size=4).astype(np.float32)
        found = said(first, pulled(lambda x, y: jnp.einsum("sd,s->d", x, y)), *args, z)
        assert all(one.equal for one in found)
        gaps.append(max(one.gap for one in found))
        wrong = said(first, pulled(lambda x, y: 1.0001 * jnp.einsum("sd,s->d", x, y)), *args, z)
        assert not any(one.equal for one in wrong)
    assert max(gaps) > 0.1, "no noise was met"


def test_a_proof_beside_a_difference_has_its_probability() -> None:
    """A leaf that differs, or of which the fields cannot tell, is not a reason to believe another after two points."""

    def powers(x: Array, factor: float = 1.0) -> tuple[Array, Array]:
        rows = jnp.exp(jnp.exp(x * np.arange(1, 65, dtype=np.float32)[:, None, None] / 64))
        return rows.sum(0), factor * x

    first, second = said(powers, lambda x: powers(x, 2.0), X)
    assert first.equal and not second.equal
    assert first.log2_error <= ENOUGH and first.repetitions > 2


def test_what_float64_tells_apart_asks_no_law_of_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots that keep their law take sixteen points of a larger field, and move none of the numbers that differ."""
    with_roots: list[bool] = []

    def recorded(kind: Callable[..., Any]) -> Callable[..., Any]:
        def make(repetitions: int, levels: int, extended: bool, *args: Any, **known: Any) -> Any:
            with_roots.append(extended)
            return kind(repetitions, levels, extended, *args, **known)

        return make

    for name in ("Field", "FoldedField"):
        monkeypatch.setattr(proof, name, recorded(getattr(proof, name)))
    assert not said(both(layer_and(0)), both(layer_and(1)), X, Y)[0].equal
    assert with_roots and not any(with_roots)
    # Beside it, a leaf that is equal by that law alone still is.
    root, dropped = said(lambda x: (jnp.sqrt(x), x.sum(0)), lambda x: (x / jnp.sqrt(x), x[:3].sum(0)), X)
    assert root.equal and root.log2_error <= ENOUGH and not dropped.equal
    assert any(with_roots)


def test_laws_that_the_fields_do_not_know_leave_it_undecided() -> None:
    pairs = {
        "log": (lambda x: jnp.log(x) + jnp.log(2 * x), lambda x: jnp.log(2 * x * x)),
        "sin": (lambda x: jnp.sin(2 * x), lambda x: 2 * jnp.sin(x) * jnp.cos(x)),
        "root of a number": (
            lambda x: jnp.exp(x * np.float32(31**0.5) * np.float32(31**0.5)) + jnp.exp(jnp.exp(x)),
            lambda x: jnp.exp(31 * x) + jnp.exp(jnp.exp(x)),
        ),
    }
    for name, (first, second) in pairs.items():
        (found,) = said(first, second, X)
        assert not found.equal and found.undecided and name in found.unknown, name
    (found,) = said(lambda x: jnp.log(x), lambda x: jnp.log(x) * (1 + 1e-6), X)
    assert not found.equal and not found.undecided
    found = said(lambda x: norm(x), lambda x: norm(x, np.nextafter(np.float32(1e-6), 1)), X)[0]
    assert not found.equal and found.gap < 1e-12  # one ulp of the epsilon: too little for float64 to say more


# --- each output is shown in the plainest domain that shows it -------------------------------------------------------


def test_what_the_plain_field_shows_assumes_no_signs_of_roots() -> None:
    """Beside a leaf that needs the law of roots: each leaf is shown where least is assumed, at its own points."""

    def reference(x: Array) -> tuple[Array, Array, Array]:
        return (x + x) * jnp.sqrt(x), jnp.sqrt(x), jnp.sqrt(x) * jnp.sqrt(1 + x)

    def variant(x: Array) -> tuple[Array, Array, Array]:
        return jnp.sqrt(x) * x * 2, x / jnp.sqrt(x), jnp.sqrt(x + x * x) * (1 + 1e-9)

    plainly, by_law, other = said(reference, variant, X)
    assert plainly.equal and by_law.equal and not other.equal
    assert (plainly.repetitions, by_law.repetitions) == (FIRST_POINTS, CONFIRMED)
    kinds = [{each.word for each in one.assumptions} for one in (plainly, by_law)]
    assert ["roots" in each for each in kinds] == [False, True]
    assert "functions" in kinds[0]


# --- the witness of formulas that differ shows numbers that differ, or says that they are equal at these inputs ------

EQUAL = "(equal at these inputs; as formulas they differ)"


def _mean(x: Any, mask: Any) -> Any:
    return (x * mask).sum() / mask.sum()


def _mean_of_means(x: Any, mask: Any) -> Any:
    return (_mean(x[:4], mask[:4]) + _mean(x[4:], mask[4:])) / 2


@pytest.mark.parametrize("ones", [True, False])
def test_equal_numbers_of_a_witness_are_said_to_be(ones: bool) -> None:
    mask = np.ones(8, np.float32) if ones else np.arange(1, 9, dtype=np.float32)
    arrays = {"x": np.arange(8, dtype=np.float32), "mask": mask}
    first, second = (jax.make_jaxpr(side)(*map(jnp.asarray, arrays.values())) for side in (_mean, _mean_of_means))
    inputs = [Input(name, array, magnitudes="given") for name, array in arrays.items()]
    proof = identity(Question(first, second, inputs, ["out"]))["out"]
    assert not proof.equal
    assert (EQUAL in str(proof.witness)) == ones


# What is not covered in one output, or in one element, turns off no comparison of the others.
Side = Callable[..., Any]

MU = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
NU = np.random.default_rng(4).standard_normal((4, 6)).astype(np.float32)
ZERO = np.where(np.arange(24).reshape(4, 6) == 7, 0, NU).astype(np.float32)
NAN = "'out1' holds a NaN at these inputs, which no formula describes"


def proofs(reference: Side, variant: Side, *args: Any) -> dict[str, FieldIdentity]:
    return identity(asked(reference, variant, *args))


def at_any_magnitude(reference: Side, variant: Side) -> dict[str, FieldIdentity]:
    """Formulas of `x` and `nu`, whose magnitudes are not stated."""
    question = asked(reference, variant, MU, NU)
    inputs = [Input(each.name, each.values, magnitudes="all") for each in question.inputs]
    return identity(Question(question.reference, question.variant, inputs, question.outputs))


def with_root(factor: float, limit: float = 20.0) -> Side:
    """A leaf that is clipped, and one with NaN."""
    return lambda x, nu: (factor * jnp.clip(x, -limit, limit), x / jnp.sqrt(nu))


def chosen(factor: float) -> Side:
    """The NaN is met on the way: no maximum of it is known."""
    return lambda x, nu: (factor * x, jnp.maximum(x / jnp.sqrt(nu), 0))


def infinite(factor: float) -> Side:
    return lambda x, nu: (factor * x, x / nu)


def tied(factor: float) -> Side:
    """Numbers that are too close to say which is larger, although they are not the same formula."""
    return lambda x, nu: (factor * x, jnp.sort(jnp.stack([nu, nu + 1e-30 * x]), 0))


def called_back(factor: float) -> Side:
    return lambda x, nu: (factor * x, jax.pure_callback(np.sin, jax.ShapeDtypeStruct((4, 6), jnp.float32), nu))


@pytest.mark.parametrize("sides", [with_root, chosen, infinite, tied, called_back])
def test_other_outputs_are_compared(sides: Callable[[float], Side]) -> None:
    nu = ZERO if sides is infinite else NU
    other, same = (proofs(sides(2.0), sides(factor), MU, nu) for factor in (3.0, 2.0))
    assert not other["out"].equal and not other["out"].undecided and other["out"].not_covered is None
    assert same["out"].equal and same["out"].not_covered is None
    for each in (other["out1"], same["out1"]):
        assert not each.equal and each.undecided and each.not_covered is not None


def test_other_outputs_are_compared_at_other_magnitudes() -> None:
    different = at_any_magnitude(with_root(2.0), with_root(2.0, 40.0))
    assert "64 times as large" in str(different["out"].witness)
    assert different["out1"].not_covered == NAN


def elements(below: float = 20.0, factor: Any = 1.0, of_roots: float = 1.0) -> Side:
    """Elements that are NaN where `x` is negative, beside others."""
    return lambda x, nu: (x, jnp.concatenate([of_roots * jnp.sqrt(x), factor * jnp.clip(nu, -below, below)]))


def test_other_elements_of_an_output_are_compared() -> None:
    different = proofs(elements(), elements(factor=1.5), MU, NU)["out1"]
    assert (
        not different.undecided
        and different.witness is not None
        and different.witness[:6] in ("out1[4", "out1[5", "out1[6", "out1[7")
    )


def test_elements_that_differ_are_not_those_that_are_nan() -> None:
    different = proofs(elements(), elements(of_roots=2.0), MU, NU)["out1"]
    assert not different.undecided and "nan" not in str(different.witness)


def test_other_elements_are_compared_at_other_magnitudes() -> None:
    different = at_any_magnitude(elements(), elements(below=40.0))["out1"]
    assert not different.undecided and "64 times as large" in str(different.witness)
    assert at_any_magnitude(elements(), elements())["out1"].not_covered == NAN


def test_equal_elements_are_no_proof_of_an_output_with_nan() -> None:
    same = proofs(elements(), elements(), MU, NU)
    assert same["out"].equal
    assert not same["out1"].equal and same["out1"].undecided and same["out1"].not_covered == NAN


def test_rounded_constants_beside_nan_are_not_a_difference() -> None:
    def divided(x: Any, nu: Any) -> Any:
        return x, jnp.concatenate([jnp.sqrt(x), nu * 0.3]).astype(jnp.bfloat16)

    def multiplied(x: Any, nu: Any) -> Any:
        return x, jnp.concatenate([jnp.sqrt(x).astype(jnp.bfloat16), nu.astype(jnp.bfloat16) * 0.3])

    assert proofs(divided, multiplied, MU, NU)["out1"].not_covered == NAN


def rooted(of: float = 1.0, *, law: bool = False) -> Side:
    """NaN in one output, and in the other what is the same formula by a law of roots."""
    return lambda x, nu: (jnp.sqrt(jnp.abs(x)) ** 2 if law else jnp.abs(of * x), jnp.sqrt(nu))


def test_roots_beside_nan_keep_their_law() -> None:
    assert proofs(rooted(), rooted(law=True), MU, NU)["out"].equal
    different = proofs(rooted(1 + 1e-7), rooted(law=True), MU, NU)["out"]
    assert not different.equal and not different.undecided


def nearly(epsilon: float) -> Side:
    return lambda x, nu: (x * (1.0 + epsilon * x), jnp.sqrt(nu))


def test_small_differences_beside_nan_are_seen() -> None:
    different = proofs(nearly(0.0), nearly(2.0**-60), MU, NU)["out"]
    assert not different.equal and different.witness is not None and different.not_covered is None


def test_what_is_covered_nowhere_is_an_error() -> None:
    with pytest.raises(NotCovered, match="holds a NaN"):
        proofs(lambda x, nu: jnp.sqrt(x), lambda x, nu: jnp.sqrt(x), MU, NU)
    with pytest.raises(MissingRule, match="pure_callback"):
        proofs(called_back(1.0), lambda x, nu: tuple(map(jnp.sin, called_back(1.0)(nu, x)))[::-1], MU, NU)


def many(x: Any, nu: Any) -> Any:
    return tuple((number + 1) * x for number in range(64))


def test_parts_are_asked_so_many_times_at_most() -> None:
    """All but one of many outputs are covered; or every second one, which would take a question each."""
    question = asked(many, many, MU, NU)
    asked_for: list[int] = []

    def answers(bad: set[str]) -> dict[str, str]:
        asked_for.clear()

        def ask(part: Question) -> dict[str, str]:
            asked_for.append(len(part.outputs))
            if bad & set(part.outputs):
                raise NotCovered("here")
            return dict.fromkeys(part.outputs, "fine")

        return by_parts(question, ask, str)

    assert [name for name, answer in answers({"out7"}).items() if answer == "here"] == ["out7"]
    with pytest.raises(NotCovered):
        answers({f"out{number}" for number in range(1, 64, 2)})
    assert len(asked_for) <= 1 + MOST_PARTS


def test_an_output_alone_has_no_parts() -> None:
    assert smaller_parts(asked(lambda x, nu: x, lambda x, nu: x, MU, NU), NotCovered("here")) == []
